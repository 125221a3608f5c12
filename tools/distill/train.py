# SPDX-License-Identifier: Apache-2.0
"""The student learns the teacher's distribution from shards.

Loss: cross-entropy to the teacher's 16 likeliest tokens, the student's softmax taken over sampled
candidates: the 6 likeliest of every position in the batch, and random others that stand for the
rest of the vocabulary (their logits are raised by log(rest / drawn), so that the sum over them
estimates the sum over all)."""
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from llama import Block, Config, Llama, load_checkpoint, load_gguf, save_checkpoint
from teach import load_shards

LEARN_TOP = 16      # of the teacher's tokens that the loss looks at
CANDIDATE_TOP = 6   # of each position's that every position of the batch competes with
EMBEDDING_STD = 0.05


def principal_embedding(teacher, width):
    """[vocab, width]: the teacher's output embedding, each column times the output norm's weight,
    in its leading principal directions, scaled to EMBEDDING_STD."""
    e = teacher.head().float() * teacher.output_norm.float()
    values, vectors = torch.linalg.eigh(e.T @ e / e.shape[0])
    keep = min(width, e.shape[1])
    y = e @ vectors[:, torch.argsort(values, descending=True)[:keep]]
    y = y * (EMBEDDING_STD / y.std())
    if keep < width:  # a student wider than its teacher
        y = torch.cat([y, torch.randn(e.shape[0], width - keep) * EMBEDDING_STD], 1)
    return y


def init_block(block):
    """Random inputs, zero outputs: a new layer leaves the stream as it is and learns from there."""
    with torch.no_grad():
        for name, p in block.named_parameters():
            if name.endswith("norm"):
                p.fill_(1)
            elif name in ("attn_output", "ffn_down"):
                p.zero_()
            else:
                p.normal_(0, p.shape[1] ** -0.5)


def new_student(args):
    teacher = load_gguf(args.target)
    t = teacher.config
    config = Config(vocab=t.vocab, width=args.width, layers=args.layers, heads=args.heads,
                    kv_heads=args.kv_heads, ff=args.ff, rope_base=t.rope_base, eps=t.eps,
                    context=t.context)
    student = Llama(config)
    with torch.no_grad():
        student.token_embd.copy_(principal_embedding(teacher, config.width))
        student.output_norm.fill_(1)
    for block in student.blk:
        init_block(block)
    return student


def grow(student, layers):
    """Appends layers with zero output."""
    for _ in range(layers):
        block = Block(student.config)
        init_block(block)
        student.blk.append(block.to(student.token_embd.device))
    student.config.layers += layers
    return student


def loss_of(student, tokens, top_id, top_logp, n_random, generator):
    """Mean loss of a batch: tokens [B, T], top_id and top_logp [B, T, LEARN_TOP]."""
    vocab = student.config.vocab
    hidden = student.hidden(tokens).flatten(0, 1)
    always = torch.unique(top_id[..., :CANDIDATE_TOP])
    place = torch.full((vocab,), -1, device=tokens.device)
    place[always] = torch.arange(len(always), device=tokens.device)
    drawn = torch.randperm(vocab, generator=generator)[:n_random].to(tokens.device)
    drawn = drawn[place[drawn] < 0]
    place[drawn] = torch.arange(len(always), len(always) + len(drawn), device=tokens.device)
    logits = F.linear(hidden, student.token_embd[torch.cat([always, drawn])]).float()
    raised = math.log((vocab - len(always)) / len(drawn)) if len(drawn) else 0.0
    sums = torch.cat([logits[:, :len(always)], logits[:, len(always):] + raised], 1)
    total = torch.logsumexp(sums, -1)
    index = place[top_id.flatten(0, 1)]
    p = top_logp.flatten(0, 1).float().exp() * (index >= 0)
    mine = logits.gather(1, index.clamp(min=0))
    return (p * (total[:, None] - mine)).sum() / p.sum()


def learning_rate(step, steps, peak):
    """Linear over the first 2 %, then cosine to zero."""
    warm = max(1, steps // 50)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def optimizer_of(student, peak):
    matrices = [p for n, p in student.named_parameters() if p.ndim > 1 and n != "token_embd"]
    others = [p for n, p in student.named_parameters() if p.ndim == 1 or n == "token_embd"]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                              {"params": others, "weight_decay": 0.0}], lr=peak, betas=(0.9, 0.95))


def train(args):
    """Trains and writes args.out; returns the loss of each step."""
    torch.manual_seed(args.seed)
    data = load_shards(args.data)
    student = load_checkpoint(args.init) if args.init else new_student(args)
    student = grow(student, args.add_layers).to(args.torch_device).train()
    if int(data["top_id"].max()) >= student.config.vocab:
        raise ValueError(f"{args.data}: made with another vocabulary than the student's")
    optimizer = optimizer_of(student, args.lr)
    generator = torch.Generator().manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    count, losses, began = len(data["tokens"]), [], time.monotonic()
    order = np.array([], np.int64)
    for step in range(args.steps):
        while len(order) < args.batch:  # whole passes over the rows, each in a new order
            order = np.concatenate([order, rng.permutation(count)])
        rows, order = np.sort(order[:args.batch]), order[args.batch:]
        batch = [torch.from_numpy(data[k][rows]).to(args.torch_device)
                 for k in ("tokens", "top_id", "top_logp")]
        batch = [batch[0].long()] + [b[..., :LEARN_TOP] for b in batch[1:]]
        batch[1] = batch[1].long()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        with torch.autocast(args.torch_device, torch.bfloat16,
                            enabled=args.torch_dtype == torch.bfloat16):
            loss = loss_of(student, *batch, args.random_candidates, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % args.log_every == 0 or step + 1 == args.steps:
            seen = (step + 1) * args.batch * data["tokens"].shape[1]
            recent = losses[-args.log_every:]
            print(json.dumps({"step": step + 1, "loss": round(sum(recent) / len(recent), 4),
                              "tokens_per_s": round(seen / (time.monotonic() - began))}),
                  flush=True)
    save_checkpoint(student, args.out, steps=args.steps)
    return losses
