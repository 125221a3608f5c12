# SPDX-License-Identifier: Apache-2.0
"""Greedy acceptance of drafted chains, without running a server.

In a round the draft proposes `depth` tokens, each its own first choice. The target accepts those
before the first that is not its own first choice, and says the next token itself. While the drafted
tokens are right, the draft has read the target's own text. So one pass of the draft over that text
says which would be right, and the rounds are counted from that."""
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from answer import written
from llama import load_gguf
from prompts import lines_of
from tokens import Chat, open_tokenizer

DEPTH = 2
TOGETHER = 8  # prompts of about equal length that are answered in one batch


def choose_prompts(path, limit, tokenizer, chat, longest):
    """[(category, tokens)]: the first turns of a file, evenly from its categories, in the file's
    order; prompts of more than `longest` tokens are passed over."""
    by_category = {}
    for line in map(json.loads, lines_of(path)):
        text = line["turns"][0] if "turns" in line else line["prompt"]
        tokens = [*chat.first, *tokenizer.encode(text, special=False), *chat.to_assistant]
        if len(tokens) <= longest:
            by_category.setdefault(line.get("category", "all"), []).append(tokens)
    chosen, rank = [], 0
    while len(chosen) < limit and rank < max(map(len, by_category.values()), default=0):
        chosen += [(c, rows[rank]) for c, rows in by_category.items() if rank < len(rows)]
        rank += 1
    return chosen[:limit]


def chain_counts(right, depth=DEPTH):
    """(accepted, drafted) of the rounds over an answer; right[i]: the draft's choice for token i is
    the target's. At the end of a text no more is drafted than it has tokens."""
    at = accepted = drafted = 0
    while at < len(right):
        n = min(depth, len(right) - at)
        good = 0
        while good < n and right[at + good]:
            good += 1
        accepted, drafted, at = accepted + good, drafted + n, at + good + 1
    return accepted, drafted


@torch.no_grad()
def right_tokens(draft, text, start):
    """For each token of the text from `start` on: is it the draft's first choice behind those
    before it?"""
    tokens = torch.tensor([text], device=draft.token_embd.device)
    hidden = draft.hidden(tokens[:, :-1])[0, start - 1:]
    return (F.linear(hidden, draft.head()).argmax(-1) == tokens[0, start:]).tolist()


def prompt_texts(args):
    """[(category, prompt's length, text)]; kept in args.texts if that is given."""
    path = Path(args.texts) if args.texts else None
    if path and path.exists():
        return [tuple(t) for t in json.loads(path.read_text())]
    tokenizer = open_tokenizer(args.target)
    chat = Chat(tokenizer)
    chosen = choose_prompts(args.prompts, args.limit, tokenizer, chat, args.longest)
    target = load_gguf(args.target, args.torch_dtype, args.torch_device)
    chosen.sort(key=lambda c: len(c[1]))
    result = []
    for at in range(0, len(chosen), TOGETHER):
        part = chosen[at:at + TOGETHER]
        texts = written(target, [tokens for _, tokens in part], args.tokens, chat.ends)
        result += [(category, len(tokens), text) for (category, tokens), text in zip(part, texts)]
    if path:
        path.write_text(json.dumps(result))
    return result


def chains(draft, texts, depth=DEPTH):
    """{category: {"texts", "accepted", "drafted", "acceptance", "greedy"}} with "all"; greedy: the
    share of all tokens that are the draft's first choice."""
    sums = {}
    for category, start, text in texts:
        right = right_tokens(draft, text, start)
        accepted, drafted = chain_counts(right, depth)
        for name in (category, "all"):
            row = (1, accepted, drafted, sum(right), len(right))
            sums[name] = sums.get(name, np.zeros(5, np.int64)) + row
    return {name: {"texts": int(n), "accepted": int(a), "drafted": int(d),
                   "acceptance": round(float(a / d), 4), "greedy": round(float(r / t), 4)}
            for name, (n, a, d, r, t) in sums.items()}
