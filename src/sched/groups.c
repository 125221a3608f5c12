// SPDX-License-Identifier: Apache-2.0
// One group or two. With one the engine has nothing to do while all sessions draft; with two it has
// the other group, but passes are smaller, and what a pass costs at any size is paid twice.
// Sessions in runs are in every pass either way. Pure, no state.
#include "sched/groups.h"

#include "sched/tuning.h"

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
    return part > 0 && two < ft_sched_tune->batch.groups_worth * one ? in->n_steady + half : 0;
}

static void thinks(ft_groups_survey *survey, const ft_think *think)
{
    survey->n_known += think->known;
    survey->think_us += think->us;
}

void ft_groups_waits(ft_groups_survey *survey, const ft_pass *shape, const ft_think *think)
{
    survey->n_waiting++;
    survey->waiting = ft_pass_sum(survey->waiting, *shape);
    thinks(survey, think);
}

void ft_groups_steady(ft_groups_survey *survey, const ft_pass *shape)
{
    survey->n_steady++;
    survey->steady = ft_pass_sum(survey->steady, *shape);
}

void ft_groups_expects(ft_groups_survey *survey, const ft_think *think)
{
    survey->n_expected++;
    thinks(survey, think);
}

ft_groups_in ft_groups_of(const ft_groups_survey *survey, const ft_cost *cost)
{
    ft_groups_in in = {.n_thinking = survey->n_waiting + survey->n_expected,
                       .n_steady = survey->n_steady,
                       .steady = survey->steady,
                       .cost = cost};
    if (survey->n_waiting > 0)
        in.thinking = ft_pass_share(survey->waiting, in.n_thinking, survey->n_waiting);
    if (survey->n_known > 0)
        in.think_us = (int64_t)(survey->think_us / survey->n_known);
    return in;
}
