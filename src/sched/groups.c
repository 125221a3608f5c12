// SPDX-License-Identifier: Apache-2.0
// One group or two. With one the engine has nothing to do while all sessions draft; with two it has
// the other group, but passes are smaller, and what a pass costs at any size is paid twice. Sessions
// in runs are in every pass either way. Pure, no state.
#include "sched/groups.h"

/* A gain that is smaller than what predictions are off is none. */
#define WORTH 0.95

/* The pass of all steady sessions and n of the thinking ones. */
static double pass_us(const ft_groups_in *in, uint32_t n)
{
    const ft_pass share = ft_pass_share(in->thinking, n, in->n_thinking);
    const ft_pass pass = ft_pass_sum(in->steady, share);
    return (double)ft_cost_predict(in->cost, &pass);
}

uint32_t ft_groups_cap(const ft_groups_in *in)
{
    uint32_t half = (in->n_thinking + 1) / 2;
    if (in->n_thinking < 2 || in->think_us <= 0)
        return 0;
    double think_us = (double)in->think_us;
    double one = pass_us(in, in->n_thinking) + think_us, part = pass_us(in, half);
    double two = 2 * part > part + think_us ? 2 * part : part + think_us;
    return part > 0 && two < WORTH * one ? in->n_steady + half : 0;
}
