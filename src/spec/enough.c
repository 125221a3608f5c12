// SPDX-License-Identifier: Apache-2.0
// The nodes come best first, so those that bring enough are the first ones. A child is never
// likelier than its parent. Pure, no state.
#include "spec/enough.h"

#include <math.h>

/* Whether the best nodes bring enough. *n: how many of them do. */
static bool bring_enough(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                         uint32_t n_best, uint32_t *n)
{
    double tokens = 1;
    *n = 0;
    if (params->enough_tok <= 0)
        return false;
    while (*n < n_best && tokens < (double)params->enough_tok)
        tokens += (double)expf(g->node[best[(*n)++]].cum);
    return tokens >= (double)params->enough_tok;
}

uint32_t ft_enough_wanted(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                          uint32_t n_best)
{
    uint32_t n;
    if (!bring_enough(g, params, best, n_best, &n))
        return n_best;
    while (n < n_best && g->node[best[n]].cum >= params->surplus_logp)
        n++;
    return n;
}

uint32_t ft_enough_growing(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                           uint32_t n_best)
{
    uint32_t n;
    if (!bring_enough(g, params, best, n_best, &n))
        return n_best;
    for (n = 0; n < n_best && g->node[best[n]].cum >= params->surplus_logp;)
        n++;
    return n;
}
