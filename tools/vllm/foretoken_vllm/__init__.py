# SPDX-License-Identifier: Apache-2.0
"""A vLLM server as foretoken's target: docs/VLLM.md."""
