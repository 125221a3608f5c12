// SPDX-License-Identifier: Apache-2.0
// The tables of the edge's statistics, and the ratios of sums. No state.
#include "edge/stats.h"

#include <stdio.h>

#include "learn/trace.h"
#include "learn/waste.h"

#define F(why, name) name,
const char *const ft_why_name[FT_WHY_N] = {FT_WHYS(F)};
#undef F

/* Other rules than the fallback are asked for, or chosen. */
static bool label_text(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    const ft_rule *rule = ft_rules_all[i / FT_WHY_N];
    const ft_why why = (ft_why)(i % FT_WHY_N);
    const bool chosen = why == FT_WHY_TRY || why == FT_WHY_FASTER;
    snprintf(out, FT_STAT_LABEL_SIZE, "rule=\"%s\",reason=\"%s\"", rule->name, ft_why_name[why]);
    return i < FT_WHY_N ? why != FT_WHY_TRY : chosen || why == FT_WHY_ASKED;
}

#define FT_STAT_TYPE ft_gen_stats
#define F(field, n, label, name, help) \
    {#field, name, help, FT_STAT_LABELLED, offsetof(FT_STAT_TYPE, field), n, label},
static const ft_stat gen_table[] = {FT_GEN_STATS(FT_STAT_ROW) FT_GEN_STATS_LABELLED(F)};
#undef F
static const ft_stat usage_table[] = {FT_GEN_USAGE_STATS(FT_STAT_ROW)};
const ft_stat_list ft_gen_usage_stat_list = {usage_table, sizeof usage_table / sizeof *usage_table};
const ft_stat_list ft_gen_stat_list = {gen_table, sizeof gen_table / sizeof *gen_table};
#undef FT_STAT_TYPE

#define FT_STAT_TYPE ft_edge_stats
static const ft_stat edge_table[] = {FT_EDGE_STATS(FT_STAT_ROW)};
const ft_stat_list ft_edge_stat_list = {edge_table, sizeof edge_table / sizeof *edge_table};
#undef FT_STAT_TYPE

#define FT_STAT_TYPE ft_trace_stats
static const ft_stat trace_table[] = {FT_EDGE_TRACE_STATS(FT_STAT_ROW)};
const ft_stat_list ft_edge_trace_stat_list = {trace_table,
                                              sizeof trace_table / sizeof *trace_table};
#undef FT_STAT_TYPE

void ft_gen_count_text(ft_gen_stats *stats, const ft_rule *rule, ft_why why)
{
    for (uint32_t i = 0; ft_rules_all[i]; i++)
        stats->texts[i * FT_WHY_N + why] += ft_rules_all[i] == rule;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

double ft_gen_wasted_share(const ft_gen_stats *stats)
{
    const ft_waste waste = {.useful_us = stats->useful_draft_us,
                            .wasted_us = stats->wasted_draft_us};
    return ft_waste_share(&waste);
}

double ft_gen_align_ratio(const ft_gen_stats *stats)
{
    return ratio(stats->aligned, stats->leaves);
}

double ft_gen_match_ratio(const ft_gen_stats *stats)
{
    return ratio(stats->matched, stats->aligned);
}

double ft_gen_proactive_gain(const ft_gen_stats *stats)
{
    const double per_leaf = ratio(stats->proactive_nodes, stats->leaves);
    if (per_leaf <= 1) /* ordinary drafts had the leaves */
        return 0;
    return ft_gen_align_ratio(stats) * ft_gen_match_ratio(stats) * (per_leaf - 1);
}

ft_status ft_gen_ratios_append(const ft_gen_stats *stats, ft_buf *out)
{
#define F(function, name, help)                          \
    ft_stat_append_head(out, name, help, FT_STAT_RATIO); \
    ft_buf_printf(out, "foretoken_" name " %.6f\n", function(stats));
    FT_GEN_RATIOS(F)
#undef F
    return out->failed ? FT_NOMEM : FT_OK;
}
