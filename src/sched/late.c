// SPDX-License-Identifier: Apache-2.0
// The cause of a late verdict. Each cause is what would have made it late by itself: without the
// server's time, without a wait. Pure; no state.
#include "sched/late.h"

#define F(name, text) [FT_LATE_##name] = text,
const char *const ft_late_name[FT_LATE_CAUSES] = {FT_LATE_LIST(F)};
#undef F

ft_late ft_late_cause(const ft_late_round *r)
{
    const int64_t left_us = r->budget_us - r->arrival_us;
    if (r->verdict_us <= r->budget_us)
        return FT_LATE_NONE;
    if (left_us <= 1) /* where nothing is left, ft_promise_budget leaves 1 us */
        return FT_LATE_NETWORK;
    if (r->spike)
        return FT_LATE_SPIKE;
    return r->verdict_us - r->pass_us > left_us ? FT_LATE_LONG_PASS : FT_LATE_WAITING;
}
