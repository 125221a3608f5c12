// SPDX-License-Identifier: Apache-2.0
// The kept KV of ended texts. Invariant: `blocks` is the sum over the list, and each copy in it has
// blocks. The caller owns the state.
#include "sim/prefixes.h"

#include <assert.h>

#include "sim/wisp_internal.h"

void ft_sim_prefixes_put(ft_sim_prefixes *p, uint32_t place, uint32_t n_tok)
{
    ft_sim_prefix *e = &p->of[place];
    assert(e->blocks == 0);
    if (n_tok < FT_SIM_BLOCK_TOK)
        return;
    *e = (ft_sim_prefix){.blocks = n_tok / FT_SIM_BLOCK_TOK, .older = p->newest};
    if (p->newest)
        p->of[p->newest - 1].newer = place + 1;
    else
        p->oldest = place + 1;
    p->newest = place + 1;
    p->blocks += e->blocks;
}

uint32_t ft_sim_prefixes_take(ft_sim_prefixes *p, uint32_t place)
{
    const ft_sim_prefix e = p->of[place];
    if (e.blocks == 0)
        return 0;
    if (e.older)
        p->of[e.older - 1].newer = e.newer;
    else
        p->oldest = e.newer;
    if (e.newer)
        p->of[e.newer - 1].older = e.older;
    else
        p->newest = e.older;
    p->blocks -= e.blocks;
    p->of[place] = (ft_sim_prefix){0};
    return e.blocks * FT_SIM_BLOCK_TOK;
}

void ft_sim_prefixes_trim(ft_sim_prefixes *p, uint32_t blocks)
{
    while (p->blocks > blocks) {
        ft_sim_prefix *e = &p->of[p->oldest - 1];
        uint32_t over = p->blocks - blocks;
        if (over >= e->blocks)
            (void)ft_sim_prefixes_take(p, p->oldest - 1);
        else {
            e->blocks -= over;
            p->blocks -= over;
        }
    }
}
