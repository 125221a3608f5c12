// SPDX-License-Identifier: Apache-2.0
// What policies share. Pure functions, no state.
#include "sched/sched.h"

void ft_hold_add(ft_hold *hold, int64_t arrival_us)
{
    if (hold->n++ == 0 || arrival_us < hold->oldest_us)
        hold->oldest_us = arrival_us;
}

int64_t ft_hold_left_us(const ft_hold *hold, const ft_sched_policy *policy,
                        const ft_sched_limits *limits, int64_t now_us)
{
    if (hold->n == 0 || !policy->start_us)
        return 0;
    int64_t left_us = policy->start_us(hold->n, hold->oldest_us, limits) - now_us;
    return left_us > 0 ? left_us : 0;
}

/* New blocks of n_tok tokens behind n_past of them, the last block shared by nobody. */
static uint32_t plain_blocks(const ft_work *w, uint32_t n_tok, uint32_t block_tok)
{
    uint64_t end = (uint64_t)w->n_past + n_tok;
    uint64_t have = ((uint64_t)w->n_past + block_tok - 1) / block_tok;
    return (uint32_t)((end + block_tok - 1) / block_tok - have);
}

uint32_t ft_work_blocks(const ft_work *work, uint32_t n_tok, uint32_t kv_block_tok)
{
    uint32_t later;
    if (n_tok == 0)
        return 0;
    /* What kv_blocks has beyond the plain count (a shared block to be copied) is needed at once. */
    later = plain_blocks(work, work->n_tok, kv_block_tok) - plain_blocks(work, n_tok, kv_block_tok);
    return work->kv_blocks > later ? work->kv_blocks - later : 0;
}
