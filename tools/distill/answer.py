# SPDX-License-Identifier: Apache-2.0
"""The target answers tasks, many at once, and its opinion on each token of the answers is
stored with them: shards as label.py makes them, without a second pass.

Prompts of about equal length stand in one batch. What all of them have is read in one pass, the
rest token by token, as the answers are written. Rows whose answers have ended leave the batch."""
import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from exclude import Exclusion
from label import prompt_of, rectangle, top_of
from llama import Cache, load_gguf
from prompts import lines_of
from teach import KINDS, TOP, draw
from tokens import Chat, open_tokenizer

READ_ROWS = 16  # of a prompt's pass on a CPU: more need more memory and are not faster
READ_ROWS_GPU = 256
TOP_ROWS = 64   # rows of logits that are searched together, so that they stay in a CPU's cache
LEAVE = 0.8     # rows leave the batch when no more than this share of it goes on


def read_prompts(target, texts, length, cache):
    """Fills the cache with the first `length` tokens of texts [rows, any]."""
    rows = READ_ROWS_GPU if texts.is_cuda else READ_ROWS
    for at in range(0, len(texts), rows) if length else ():
        part = slice(at, at + rows)
        target.hidden(texts[part, :length], cache.part(part))
    cache.used = length


def likeliest(rows, position, logits):
    return logits.argmax(-1)


@torch.no_grad()
def written(target, prompts, count, ends, choose=likeliest):
    """Each prompt with the target's text behind it: `count` tokens at most, ended by one of `ends`.
    choose(rows, position, logits) returns the tokens of these rows (a tensor) behind a position."""
    device = target.token_embd.device
    lengths = torch.tensor([len(p) for p in prompts])
    texts = torch.zeros(len(prompts), int(lengths.max()) + count, dtype=torch.long)
    for i, prompt in enumerate(prompts):
        texts[i, :len(prompt)] = torch.tensor(prompt)
    cache = Cache(target, len(prompts), texts.shape[1])
    texts, shortest, lengths = texts.to(device), int(lengths.min()), lengths.to(device)
    limits, ends = lengths + count, torch.tensor(sorted(ends), device=device)
    read_prompts(target, texts, shortest - 1, cache)
    batch = torch.arange(len(texts), device=device)
    going = torch.ones_like(batch, dtype=torch.bool)
    while len(batch):
        at = cache.used
        hidden = target.hidden(texts[batch, at, None], cache)[:, 0]
        asked = (going[batch] & (lengths[batch] == at + 1)).nonzero()[:, 0]
        if len(asked):
            rows = batch[asked]
            token = choose(rows, at, F.linear(hidden[asked], target.head()))
            texts[rows, at + 1] = token
            lengths[rows] += 1
            going[rows] = ~torch.isin(token, ends) & (lengths[rows] < limits[rows])
        kept = going[batch].nonzero()[:, 0]
        if len(kept) <= LEAVE * len(batch):
            cache.keep(kept)
            batch = batch[kept]
    return [text[:n] for text, n in zip(texts.tolist(), lengths.tolist())]


class Opinions:
    """Chooses tokens at each row's temperature from the TOP likeliest, and keeps what was likely:
    arrays as in a shard. temperatures [rows]; 0 takes the likeliest."""

    def __init__(self, temperatures, length, device, seed):
        self.temperatures = torch.tensor(temperatures, device=device)[:, None]
        self.generator = torch.Generator(device).manual_seed(seed)
        shape = (len(temperatures), length, TOP)
        self.top_id = torch.zeros(shape, dtype=torch.int32, device=device)
        self.top_logp = torch.zeros(shape, dtype=torch.float16, device=device)

    def choose(self, rows, position, logits):
        step = len(rows) if logits.is_cuda else TOP_ROWS
        chosen = []
        for at in range(0, len(rows), step):
            part, these = logits[at:at + step], rows[at:at + step]
            values, index = top_of(part, TOP)
            values, n = values.float(), index.shape[1]  # a smaller vocabulary fills its own part
            total = torch.logsumexp(part.float(), -1, keepdim=True)
            self.top_logp[these, position] = -65504
            self.top_logp[these, position, :n] = (values - total).clamp(min=-65504).half()
            self.top_id[these, position, :n] = index.int()
            best = draw(values, self.temperatures[these], self.generator)
            chosen.append(index.gather(1, best[:, None])[:, 0])
        return torch.cat(chosen)


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


def answer_batch(args, target, rows, tokenizer, seed):
    """Answers a batch. Returns its answers (JSON lines), its shard's arrays, and the number of the
    answers' tokens."""
    ends = Chat(tokenizer).ends
    rng = random.Random(seed)
    opinions = Opinions([rng.choice(args.temperatures) for _ in rows],
                        max(len(p) for _, p in rows) + args.tokens, args.torch_device, seed)
    texts = written(target, [p for _, p in rows], args.tokens, ends, opinions.choose)
    answers = [text[len(p):] for text, (_, p) in zip(texts, rows)]
    lines = [{"id": task["id"], "finish": "stop" if ids[-1] in ends else "length",
              "text": tokenizer.decode(ids[:-1] if ids[-1] in ends else ids)}
             for ids, (task, _) in zip(answers, rows)]
    data = rectangle([(text, [True] * len(p) + [False] * (len(text) - len(p)),
                       KINDS.index(task["id"].split("-")[0]))
                      for text, (task, p) in zip(texts, rows)])
    length = data["tokens"].shape[1]
    data["top_id"] = opinions.top_id[:, :length].cpu().numpy()
    data["top_logp"] = opinions.top_logp[:, :length].cpu().numpy()
    return lines, data, sum(map(len, answers))


def write_batch(path, lines, data):
    """The answers first: a batch whose shard is there is complete."""
    path.with_suffix(".jsonl").write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **data)
    os.replace(part, path)


def answer(args):
    """Writes a shard and a file of answers for each batch; those that are there are kept, so a run
    can be resumed."""
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_tokenizer(args.target)
    exclusion = Exclusion(args.exclude)
    work = batches(args, tokenizer, exclusion)
    target = load_gguf(args.target, args.torch_dtype, args.torch_device)
    with ThreadPoolExecutor() as pool:  # a shard is compressed while the next batch is answered
        writes = []
        for number, rows in enumerate(work):
            path = out / f"{args.prefix}{number:05d}.npz"
            if path.exists():
                continue
            began = time.monotonic()
            lines, data, count = answer_batch(args, target, rows, tokenizer, args.seed + number)
            writes.append(pool.submit(write_batch, path, lines, data))
            seconds = time.monotonic() - began
            print(f"{path.name} of {len(work)}: {len(rows)} answers of {count} tokens, prompts up "
                  f"to {len(rows[-1][1])}, {count / seconds:.0f} tokens/s", flush=True)
        for write in writes:
            write.result()
    print(f"{sum(map(len, work))} answers; {exclusion.refused} refused (--exclude)")
