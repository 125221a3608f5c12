# SPDX-License-Identifier: Apache-2.0
"""The teacher writes text and its opinion on each token of it, in shards on disk.

A shard NNNNN.npz is one batch of rows:
  tokens   int32   [rows, length]      the text
  top_id   int32   [rows, length, 32]  the likeliest next tokens behind each position, in order
  top_logp float16 [rows, length, 32]  their log-probabilities, temperature 1
  given    bool    [rows, length]      the token was put there (template, opener), not sampled
  kind     uint8   [rows]              see KINDS
"""
import os
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from exclude import Exclusion
from llama import Cache, load_gguf
from tokens import Chat, open_tokenizer

KINDS = ("chat", "own", "free", "passage",  # opener given; wholly the teacher's; no chat; with text
         # of `prompts` (kinds.py), with answers of foretoken:
         "turn", "writing", "roleplay", "knowledge", "qa", "reasoning", "coding", "math",
         "translation", "summary", "extract", "question", "other", "search")
TOP = 32
TEMPERATURES = (0.0, 0.5, 0.7, 0.9, 1.0)  # of assistant turns
USER_TOKENS = 80  # a user's turn is ended there
TASKS = ("Summarize this text:", "Translate this into French:", "Translate this into German:",
         "Translate this into Spanish:", "List the names and numbers in this text:",
         "What is the main point of this text?", "Ask three questions about this text and answer "
         "them:", "Continue this text:", "Rewrite this text in simple words:",
         "Explain this text to a child:")
OPENERS = """How do I|How can|How does|How many|What is|What are|What would|What does|Why is|Why do|
When did|Where can I|Who was|Which|Can you|Could you|Please|Write a|Write an email|Write a story|
Write a poem about|Write a function|Explain|Explain why|Describe|Give me|Give three|List|Create a|
Design a|Compare|Summarize|Translate|Convert|Calculate|Solve|Find the|If a|A train|A farmer has|
Imagine|Suppose|Tell me|I want to|I need|I am|I have a|My|The|There are|In the|Is it|Are there|
Should I|Do you|Does|Let's|Help me|Suggest|Name|Define|Classify|Extract|Rewrite|Edit|Correct|
Implement|Fix this|Use|Make a|Plan a|Develop|Act as|You are a|As a|Pretend|Generate|Compose|Draft|
Analyze|Discuss|Provide|Identify|Determine|Prove|Show|Hello|Hi,|Thanks|Once upon a time|
Who is|Who wrote|Who won|When was|Where is|What year|What country|How long|How old|Which of|
In which|You are a doctor|Act as a teacher|Imagine you are|Write a Python function|
Write a C++ program|
Write a SQL query|Write a blog post about|Write a short story|Write a letter to|
Write a product description|Given the following|Evaluate the following|Extract the|
Analyze the following|Tom has|Maria buys|A store sells|A class of|If John|Sarah has|There were|
A car travels|What is the difference between|Explain the concept of|Describe the process of|
Discuss the impact of|What were the main causes of|Explain how|Why did|Outline|Could you write|
Solve for x|What is the probability|Simplify|A rectangle has|Each|At a farm"""


def read_passages(path):
    """Paragraphs of a text file, parted by empty lines."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return [" ".join(p.split()) for p in text.split("\n\n") if len(p.split()) >= 20]


def read_openers(path):
    """How users' turns begin: lines of a file, without one those above."""
    text = Path(path).read_text(encoding="utf-8") if path else OPENERS
    return [o for o in (s.strip() for s in text.replace("\n", "|").split("|")) if o]


class Row:
    """One row's course: `queue` holds tokens that are put, when it is empty the teacher samples."""

    def __init__(self, kind, plan, rng):
        self.kind, self.plan, self.rng = kind, plan, rng
        self.tokens, self.given = [], []
        self.user = kind != "free"
        self.turn_tokens = 0
        self.answer_temperature = rng.choice(TEMPERATURES)
        t = plan.tokenizer
        if kind == "free":
            self.queue = deque([t.bos])
            return
        self.queue = deque(plan.chat.first)
        if kind == "chat":
            self.queue.extend(t.encode(rng.choice(plan.openers), special=False))
        elif kind == "passage":
            words = rng.choice(plan.passages)
            passage = t.encode(f"{rng.choice(TASKS)}\n{words}", special=False)
            self.queue.extend(passage[:plan.length // 2])
            self.switch()

    def temperature(self):
        return 1.0 if self.user or self.kind == "free" else self.answer_temperature

    def switch(self):
        """The turn ends: what the template puts between this one and the next is queued."""
        self.queue.extend(self.plan.chat.to_assistant if self.user else self.plan.chat.to_user)
        self.user = not self.user
        self.turn_tokens = 0

    def take(self, sampled):
        """The row's next token, given what the teacher would say."""
        if self.queue:
            token, given = self.queue.popleft(), True
        else:
            token, given = sampled, False
            self.turn_tokens += 1
            if self.kind != "free" and (sampled in self.plan.chat.ends or
                                        (self.user and self.turn_tokens > USER_TOKENS)):
                self.switch()
                token = self.queue.popleft()
                given = token != sampled
        self.tokens.append(token)
        self.given.append(given)
        return token


class Plan:
    def __init__(self, args):
        self.tokenizer = open_tokenizer(args.target)
        self.length = args.length
        self.shares = (args.chat_share, max(0.0, 1 - args.chat_share - args.free_share),
                       args.free_share)
        if args.chat_share + args.free_share > 1.000001:
            raise ValueError("--chat-share and --free-share are more than 1 together")
        self.chat = Chat(self.tokenizer) if args.free_share < 1 else None
        exclusion = Exclusion(args.exclude)
        self.openers = exclusion.keep(read_openers(args.openers))
        self.passages = exclusion.keep(read_passages(args.passages)) if args.passages else []
        if args.passages and not self.passages:
            raise ValueError(f"{args.passages}: no paragraph of 20 words or more")

    def rows(self, count, shard, rng):
        kinds = rng.choices(KINDS[:3], self.shares, k=count)
        if self.passages and shard % 3 == 2:
            kinds = ["free" if k == "free" else "passage" for k in kinds]
        return [Row(kind, self, rng) for kind in kinds]


def draw(values, temperature, generator):
    """Places of tokens that are drawn from logits [..., n] at temperatures that fit them
    (Gumbel-max); at 0 the likeliest."""
    noise = torch.empty_like(values).exponential_(generator=generator).log_().neg_()
    return (values + temperature * noise).argmax(-1)


@torch.no_grad()
def write_rows(teacher, rows, length, generator):
    """Lets the rows run in step; fills their tokens and returns the teacher's top candidates."""
    device = teacher.token_embd.device
    cache = Cache(teacher, len(rows), length)
    top_id = np.zeros((len(rows), length, TOP), np.int32)
    top_logp = np.zeros((len(rows), length, TOP), np.float16)
    sampled = [0] * len(rows)
    for position in range(length):
        column = torch.tensor([[row.take(s)] for row, s in zip(rows, sampled)], device=device)
        logits = teacher(column, cache)[:, 0].float()
        logp, ids = torch.topk(torch.log_softmax(logits, -1), min(TOP, logits.shape[-1]))
        top_id[:, position, :ids.shape[1]] = ids.cpu().numpy()
        top_logp[:, position] = -65504  # a vocabulary smaller than TOP fills only its own part
        top_logp[:, position, :ids.shape[1]] = logp.clamp(min=-65504).cpu().numpy()
        temperature = torch.tensor([row.temperature() for row in rows], device=device)
        sampled = draw(logits, temperature[:, None], generator).tolist()
    return top_id, top_logp


def teach(args):
    """Writes args.shards shards; those that are there already are kept, so a run can be resumed."""
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    plan = Plan(args)
    teacher = load_gguf(args.target, args.torch_dtype, args.torch_device)
    if args.length > teacher.config.context:
        raise ValueError(f"--length {args.length}: the target's context is "
                         f"{teacher.config.context}")
    for shard in range(args.shards):
        path = out / f"{shard:05d}.npz"
        if path.exists():
            continue
        began = time.monotonic()
        rng = random.Random(f"{args.seed} {shard}")
        generator = torch.Generator(args.torch_device).manual_seed(rng.getrandbits(48))
        rows = plan.rows(args.rows, shard, rng)
        top_id, top_logp = write_rows(teacher, rows, args.length, generator)
        part = out / f"{shard:05d}.part.npz"
        np.savez_compressed(part, tokens=np.array([r.tokens for r in rows], np.int32),
                            top_id=top_id, top_logp=top_logp,
                            given=np.array([r.given for r in rows]),
                            kind=np.array([KINDS.index(r.kind) for r in rows], np.uint8))
        os.replace(part, path)
        seconds = time.monotonic() - began
        print(f"shard {shard + 1}/{args.shards}: {args.rows * args.length} tokens, "
              f"{args.rows * args.length / seconds:.0f} tokens/s", flush=True)
        if args.show:
            print(plan.tokenizer.decode(rows[0].tokens), flush=True)


def load_shards(folders):
    """All shards of a folder, or of several, each a dict of arrays."""
    folders = [folders] if isinstance(folders, (str, Path)) else folders
    paths = [p for folder in folders for p in sorted(Path(folder).glob("*.npz"))
             if not p.name.endswith(".part.npz")]
    if not paths:
        raise ValueError(f"{', '.join(map(str, folders))}: no shards: run `teach --out` or "
                         "`label --out` first")
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda p: dict(np.load(p)), paths))
