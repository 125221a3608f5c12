// SPDX-License-Identifier: Apache-2.0
// The nodes come best first, so those that bring enough, and those that are likely enough, are the
// first ones. A child is never likelier than its parent. Pure, no state.
#include "spec/enough.h"

#include <math.h>

/* How many of the best nodes bring enough; UINT32_MAX: all of them do not. */
static uint32_t enough_of(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                          uint32_t n_best)
{
    double tokens = 1;
    uint32_t n = 0;
    if (params->enough_tok <= 0)
        return UINT32_MAX;
    while (n < n_best && tokens < (double)params->enough_tok)
        tokens += (double)expf(g->node[best[n++]].cum);
    return tokens < (double)params->enough_tok ? UINT32_MAX : n;
}

static uint32_t likely_of(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                          uint32_t n_best)
{
    uint32_t n = 0;
    while (n < n_best && g->node[best[n]].cum >= params->surplus_logp)
        n++;
    return n;
}

uint32_t ft_enough_wanted(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                          uint32_t n_best)
{
    const uint32_t n = enough_of(g, params, best, n_best);
    if (n == UINT32_MAX)
        return n_best;
    const uint32_t likely = likely_of(g, params, best, n_best);
    return likely > n ? likely : n;
}

uint32_t ft_enough_growing(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                           uint32_t n_best)
{
    const bool brings = enough_of(g, params, best, n_best) != UINT32_MAX;
    return brings ? likely_of(g, params, best, n_best) : n_best;
}
