// SPDX-License-Identifier: Apache-2.0
// The order of eviction. Waiting work is evicted only for the oldest work. The oldest stays
// the oldest until it is done, so that nobody can take from it in turn: all work ends. Pure, no
// state.
#include "sched/evict.h"

bool ft_evict_before(const ft_holder *a, const ft_holder *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->kind == FT_HOLDER_WAITING ? a->since_us > b->since_us : a->since_us < b->since_us;
}

bool ft_evict_may(const ft_holder *holder, bool for_oldest)
{
    return for_oldest || holder->kind != FT_HOLDER_WAITING;
}
