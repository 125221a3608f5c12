// SPDX-License-Identifier: Apache-2.0
// The table of policies and what policies share. Pure functions, no state.
#include "sched/sched.h"

#include <string.h>

static const ft_sched_policy *const policies[] = {&ft_sched_fcfs, &ft_sched_edf, &ft_sched_wisp,
                                                  &ft_sched_static, &ft_sched_centralized};

const ft_sched_policy *ft_sched_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
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
