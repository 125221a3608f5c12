// SPDX-License-Identifier: Apache-2.0
// Finds spikes among passes, and their causes. The time of a pass is measured; how much of it each
// part takes is predicted by the costs. Pure; the caller owns the state.
#include "sched/spike.h"

#include <stdbool.h>

#define GROWN_LEAST 0.1 /* of the time above the mean; a part that grew by less is no cause */

#define F(name, text) [FT_SPIKE_##name] = text,
const char *const ft_spike_name[FT_SPIKE_CAUSES] = {FT_SPIKE_LIST(F)};
#undef F

static ft_spike_seen parts_of(const ft_cost *cost, const ft_pass *pass, const ft_pass *prompts,
                              int64_t us)
{
    ft_spike_seen seen = {.us = (double)us};
    const ft_pass verify = ft_pass_minus(*pass, *prompts);
    double x[FT_COST_FACTORS], y[FT_COST_FACTORS];
    ft_pass_factors(prompts, x);
    ft_pass_factors(&verify, y);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (i != FT_COST_PASS && i != FT_COST_HEAD) { /* paid whatever is in it */
            bool context = i == FT_COST_INTERACTION || i == FT_COST_CACHED_TOK;
            seen.part[FT_SPIKE_COLD_START] += cost->us[i] * x[i];
            seen.part[context ? FT_SPIKE_LONG_CONTEXT : FT_SPIKE_LARGE_BATCH] += cost->us[i] * y[i];
        }
    return seen;
}

static ft_spike_seen mean_of(const ft_spikes *s)
{
    ft_spike_seen mean = {0};
    uint64_t n = s->n_seen < FT_SPIKE_WINDOW ? s->n_seen : FT_SPIKE_WINDOW;
    for (uint64_t i = 0; i < n; i++) {
        mean.us += s->seen[i].us / (double)n;
        for (int c = 0; c < FT_SPIKE_CAUSES; c++)
            mean.part[c] += s->seen[i].part[c] / (double)n;
    }
    return mean;
}

static ft_spike_cause cause_of(const ft_spike_seen *seen, const ft_spike_seen *mean)
{
    ft_spike_cause cause = FT_SPIKE_OTHER;
    double most = GROWN_LEAST * (seen->us - mean->us);
    for (int c = FT_SPIKE_COLD_START; c < FT_SPIKE_OTHER; c++)
        if (seen->part[c] - mean->part[c] > most) {
            most = seen->part[c] - mean->part[c];
            cause = (ft_spike_cause)c;
        }
    return cause;
}

ft_spike_cause ft_spike_observe(ft_spikes *spikes, const ft_cost *cost, const ft_pass *pass,
                                const ft_pass *prompts, int64_t us)
{
    ft_spike_cause cause = FT_SPIKE_NONE;
    if (us <= 0)
        return cause;
    const ft_spike_seen seen = parts_of(cost, pass, prompts, us), mean = mean_of(spikes);
    if (spikes->n_seen > 0 && seen.us > FT_SPIKE_RHO * mean.us) /* eq. (21) */
        cause = cause_of(&seen, &mean);
    spikes->seen[spikes->n_seen++ % FT_SPIKE_WINDOW] = seen;
    spikes->count[cause]++;
    return cause;
}
