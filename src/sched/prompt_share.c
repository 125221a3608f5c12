// SPDX-License-Identifier: Apache-2.0 The share of prompts. A round waits for two passes at most:
// the one that runs when it arrives, and its own. Prompts may be in both. Pure, no state.
#include "sched/prompt_share.h"

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->prompts)

int64_t ft_prompt_share_us(const ft_prompt_share *in)
{
    int64_t left_us = in->budget_us * TUNE.twentieths / 20 + 1 - in->read_us;
    return !in->others ? 0 : left_us > 1 ? left_us : 1;
}

bool ft_prompt_awaits(int64_t quiet_us)
{
    return quiet_us < TUNE.active_us;
}
