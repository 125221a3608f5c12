# SPDX-License-Identifier: Apache-2.0
"""The teacher's opinion on texts that exist: answered tasks of `foretoken batch` become shards.

The shards are those of teach.py, with rows of equal length behind each other: rows are sorted by
length, the end of a shorter row is padded. `given` is false where the target has chosen the token,
and the teacher's candidates are stored only for those tokens (at the position before each)."""
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from exclude import Exclusion
from llama import load_gguf
from prompts import lines_of
from teach import KINDS, TOP
from tokens import Chat, open_tokenizer

BLOCK = 128  # of the vocabulary, for the search of the likeliest tokens
SORT = 16    # shards' worth of rows that are sorted by length together


def prompt_of(turns, tokenizer, chat):
    """(tokens, given) of a chat in which the assistant is to speak: turns by user and assistant in
    turn. The template's end of an answer is the target's own token."""
    tokens, given = list(chat.first), [True] * len(chat.first)
    for i, text in enumerate(turns):
        ids = tokenizer.encode(text, special=False)
        after = chat.to_user if i % 2 else chat.to_assistant
        own = len(ids) + 1 if i % 2 else 0
        tokens += ids + after
        given += [False] * own + [True] * (len(ids) + len(after) - own)
    return tokens, given


def row_of(task, answer, tokenizer, chat):
    """(tokens, given) of a chat: the answer's tokens count, and those of earlier answers."""
    tokens, given = prompt_of([m["content"] for m in task["messages"]], tokenizer, chat)
    ids = tokenizer.encode(answer["text"], special=False)
    ids += chat.to_user[:1] if answer["finish"] == "stop" else []
    return tokens + ids, given + [False] * len(ids)


def top_of(logits, count):
    """Values and ids of the `count` largest of each row of logits [n, vocab]: as topk, but first
    the blocks that can have them are found."""
    n, vocab = logits.shape
    blocks = -(-vocab // BLOCK)
    if blocks <= count:
        return logits.topk(min(count, vocab), -1)
    padded = F.pad(logits, (0, blocks * BLOCK - vocab), value=float("-inf")).view(n, blocks, BLOCK)
    best = padded.amax(-1).topk(count, -1).indices
    values = padded.gather(1, best[..., None].expand(-1, -1, BLOCK)).flatten(1)
    top, at = values.topk(count, -1)
    return top, best.gather(1, at // BLOCK) * BLOCK + at % BLOCK


@torch.no_grad()
def opinions(teacher, tokens, wanted, part=512):
    """top_id, top_logp [rows, length, TOP] at the positions where wanted [rows, length]; zeros
    elsewhere."""
    top_id = np.zeros((*tokens.shape, TOP), np.int32)
    top_logp = np.zeros((*tokens.shape, TOP), np.float16)
    device = teacher.token_embd.device
    hidden = teacher.hidden(torch.from_numpy(tokens).long().to(device))
    hidden = hidden[torch.from_numpy(wanted).to(device)]
    ids, logps = [], []
    for at in range(0, len(hidden), part):
        logits = F.linear(hidden[at:at + part], teacher.head())
        values, index = top_of(logits, TOP)
        total = torch.logsumexp(logits.float(), -1, keepdim=True)
        ids.append(index.cpu())
        logps.append((values.float() - total).clamp(min=-65504).cpu())
    if ids:
        top_id[wanted, :ids[0].shape[1]] = torch.cat(ids).numpy()
        top_logp[wanted] = -65504
        top_logp[wanted, :ids[0].shape[1]] = torch.cat(logps).numpy()
    return top_id, top_logp


def read_rows(args, tokenizer, chat, exclusion):
    """[(tokens, given, kind)] of all pairs of files, cut at args.length, in shards' order."""
    rows, most = [], args.length
    for tasks_path, answers_path in zip(args.tasks, args.answers):
        tasks = {task["id"]: task for task in map(json.loads, lines_of(tasks_path))}
        for answer in map(json.loads, lines_of(answers_path)):
            task = tasks[answer["id"]]
            if exclusion.keep(["\n".join(m["content"] for m in task["messages"])]):
                tokens, given = row_of(task, answer, tokenizer, chat)
                kind = KINDS.index(answer["id"].split("-")[0])
                if not all(given[:most]):
                    rows.append((tokens[:most], given[:most], kind))
    random.Random(args.seed).shuffle(rows)
    step = SORT * args.rows
    return [row for at in range(0, len(rows), step)
            for row in sorted(rows[at:at + step], key=lambda row: len(row[0]))]


def rectangle(rows):
    """Arrays of a shard without the teacher's opinion; padding repeats a row's last token and is
    given."""
    length = max(len(tokens) for tokens, _, _ in rows)
    tokens = np.array([t + t[-1:] * (length - len(t)) for t, _, _ in rows], np.int32)
    given = np.array([g + [True] * (length - len(g)) for _, g, _ in rows])
    return {"tokens": tokens, "given": given, "kind": np.array([k for _, _, k in rows], np.uint8)}


def label(args):
    """Writes shards of args.rows rows; those that are there are kept, so a run can be resumed."""
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_tokenizer(args.target)
    exclusion = Exclusion(args.exclude)
    rows = read_rows(args, tokenizer, Chat(tokenizer), exclusion)
    teacher = load_gguf(args.target, args.torch_dtype, args.torch_device)
    for shard, at in enumerate(range(0, len(rows), args.rows)):
        path = out / f"{args.prefix}{shard:05d}.npz"
        if path.exists():
            continue
        began = time.monotonic()
        data = rectangle(rows[at:at + args.rows])
        wanted = np.zeros_like(data["given"])
        wanted[:, :-1] = ~data["given"][:, 1:]
        parts = [opinions(teacher, data["tokens"][i:i + args.batch], wanted[i:i + args.batch])
                 for i in range(0, len(wanted), args.batch)]
        part = out / f"{args.prefix}{shard:05d}.part.npz"
        np.savez_compressed(part, **data, top_id=np.concatenate([p[0] for p in parts]),
                            top_logp=np.concatenate([p[1] for p in parts]))
        os.replace(part, path)
        speed = wanted.size / (time.monotonic() - began)
        print(f"{path.name}: {wanted.shape[0]} rows x {wanted.shape[1]}, {int(wanted.sum())} "
              f"answered tokens, {speed:.0f} positions/s", flush=True)
    print(f"{len(rows)} rows; {exclusion.refused} refused (--exclude)")
