# SPDX-License-Identifier: Apache-2.0
"""The target answers tasks greedily, many at once, and its opinion on each token of the answers is
stored with them: shards as label.py makes them, without a second pass.

Prompts of about equal length stand in one batch. What all of them have is read in one pass, the
rest token by token, as the answers are written. Rows whose answers have ended leave the batch."""
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from exclude import Exclusion
from label import prompt_of, rectangle, top_of
from llama import Cache, load_gguf
from prompts import lines_of
from teach import KINDS, TOP
from tokens import Chat, open_tokenizer

READ_ROWS = 16  # of a prompt's pass: more need more memory and are not faster
TOP_ROWS = 64   # rows of logits that are searched together, so that they stay in the CPU's cache
LEAVE = 0.8     # rows leave the batch when no more than this share of it goes on


def read_prompts(target, texts, cache):
    """Fills the cache with what stands before the shortest text's last token."""
    length = min(map(len, texts)) - 1
    for at in range(0, len(texts), READ_ROWS) if length else ():
        rows = slice(at, at + READ_ROWS)
        tokens = torch.tensor([t[:length] for t in texts[rows]], device=cache.k.device)
        target.hidden(tokens, cache.part(rows))
    cache.used = length


def likeliest(rows, position, logits):
    return logits.argmax(-1)


@torch.no_grad()
def written(target, prompts, count, ends, choose=likeliest):
    """Each prompt with the target's text behind it: `count` tokens at most, ended by one of `ends`.
    choose(rows, position, logits) returns the tokens of these rows behind a position."""
    texts, limits = [list(p) for p in prompts], [len(p) + count for p in prompts]
    cache = Cache(target, len(texts), max(limits))
    read_prompts(target, texts, cache)
    batch, going = list(range(len(texts))), set(range(len(texts)))
    while going:
        at = cache.used
        column = [[texts[i][min(at, len(texts[i]) - 1)]] for i in batch]
        hidden = target.hidden(torch.tensor(column, device=cache.k.device), cache)[:, 0]
        asked = [k for k, i in enumerate(batch) if i in going and len(texts[i]) == at + 1]
        if asked:
            logits = F.linear(hidden[asked], target.head())
            asked = [batch[k] for k in asked]
            for i, token in zip(asked, choose(asked, at, logits).tolist()):
                texts[i].append(token)
                if token in ends or len(texts[i]) == limits[i]:
                    going.remove(i)
        if going and len(going) <= LEAVE * len(batch):
            kept = [k for k, i in enumerate(batch) if i in going]
            cache.keep(kept)
            batch = [batch[k] for k in kept]
    return texts


class Opinions:
    """Chooses the likeliest tokens, and keeps what else was likely: arrays as in a shard."""

    def __init__(self, rows, length):
        self.top_id = np.zeros((rows, length, TOP), np.int32)
        self.top_logp = np.zeros((rows, length, TOP), np.float16)

    def choose(self, rows, position, logits):
        for at in range(0, len(rows), TOP_ROWS):
            part, these = logits[at:at + TOP_ROWS], rows[at:at + TOP_ROWS]
            values, index = top_of(part, TOP)
            total = torch.logsumexp(part.float(), -1, keepdim=True)
            n = index.shape[1]  # a vocabulary smaller than TOP fills only its own part
            self.top_logp[these, position] = -65504
            self.top_logp[these, position, :n] = (values.float() - total).clamp(min=-65504).cpu()
            self.top_id[these, position, :n] = index.cpu()
        return self.top_id[rows, position, 0]


def batches(args, tokenizer, exclusion):
    """[[(task, prompt)]]: prompts of about equal length together, batches in an order by chance,
    so that the first ones are already a mixture."""
    chat = Chat(tokenizer)
    tasks = [t for path in args.tasks for t in map(json.loads, lines_of(path))]
    rows = [(t, prompt_of([m["content"] for m in t["messages"]], tokenizer, chat)[0])
            for t in tasks if exclusion.keep(["\n".join(m["content"] for m in t["messages"])])]
    rows = sorted((r for r in rows if len(r[1]) + args.tokens <= args.length),
                  key=lambda r: len(r[1]))
    result = []
    while rows:  # the longest first; its length says how many fit into the cache
        size = min(args.rows, max(1, args.cache // (len(rows[-1][1]) + args.tokens)))
        result.append(rows[-size:])
        del rows[-size:]
    random.Random(args.seed).shuffle(result)
    return result


def write_batch(args, target, rows, tokenizer, path):
    """Answers a batch; writes its shard and its answers. Returns the number of the answers'
    tokens."""
    ends = Chat(tokenizer).ends
    opinions = Opinions(len(rows), max(len(p) for _, p in rows) + args.tokens)
    texts = written(target, [p for _, p in rows], args.tokens, ends, opinions.choose)
    answers = [text[len(p):] for text, (_, p) in zip(texts, rows)]
    lines = [{"id": task["id"], "finish": "stop" if ids[-1] in ends else "length",
              "text": tokenizer.decode(ids[:-1] if ids[-1] in ends else ids)}
             for ids, (task, _) in zip(answers, rows)]
    data = rectangle([(text, [True] * len(p) + [False] * (len(text) - len(p)),
                       KINDS.index(task["id"].split("-")[0]))
                      for text, (task, p) in zip(texts, rows)])
    length = data["tokens"].shape[1]
    path.with_suffix(".jsonl").write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **data, top_id=opinions.top_id[:, :length],
                        top_logp=opinions.top_logp[:, :length])
    os.replace(part, path)
    return sum(map(len, answers))


def answer(args):
    """Writes a shard and a file of answers for each batch; those that are there are kept, so a run
    can be resumed."""
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_tokenizer(args.target)
    exclusion = Exclusion(args.exclude)
    work = batches(args, tokenizer, exclusion)
    target = load_gguf(args.target, args.torch_dtype, args.torch_device)
    for number, rows in enumerate(work):
        path = out / f"{args.prefix}{number:05d}.npz"
        if path.exists():
            continue
        began = time.monotonic()
        count = write_batch(args, target, rows, tokenizer, path)
        seconds = time.monotonic() - began
        print(f"{path.name} of {len(work)}: {len(rows)} answers of {count} tokens, prompts up to "
              f"{len(rows[-1][1])}, {count / seconds:.0f} tokens/s", flush=True)
    print(f"{sum(map(len, work))} answers; {exclusion.refused} refused (--exclude)")
