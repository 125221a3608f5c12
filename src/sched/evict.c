// SPDX-License-Identifier: Apache-2.0
// The order of eviction. Waiting work is evicted only for the work that is next. That waits for
// turns, which end; meanwhile the caller gives nothing to work that holds nothing. Other work comes
// before it only if it has an earlier time, as ft_evict_next compares them. A tenant's time moves
// on when work of its own that was next has got what it needs. So each tenant comes before it once
// at most, and all work ends. Pure, no state.
#include "sched/evict.h"

#include "sched/tuning.h"

/* A turn takes so many times the time that computing took. So at most a third of the time goes into
 * computing again. With half of it: half of the time; with double: a fifth, but others wait for
 * twice as long. */
#define TURN_TIMES 2

bool ft_evict_before(const ft_holder *a, const ft_holder *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->kind == FT_HOLDER_WAITING ? a->since_us > b->since_us : a->since_us < b->since_us;
}

int64_t ft_evict_turn_us(int64_t spent_us, int64_t now_us)
{
    return now_us + TURN_TIMES * spent_us;
}

int64_t ft_evict_turn_left_us(const ft_holder *holder, int64_t now_us)
{
    int64_t end_us = holder->kind == FT_HOLDER_DETACHED ? 0 : holder->turn_us;
    const int64_t quiet_us = holder->since_us + ft_sched_tune->prompts.active_us;
    if (holder->kind == FT_HOLDER_IDLE && quiet_us < end_us)
        end_us = quiet_us;
    return end_us > now_us ? end_us - now_us : 0;
}

bool ft_evict_may(const ft_holder *holder, bool for_next, int64_t now_us)
{
    return (for_next || holder->kind != FT_HOLDER_WAITING) &&
           ft_evict_turn_left_us(holder, now_us) == 0;
}

bool ft_evict_next(const ft_claim *a, const ft_claim *b)
{
    const int64_t a_us = a->missing ? a->tenant_us : a->since_us;
    const int64_t b_us = b->missing ? b->tenant_us : b->since_us;
    return a_us != b_us ? a_us < b_us : a->since_us < b->since_us;
}
