// SPDX-License-Identifier: Apache-2.0
// The tables of the edge's statistics, and the ratios of sums. No state.
#include "edge/stats.h"

#include "learn/trace.h"

#define FT_STAT_TYPE ft_gen_stats
static const ft_stat gen_table[] = {FT_GEN_STATS(FT_STAT_ROW)};
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

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
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
