// SPDX-License-Identifier: Apache-2.0
// Cells: rounds add up in them. No state but the report.
#include "bench/load_cells.h"

#include <stdio.h>

const char *ft_bench_load_mode_name(ft_bench_load_mode mode)
{
    static const char *const names[] = {
        "plain",     "server-spec", "layer-split",    "edge",       "edge+predictor", "edge+lookup",
        "edge+both", "edge+misled", "edge+proactive", "edge+early", "edge+pipeline"};
    return names[mode];
}

const char *ft_bench_load_rtt_name(const ft_bench_load_report *r, uint32_t i,
                                   char name[FT_BENCH_LOAD_RTT_NAME])
{
    snprintf(name, FT_BENCH_LOAD_RTT_NAME, "%g", r->rtt_us[i] / 1e3);
    return name;
}

void ft_bench_load_report_deinit(ft_bench_load_report *report)
{
    for (size_t m = 0; m < FT_BENCH_LOAD_MODES; m++)
        for (size_t r = 0; r < FT_BENCH_LOAD_RTTS_MAX; r++)
            ft_bench_load_sample_deinit(&report->cell[m][r].sum);
}

void ft_bench_load_report_count(ft_bench_load_report *report, ft_bench_load_mode mode, uint32_t rtt,
                                const ft_bench_load_sample *sample)
{
    ft_bench_load_cell *cell = &report->cell[mode][rtt];
    cell->per_s[cell->n] =
        sample->window_s > 0 ? (double)sample->window_tokens / sample->window_s : 0;
    cell->forward_ms[cell->n] = report->forward_ms;
    cell->itl_ms[cell->n++] = ft_bench_load_values_mean(&sample->itl_ms);
    ft_bench_load_sample_join(&cell->sum, sample);
}

void ft_bench_load_report_add(ft_bench_load_report *report, ft_bench_load_mode mode, uint32_t rtt,
                              ft_bench_load_sample *sample)
{
    ft_bench_load_report_count(report, mode, rtt, sample);
    ft_bench_load_sample_deinit(sample);
    *sample = (ft_bench_load_sample){0};
}

double ft_bench_load_dollars_per_h(const ft_bench_load_report *r, ft_bench_load_mode mode)
{
    const uint32_t devices = mode == FT_BENCH_LOAD_LAYER_SPLIT ? 1
                             : mode < FT_BENCH_LOAD_EDGE       ? 0
                             : mode == FT_BENCH_LOAD_PIPELINE  ? 2 * r->batch
                                                               : r->batch;
    return r->price.server > 0 ? r->price.server + devices * r->price.edge : 0;
}
