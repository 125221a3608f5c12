// SPDX-License-Identifier: Apache-2.0
// Shares of the uplink. Pure.
#include "plan/bandwidth.h"

#include <math.h>

#define NEWTON_MOST 200

/* Seconds of the upload with the whole uplink: lambda I_k / (B_w log2(1 + p_k g_k / sigma^2)). */
static double alone_s(const ft_plan_task *t)
{
    return t->payload_bits > 0 ? t->payload_bits / t->rate_bits_s : 0;
}

double ft_plan_com_s(const ft_plan_task *tasks, uint32_t n, const double *share)
{
    double latest = 0;
    for (uint32_t k = 0; k < n; k++) {
        const double alone = alone_s(&tasks[k]);
        latest = fmax(latest, tasks[k].release_s + (alone > 0 ? alone / share[k] : 0));
    }
    return latest;
}

/* The sum of the shares with which all uploads end at `at`, and its derivative. */
static double shares_at(const ft_plan_task *tasks, uint32_t n, double at, double *slope)
{
    double sum = 0;
    *slope = 0;
    for (uint32_t k = 0; k < n; k++) {
        const double alone = alone_s(&tasks[k]), time = at - tasks[k].release_s;
        sum += alone > 0 ? alone / time : 0;
        *slope -= alone > 0 ? alone / (time * time) : 0;
    }
    return sum;
}

/* The paper prints p_k / g_k in the t*_com of the text below (26). A rate grows with the gain, as
 * in (15) and (27): p_k g_k. `rate_bits_s` has it so (plan/radio.c).
 *
 * With releases the time is where the shares' sum is 1. The sum falls, and falls ever more slowly,
 * as the time grows. So Newton's method, begun at a time that is too early, comes closer without
 * passing it. Too early is the latest release plus its own upload with all of the uplink. */
static double common_end(const ft_plan_task *tasks, uint32_t n)
{
    double sum = 0, at = 0, slope, first = tasks[0].release_s, last = tasks[0].release_s;
    for (uint32_t k = 0; k < n; k++) {
        sum += alone_s(&tasks[k]);
        first = fmin(first, tasks[k].release_s);
        last = fmax(last, tasks[k].release_s);
        at = fmax(at, tasks[k].release_s + alone_s(&tasks[k]));
    }
    if (first == last || sum == 0)
        return last + sum;
    for (int i = 0; i < NEWTON_MOST; i++) {
        const double over = shares_at(tasks, n, at, &slope) - 1;
        const double next = at - over / slope;
        if (over <= 0 || !(next > at))
            break;
        at = next;
    }
    return at;
}

double ft_plan_bandwidth(const ft_plan_task *tasks, uint32_t n, double *share)
{
    const double at = common_end(tasks, n);
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        const double alone = alone_s(&tasks[k]);
        share[k] = alone > 0 ? alone / (at - tasks[k].release_s) : 0;
        sum += share[k];
    }
    for (uint32_t k = 0; k < n; k++) /* of rounding errors only */
        share[k] = sum > 0 ? share[k] / sum : 1.0 / n;
    return sum > 0 ? ft_plan_com_s(tasks, n, share) : at;
}
