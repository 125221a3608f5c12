# SPDX-License-Identifier: Apache-2.0
"""The target writes users' first turns: an opener, and behind it what the target draws, at a
temperature of TEMPERATURES for each batch, from its DRAWN likeliest tokens."""
import json
import random
from pathlib import Path

import torch

from answer import written
from exclude import Exclusion
from label import top_of
from llama import load_gguf
from prompts import read_turns
from teach import draw, read_openers
from tokens import Chat, open_tokenizer

TEMPERATURES = (0.6, 0.8, 1.0)
DRAWN = 64
SHORTEST = 4  # words of a turn


def drawing(temperature, generator):
    """A `choose` for written(): draws from the likeliest tokens."""
    def choose(rows, position, logits):
        values, index = top_of(logits, DRAWN)
        return index.gather(1, draw(values.float(), temperature, generator)[:, None])[:, 0]
    return choose


def turns(args):
    """Appends new turns to args.out. A run that goes on behind an earlier one wants another
    --seed."""
    rng = random.Random(args.seed)
    generator = torch.Generator(args.torch_device).manual_seed(args.seed)
    tokenizer = open_tokenizer(args.target)
    chat, exclusion = Chat(tokenizer), Exclusion(args.exclude)
    openers = exclusion.keep(read_openers(args.openers))
    known = set(read_turns([args.out]) if Path(args.out).exists() else ())
    target = load_gguf(args.target, args.torch_dtype, args.torch_device)
    for at in range(0, args.count, args.rows):
        count = min(args.rows, args.count - at)
        prompts = [chat.first + tokenizer.encode(rng.choice(openers), special=False)
                   for _ in range(count)]
        texts = written(target, prompts, args.tokens, chat.ends,
                        drawing(rng.choice(TEMPERATURES), generator))
        new = [tokenizer.decode(t[len(chat.first):-1]).strip() for t in texts
               if t[-1] in chat.ends]
        new = [t for t in exclusion.keep(new) if len(t.split()) >= SHORTEST]
        new = [t for t in dict.fromkeys(new) if t not in known]
        known.update(new)
        with open(args.out, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(t, ensure_ascii=False) + "\n" for t in new)
        print(f"{len(new)} of {count} are new turns", flush=True)
    print(f"{args.out}: {len(known)} turns; {exclusion.refused} refused (--exclude)")
