// SPDX-License-Identifier: Apache-2.0
// The share of prompts. A round meets two passes at most: one that runs when it arrives, and its
// own; prompts may be in both. Pure, no state.
#include "sched/prompt_share.h"

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->prompts)

int64_t ft_prompt_share_us(const ft_prompt_share *in)
{
    int64_t left_us = in->budget_us * TUNE.twentieths / 20 + 1 - in->read_us;
    return !in->others ? 0 : left_us > 1 ? left_us : 1;
}

uint32_t ft_prompt_lead(bool alone, uint32_t most, uint32_t block_tok)
{
    return alone ? most : block_tok;
}
