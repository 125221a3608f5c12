# SPDX-License-Identifier: Apache-2.0
"""The student learns the teacher's distribution from shards, at the positions whose next token the
teacher chose.

Loss: cross-entropy to the teacher's 16 likeliest tokens, the student's softmax taken over sampled
candidates: the 6 likeliest of every position in the batch, and random others that stand for the
rest of the vocabulary (their logits are raised by log(rest / drawn), so that the sum over them
estimates the sum over all)."""
import json
import math
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from llama import Block, Config, Llama, load_draft, load_gguf, save_checkpoint
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


class CandidateLoss(torch.autograd.Function):
    """Sum over positions of the cross-entropy of p to the softmax of hidden @ weight.T + bias, part
    by part: nothing of size [positions, candidates] is kept, gradients are made in the forward
    pass.

    hidden [n, width], weight [candidates, width], bias [candidates]; index [n, k] candidates of the
    teacher's tokens and p [n, k] their weights, 0 for those that are none."""

    PART, PART_GPU = 512, 8192

    @staticmethod
    def forward(ctx, hidden, weight, bias, index, p):
        d_hidden, d_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=torch.float32)
        loss = torch.zeros((), device=hidden.device)
        step = CandidateLoss.PART_GPU if hidden.is_cuda else CandidateLoss.PART
        for at in range(0, len(hidden), step):
            part = slice(at, at + step)
            logits = F.linear(hidden[part], weight).float().add_(bias)
            mine = logits.gather(1, index[part])
            total = torch.logsumexp(logits, 1, keepdim=True)
            loss += (p[part] * (total - mine)).sum()
            d = logits.sub_(total).exp_().mul_(p[part].sum(1, keepdim=True))
            d.scatter_add_(1, index[part], -p[part])
            d = d.to(hidden.dtype)
            d_hidden[part] = d @ weight
            d_weight += d.T @ hidden[part]
        ctx.save_for_backward(d_hidden, d_weight)
        return loss

    @staticmethod
    def backward(ctx, scale):
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * scale, d_weight * scale, None, None, None


def candidates_of(top_id, vocab, n_random, generator):
    """(ids of the candidates, place of each token among them or -1, bias): the likeliest of each
    position, and random others whose logits are raised so that they stand for all the rest."""
    always = torch.unique(top_id[..., :CANDIDATE_TOP])
    place = torch.full((vocab,), -1, device=top_id.device)
    place[always] = torch.arange(len(always), device=top_id.device)
    drawn = torch.randperm(vocab, generator=generator)[:n_random].to(top_id.device)
    drawn = drawn[place[drawn] < 0]
    place[drawn] = torch.arange(len(always), len(always) + len(drawn), device=top_id.device)
    bias = torch.zeros(len(always) + len(drawn), device=top_id.device)
    if len(drawn):
        bias[len(always):] = math.log((vocab - len(always)) / len(drawn))
    return torch.cat([always, drawn]), place, bias


def loss_of(student, tokens, top_id, top_logp, n_random, generator, wanted=None, sharpen=1.0):
    """Mean loss of a batch: tokens [B, T], top_id and top_logp [B, T, LEARN_TOP]; wanted [B, T]:
    the positions that count, None: all. sharpen: the teacher's probabilities to this power."""
    hidden = student.hidden(tokens)
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    wanted = torch.ones_like(tokens, dtype=torch.bool) if wanted is None else wanted
    hidden, top_id, top_logp = hidden[wanted], top_id[wanted], top_logp[wanted].float()
    ids, place, bias = candidates_of(top_id, student.config.vocab, n_random, generator)
    index = place[top_id]
    p = (top_logp * sharpen).exp() * (index >= 0)
    p = p / p.sum(1, keepdim=True) if sharpen != 1.0 else p
    weight = student.token_embd[ids].to(hidden.dtype)
    return CandidateLoss.apply(hidden, weight, bias, index.clamp(min=0), p) / p.sum()


def learning_rate(step, steps, peak, cooldown=0.4):
    """Linear over the first 2 %, then constant, then linear to zero over the last `cooldown` of the
    steps."""
    warm, down = max(1, steps // 50), max(1, round(steps * cooldown))
    return peak * min((step + 1) / warm, 1.0, (steps - step) / down)


def optimizer_of(student, peak):
    matrices = [p for n, p in student.named_parameters() if p.ndim > 1 and n != "token_embd"]
    others = [p for n, p in student.named_parameters() if p.ndim == 1 or n == "token_embd"]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                              {"params": others, "weight_decay": 0.0}], lr=peak, betas=(0.9, 0.95),
                             fused=True)


class Batches:
    """Batches of about `budget` positions, from one shard each, padding cut off. A pass takes every
    row once, in an order that depends on the seed and the pass only, so training that goes on gets
    what it would have got. All shards stay in the device's memory."""

    def __init__(self, folders, budget, seed, device="cpu"):
        self.shards, self.budget, self.seed = load_shards(folders), budget, seed
        self.largest = max(int(s["top_id"].max()) for s in self.shards)
        self.rows = sum(len(s["tokens"]) for s in self.shards)
        for shard in self.shards:
            wanted = np.zeros_like(shard["given"])
            wanted[:, :-1] = ~shard["given"][:, 1:]
            # behind each row's last wanted position, 0 without one
            shard["end"] = (wanted * np.arange(1, wanted.shape[1] + 1)).max(1)
            shard["wanted"] = torch.from_numpy(wanted).to(device)
            shard["tokens"] = torch.from_numpy(shard["tokens"]).to(device)
            for k in ("top_id", "top_logp"):
                learnt = np.ascontiguousarray(shard[k][..., :LEARN_TOP])
                shard[k] = torch.from_numpy(learnt).to(device)

    def order(self, number):
        """[(shard, rows)] of a pass."""
        rng = np.random.default_rng((self.seed, number))
        result = []
        for i, shard in enumerate(self.shards):
            count, length = shard["tokens"].shape
            size = max(1, self.budget // length)
            rows = rng.permutation(count)
            result += [(i, np.sort(rows[at:at + size])) for at in range(0, count, size)]
        return [result[i] for i in rng.permutation(len(result))]

    def steps(self, start, stop):
        """(step, batch) of steps start to stop - 1; batch None: none of its positions counts."""
        step, number = 0, 0
        while step < stop:
            for i, rows in self.order(number):
                if start <= step < stop:
                    yield step, self.batch(i, rows)
                step += 1
            number += 1

    def batch(self, i, rows):
        shard = self.shards[i]
        length = int(shard["end"][rows].max())
        if not length:
            return None
        rows = torch.from_numpy(rows).to(shard["tokens"].device)
        tokens, top_id, top_logp, wanted = (
            shard[k][rows, :length] for k in ("tokens", "top_id", "top_logp", "wanted"))
        return tokens.long(), top_id.long(), top_logp, wanted


class State:
    """Student, optimizer and step; `save` writes all of it, so that the same command goes on from
    there."""

    def __init__(self, args):
        self.path = Path(args.out)
        self.progress = self.path.with_suffix(".progress")
        resumed = self.progress.exists()
        if resumed:
            saved = torch.load(self.progress, map_location="cpu", weights_only=True)
            student = Llama(Config(**saved["config"]))
            student.load_state_dict(saved["weights"])
        else:
            student = grow(first_student(args), args.add_layers)
        self.student = student.to(args.torch_device).requires_grad_(True).train()
        self.optimizer = optimizer_of(self.student, args.lr)
        self.step = 0
        if resumed:
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]
            print(f"{self.progress}: goes on from step {self.step}", flush=True)

    def save(self):
        part = self.progress.with_suffix(".part")
        torch.save({"config": asdict(self.student.config), "weights": self.student.state_dict(),
                    "optimizer": self.optimizer.state_dict(), "step": self.step}, part)
        os.replace(part, self.progress)
        save_checkpoint(self.student, self.path, steps=self.step)


def first_student(args):
    if not args.init:
        return new_student(args)
    return load_draft(args.init)


def take_step(state, batch, args, generator):
    """One step of the optimizer; returns the loss, which may still be computed."""
    tokens, top_id, top_logp, wanted = batch
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate(state.step, args.steps, args.lr, args.cooldown)
    bf16 = args.torch_dtype == torch.bfloat16
    with torch.autocast(args.torch_device, torch.bfloat16, enabled=bf16):
        loss = loss_of(state.student, tokens, top_id, top_logp, args.random_candidates, generator,
                       wanted, args.sharpen)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state.student.parameters(), 1.0)
    state.optimizer.step()
    state.step += 1
    return loss.detach()


def train(args):
    """Trains and writes args.out; returns the loss of each step that this call has made."""
    torch.manual_seed(args.seed)
    state = State(args)
    batches = Batches(args.data, args.batch, args.seed, args.torch_device)
    if batches.largest >= state.student.config.vocab:
        raise ValueError(f"{args.data}: made with another vocabulary than the student's")
    losses, seen, began = [], 0, time.monotonic()
    saved = began
    for step, batch in batches.steps(state.step, args.steps):
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
        if batch:
            losses.append(take_step(state, batch, args, generator))
            seen += batch[0].numel()
        else:
            state.step += 1
        if state.step % args.log_every == 0 or state.step == args.steps:
            recent = losses[-args.log_every:]
            print(json.dumps({"step": state.step,
                              "loss": round(float(sum(recent)) / max(1, len(recent)), 4),
                              "tokens_per_s": round(seen / (time.monotonic() - began))}),
                  flush=True)
        if time.monotonic() - saved > args.save_every or state.step == args.steps:
            state.save()
            saved = time.monotonic()
    return [float(loss) for loss in losses]
