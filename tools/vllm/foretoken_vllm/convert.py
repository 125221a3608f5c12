# SPDX-License-Identifier: Apache-2.0
"""A GGUF file as a folder that vLLM loads: its weights as float32 in safetensors, its tokenizer.

    PYTHONPATH=tools/vllm python -m foretoken_vllm.convert target.gguf FOLDER"""
import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    parser = argparse.ArgumentParser(description="Makes a folder for vLLM of a GGUF file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    where = {"gguf_file": args.file.name}
    model = AutoModelForCausalLM.from_pretrained(args.file.parent, dtype=torch.float32, **where)
    args.folder.mkdir(parents=True, exist_ok=True)
    if hasattr(model.config, "quantization_config"):  # the file's; the weights are float32 now
        del model.config.quantization_config
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(args.folder)
    weights = model.state_dict()
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    save_file(weights, args.folder / "model.safetensors", metadata={"format": "pt"})
    AutoTokenizer.from_pretrained(args.file.parent, **where).save_pretrained(args.folder)


if __name__ == "__main__":
    main()
