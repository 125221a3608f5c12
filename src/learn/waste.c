// SPDX-License-Identifier: Apache-2.0
// WISP eq. (7) to (9). No state.
#include "learn/waste.h"

ft_waste ft_waste_of(uint32_t drafted, uint32_t accepted, uint64_t draft_us)
{
    ft_waste w = {.useful_us = draft_us};
    if (drafted == 0)
        return w;
    w.tokens = drafted - accepted;                                           /* (7) */
    w.wasted_us = (uint64_t)((double)draft_us / drafted * (double)w.tokens); /* (8) */
    w.useful_us = draft_us - w.wasted_us;                                    /* (9) */
    return w;
}

double ft_waste_share(const ft_waste *waste)
{
    const uint64_t us = waste->useful_us + waste->wasted_us;
    return us > 0 ? (double)waste->wasted_us / (double)us : 0;
}
