# SPDX-License-Identifier: Apache-2.0
"""The mean of several drafts' weights. Drafts that come from one another by training are close
enough for that; their mean forgets less of what the first one knew."""
import torch

from llama import load_draft, save_checkpoint


@torch.no_grad()
def average(args):
    """Writes args.out."""
    result = load_draft(args.drafts[0])
    for path in args.drafts[1:]:
        other = load_draft(path)
        if other.config != result.config:
            raise ValueError(f"{path}: not of the same shape as {args.drafts[0]}")
        for mine, its in zip(result.parameters(), other.parameters(), strict=True):
            mine += its
    for p in result.parameters():
        p /= len(args.drafts)
    save_checkpoint(result, args.out, mean_of=len(args.drafts))
    print(f"{args.out}: mean of {len(args.drafts)} drafts")
