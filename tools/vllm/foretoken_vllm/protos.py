# SPDX-License-Identifier: Apache-2.0
"""The messages and services of proto/, compiled when this module is imported."""
import sys
from pathlib import Path

import grpc

sys.path.append(str(Path(__file__).resolve().parents[3] / "proto"))
pb, rpc = grpc.protos_and_services("foretoken.proto")
health_pb, health_rpc = grpc.protos_and_services("health.proto")
sys.path.pop()
