# SPDX-License-Identifier: Apache-2.0
"""How often a draft would be right, on held-out rows of the teacher's.

  greedy    share of positions where the draft's first choice is the teacher's
  overlap   mean of sum over tokens of min(p, q) at temperature 1: the acceptance that the best
            coupling reaches; over the teacher's 32 likeliest tokens, so a slight underestimate

Positions whose next token was put there (template, opener, passage) do not count, except under
"with_given", which counts them all."""
import json

import torch

from accept import chains, prompt_texts
from llama import load_draft
from teach import KINDS, load_shards


@torch.no_grad()
def measure(draft, data, batch=8):
    """data: shards. {kind: {"positions", "greedy", "overlap"}}, with "all" and "with_given" among
    the kinds."""
    sums = torch.zeros(len(KINDS) + 1, 3, dtype=torch.float64)
    device = draft.token_embd.device
    parts = ({k: torch.from_numpy(v[at:at + batch]).to(device) for k, v in shard.items()}
             for shard in data for at in range(0, len(shard["tokens"]), batch))
    for part in parts:
        logits = draft(part["tokens"].long())[:, :-1].float()
        ids = part["top_id"][:, :-1].long()
        p = part["top_logp"][:, :-1].float().exp()
        q = torch.log_softmax(logits, -1).gather(-1, ids).exp()
        overlap = torch.minimum(p, q).sum(-1)
        greedy = logits.argmax(-1) == ids[..., 0]
        counts = ~part["given"][:, 1:]
        for kind in range(len(KINDS) + 1):
            rows = (part["kind"] == kind)[:, None] & counts if kind < len(KINDS) else ~counts
            sums[kind] += torch.stack([rows.sum(), greedy[rows].sum(), overlap[rows].sum()]).cpu()
    result = {}
    table = [*sums[:-1].tolist(), sums[:-1].sum(0).tolist(), sums.sum(0).tolist()]
    for name, (n, greedy, overlap) in zip((*KINDS, "all", "with_given"), table):
        if n:
            result[name] = {"positions": int(n), "greedy": round(greedy / n, 4),
                            "overlap": round(overlap / n, 4)}
    return result


def evaluate(args):
    """Prints one JSON object and returns it."""
    draft = load_draft(args.draft, args.torch_device).eval()
    result = {}
    if args.data:
        data = load_shards(args.data)
        if max(int(d["top_id"].max()) for d in data) >= draft.config.vocab:
            raise ValueError(f"{args.data}: made with another vocabulary than the draft's")
        result |= measure(draft, data)
    if args.prompts:
        result["chains"] = chains(draft, prompt_texts(args), args.depth)
    print(json.dumps(result))
    return result
