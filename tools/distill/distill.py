#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a draft model for a target: teach, train, export, evaluate. See README.md here."""
import argparse
import sys


def add_common(parser, dtype):
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's choice")
    if dtype:
        parser.add_argument("--dtype", default=dtype, choices=("bf16", "f32"),
                            help="numbers of the computation (%(default)s)")


def parser_of():
    show = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    p = commands.add_parser("teach", formatter_class=show, help="the target writes text, in shards")
    p.add_argument("--target", required=True, help="GGUF, architecture llama, any weight type")
    p.add_argument("--out", required=True, help="folder for the shards")
    p.add_argument("--shards", type=int, default=36, help="batches to write")
    p.add_argument("--rows", type=int, default=192, help="rows a shard")
    p.add_argument("--length", type=int, default=352, help="tokens a row")
    p.add_argument("--chat-share", type=float, default=0.75, help="chats with a given opener")
    p.add_argument("--free-share", type=float, default=0.125,
                   help="text without a chat; what is left: chats without an opener")
    p.add_argument("--passages", help="text file, paragraphs parted by empty lines: in every third "
                   "shard user turns carry one with a task")
    p.add_argument("--openers", help="text file of openers, one a line")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", action="store_true", help="print a row of each shard")
    add_common(p, "bf16")

    p = commands.add_parser("train", formatter_class=show, help="the student learns from shards")
    p.add_argument("--target", help="GGUF of the teacher: a new student's embedding comes from it")
    p.add_argument("--init", help="go on from this checkpoint instead")
    p.add_argument("--data", required=True, help="folder of shards")
    p.add_argument("--out", required=True, help="checkpoint to write")
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--ff", type=int, default=768, help="width of the feed-forward part")
    p.add_argument("--add-layers", type=int, default=0, help="layers with zero output to add first")
    p.add_argument("--steps", type=int, default=4260)
    p.add_argument("--batch", type=int, default=12, help="rows a step")
    p.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    p.add_argument("--random-candidates", type=int, default=2048)
    p.add_argument("--log-every", type=int, default=50, help="steps")
    p.add_argument("--seed", type=int, default=1)
    add_common(p, "bf16")

    p = commands.add_parser("export", formatter_class=show, help="checkpoint to GGUF")
    p.add_argument("--student", required=True, help="checkpoint")
    p.add_argument("--target", required=True, help="GGUF whose tokenizer is copied")
    p.add_argument("--out", required=True, help="GGUF to write")
    p.add_argument("--type", default="f16", choices=("f16", "f32"))
    p.add_argument("--name", help="general.name of the file")

    p = commands.add_parser("evaluate", formatter_class=show, help="agreement on held-out shards")
    p.add_argument("--draft", required=True, help="checkpoint, or GGUF of any weight type")
    p.add_argument("--data", required=True, help="folder of shards that were not trained on")
    add_common(p, None)
    return parser


def main(argv=None):
    parser = parser_of()
    args = parser.parse_args(argv)
    if args.command == "train" and bool(args.target) == bool(args.init):
        parser.error("train: pass one of --target (a new student) and --init (go on)")
    try:
        import torch
    except ImportError:
        sys.exit("distill: PyTorch is missing: pip install -r tools/distill/requirements.txt")
    import evaluate
    import export
    import teach
    import train
    if getattr(args, "threads", 0) > 0:
        torch.set_num_threads(args.threads)
    device = getattr(args, "device", "cpu")
    args.torch_device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" \
        else device
    args.torch_dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[getattr(args, "dtype", "f32")]
    command = {"teach": teach.teach, "train": train.train, "export": export.export,
               "evaluate": evaluate.evaluate}[args.command]
    try:
        return command(args)
    except (ValueError, OSError) as error:
        sys.exit(f"distill {args.command}: {error}")


if __name__ == "__main__":
    main()
