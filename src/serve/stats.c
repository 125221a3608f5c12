// SPDX-License-Identifier: Apache-2.0
// The table of the verifier's statistics, and sums over it. The names of metrics contain their
// units. The page has sums and counts but no means, so its reader can choose the time window of a
// mean. This file has no state.
#include "serve/stats.h"

#include <stdio.h>

static bool label_cause(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    snprintf(out, FT_STAT_LABEL_SIZE, "cause=\"%s\"", ft_spike_name[i]);
    return i != FT_SPIKE_NONE;
}

static bool label_class(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    const ft_verifier_stats *s = values;
    snprintf(out, FT_STAT_LABEL_SIZE, "tokens_per_s=\"%g\"", (double)s->slo_tokens_per_s[i]);
    return i < s->n_slo;
}

static bool label_late(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    const ft_verifier_stats *s = values;
    const size_t class = i / FT_LATE_CAUSES, cause = i % FT_LATE_CAUSES;
    snprintf(out, FT_STAT_LABEL_SIZE, "tokens_per_s=\"%g\",cause=\"%s\"",
             class < s->n_slo ? (double)s->slo_tokens_per_s[class] : 0, ft_late_name[cause]);
    return class < s->n_slo && cause != FT_LATE_NONE;
}

static bool label_class_or_none(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    if (i != FT_SLO_NONE)
        return label_class(values, i, out);
    snprintf(out, FT_STAT_LABEL_SIZE, "tokens_per_s=\"0\"");
    return true;
}

#define FT_STAT_TYPE ft_verifier_stats
#define F(field, n, label, name, help) \
    {#field, name, help, FT_STAT_LABELLED, offsetof(FT_STAT_TYPE, field), n, label},
#define G(field, n, label, name, help) \
    {#field, name, help, FT_STAT_LABELLED_GAUGE, offsetof(FT_STAT_TYPE, field), n, label},
static const ft_stat table[] = {FT_VERIFIER_STATS(FT_STAT_ROW) FT_VERIFIER_STATS_LABELLED(F)
                                    FT_VERIFIER_GAUGES_LABELLED(G)};
#undef F
#undef G

const ft_stat_list ft_verifier_stat_list = {table, sizeof table / sizeof *table};

uint64_t ft_verifier_stats_verify_us(const ft_verifier_stats *stats)
{
    return stats->forward_us + stats->head_us + stats->judge_us;
}

uint64_t ft_verifier_stats_busy_us(const ft_verifier_stats *stats)
{
    return ft_stats_total(&ft_verifier_stat_list, stats, FT_STAT_WORK);
}
