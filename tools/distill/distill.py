#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a draft model for a target: teach (or turns, prompts, answer), train, export, evaluate.
See README.md here."""
import argparse
import importlib
import sys

SHOW = argparse.ArgumentDefaultsHelpFormatter


def add_common(parser, dtype):
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's choice")
    if dtype:
        parser.add_argument("--dtype", default=dtype, choices=("bf16", "f32"),
                            help="numbers of the computation (%(default)s)")


def add_exclude(parser):
    parser.add_argument("--exclude", nargs="*",
                        help="files with texts that must not be trained on, such as a benchmark's "
                        "prompts: a text that contains one is refused (exclude.py)")


def add_target(parser):
    parser.add_argument("--target", required=True, help="GGUF, architecture llama, any weight type")


def add_teach(commands):
    p = commands.add_parser("teach", formatter_class=SHOW, help="the target writes text, in shards")
    add_target(p)
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
    add_exclude(p)
    add_common(p, "bf16")


def add_prompts(commands):
    p = commands.add_parser("prompts", formatter_class=SHOW,
                            help="tasks for foretoken batch: users' turns")
    p.add_argument("--out", required=True, help="file of tasks to write (JSON lines)")
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--kinds", help="only these kinds of turns.txt, separated by commas")
    p.add_argument("--passages", nargs="*",
                   help="files of paragraphs parted by empty lines, for turns with a text")
    p.add_argument("--sentences", nargs="*",
                   help="files of German sentences, one a line, for turns that want a translation")
    p.add_argument("--topics", nargs="*",
                   help="files of topics, one a line, besides those of turns.txt")
    p.add_argument("--turns", nargs="*",
                   help="files of whole first turns, one a line as a JSON string")
    p.add_argument("--after", nargs=2, metavar=("TASKS", "ANSWERS"),
                   help="instead of first turns: a further turn for each of these tasks")
    p.add_argument("--max-tokens", type=int, default=256, help="of an answer")
    p.add_argument("--seed", type=int, default=1)
    add_exclude(p)


def add_turns(commands):
    p = commands.add_parser("turns", formatter_class=SHOW,
                            help="the target writes users' first turns")
    add_target(p)
    p.add_argument("--out", required=True, help="file for the turns, one a line as a JSON string; "
                   "what it has is kept")
    p.add_argument("--count", type=int, default=1000, help="turns to try")
    p.add_argument("--openers", help="text file of openers, one a line")
    p.add_argument("--rows", type=int, default=384, help="turns at once")
    p.add_argument("--tokens", type=int, default=56,
                   help="of a turn behind its opener; longer ones are dropped")
    p.add_argument("--seed", type=int, default=1)
    add_exclude(p)
    add_common(p, "bf16")


def add_answer(commands):
    p = commands.add_parser("answer", formatter_class=SHOW,
                            help="the target answers tasks; the answers become shards")
    add_target(p)
    p.add_argument("--tasks", nargs="+", required=True, help="files of tasks")
    p.add_argument("--out", required=True, help="folder for the shards, and the answers as JSON "
                   "lines beside each")
    p.add_argument("--prefix", default="", help="of the shards' names, to add more to a folder")
    p.add_argument("--rows", type=int, default=384, help="answers at once, at most")
    p.add_argument("--cache", type=int, default=130000,
                   help="positions of all answers at once, at most; bounds the memory")
    p.add_argument("--tokens", type=int, default=224, help="of an answer, at most")
    p.add_argument("--temperatures", type=float, nargs="+", default=[0.0],
                   help="each answer has one of these by chance; 0 takes the likeliest token")
    p.add_argument("--length", type=int, default=1024,
                   help="tokens of prompt and answer; tasks that need more are passed over")
    p.add_argument("--seed", type=int, default=1)
    add_exclude(p)
    add_common(p, "bf16")


def add_label(commands):
    p = commands.add_parser("label", formatter_class=SHOW, help="answered tasks become shards")
    add_target(p)
    p.add_argument("--tasks", nargs="+", required=True, help="files of tasks")
    p.add_argument("--answers", nargs="+", required=True,
                   help="the answers of foretoken batch to each file")
    p.add_argument("--out", required=True, help="folder for the shards")
    p.add_argument("--prefix", default="", help="of the shards' names, to add more to a folder")
    p.add_argument("--rows", type=int, default=64, help="rows a shard")
    p.add_argument("--batch", type=int, default=8, help="rows of a pass")
    p.add_argument("--length", type=int, default=1024,
                   help="tokens a row at most; what is longer is cut")
    p.add_argument("--seed", type=int, default=1)
    add_exclude(p)
    add_common(p, "bf16")


def add_train(commands):
    p = commands.add_parser("train", formatter_class=SHOW, help="the student learns from shards")
    p.add_argument("--target", help="GGUF of the teacher: a new student's embedding comes from it")
    p.add_argument("--init", help="go on from this checkpoint or GGUF instead")
    p.add_argument("--data", required=True, nargs="+", help="folders of shards")
    p.add_argument("--out", required=True, help="checkpoint to write; with its ending replaced by "
                   ".progress the file from which the same command goes on")
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--ff", type=int, default=768, help="width of the feed-forward part")
    p.add_argument("--add-layers", type=int, default=0, help="layers with zero output to add first")
    p.add_argument("--steps", type=int, default=4260)
    p.add_argument("--batch", type=int, default=4224, help="positions a step, about")
    p.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    p.add_argument("--cooldown", type=float, default=0.4,
                   help="share of the steps in which the rate falls to zero")
    p.add_argument("--sharpen", type=float, default=1.0,
                   help="learn the teacher's probabilities to this power: above 1 for greedy texts")
    p.add_argument("--random-candidates", type=int, default=2048)
    p.add_argument("--save-every", type=float, default=180, help="seconds between checkpoints")
    p.add_argument("--log-every", type=int, default=50, help="steps")
    p.add_argument("--seed", type=int, default=1)
    add_common(p, "bf16")


def add_average(commands):
    p = commands.add_parser("average", formatter_class=SHOW, help="mean of drafts' weights")
    p.add_argument("--drafts", nargs="+", required=True,
                   help="checkpoints or GGUF files of one shape, which come from one another")
    p.add_argument("--out", required=True, help="checkpoint to write")


def add_export(commands):
    p = commands.add_parser("export", formatter_class=SHOW, help="checkpoint to GGUF")
    p.add_argument("--student", required=True, help="checkpoint")
    p.add_argument("--target", required=True, help="GGUF whose tokenizer is copied")
    p.add_argument("--out", required=True, help="GGUF to write")
    p.add_argument("--type", default="f16", choices=("f16", "f32"))
    p.add_argument("--name", help="general.name of the file")


def add_evaluate(commands):
    p = commands.add_parser("evaluate", formatter_class=SHOW,
                            help="agreement on held-out shards, acceptance on prompts")
    p.add_argument("--draft", required=True, help="checkpoint, or GGUF of any weight type")
    p.add_argument("--data", nargs="*", help="folders of shards that were not trained on")
    p.add_argument("--prompts", help="JSON lines with `turns` or `prompt`, and `category`: how "
                   "often drafted chains are accepted in the target's greedy answers")
    p.add_argument("--target", help="--prompts: GGUF of the target")
    p.add_argument("--limit", type=int, default=40,
                   help="--prompts: how many, evenly from the categories")
    p.add_argument("--longest", type=int, default=700,
                   help="--prompts: longer ones (tokens) are passed over")
    p.add_argument("--tokens", type=int, default=128, help="--prompts: of an answer at most")
    p.add_argument("--depth", type=int, default=2, help="--prompts: tokens drafted a round")
    p.add_argument("--texts", help="--prompts: file for the target's answers, which are taken "
                   "from there if it exists")
    add_common(p, "bf16")


COMMANDS = {"teach": add_teach, "turns": add_turns, "prompts": add_prompts, "answer": add_answer,
            "label": add_label, "train": add_train, "average": add_average, "export": add_export,
            "evaluate": add_evaluate}


def parser_of():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for add in COMMANDS.values():
        add(commands)
    return parser


def check(parser, args):
    """Flags that only make sense together."""
    if args.command == "train" and bool(args.target) == bool(args.init):
        parser.error("train: pass one of --target (a new student) and --init (go on)")
    if args.command == "label" and len(args.tasks) != len(args.answers):
        parser.error("label: pass as many files to --answers as to --tasks")
    if args.command == "evaluate" and not (args.data or args.prompts):
        parser.error("evaluate: pass --data, --prompts or both")
    if args.command == "evaluate" and args.prompts and not args.target:
        parser.error("evaluate: --prompts needs --target")


def main(argv=None):
    parser = parser_of()
    args = parser.parse_args(argv)
    check(parser, args)
    try:
        import torch
    except ImportError:
        sys.exit("distill: PyTorch is missing: pip install -r tools/distill/requirements.txt")
    if getattr(args, "threads", 0) > 0:
        torch.set_num_threads(args.threads)
    device = getattr(args, "device", "cpu")
    args.torch_device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" \
        else device
    args.torch_dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[getattr(args, "dtype", "f32")]
    command = getattr(importlib.import_module(args.command), args.command)
    try:
        return command(args)
    except (ValueError, OSError) as error:
        sys.exit(f"distill {args.command}: {error}")


if __name__ == "__main__":
    main()
