// SPDX-License-Identifier: Apache-2.0
// The points of the paper's figures. It does not print the numbers behind its curves; the abscissas
// here are those that its text names, and even steps between them. Stateless.
#include "sim/zhu_figures.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"

#define BIT(scheme) (1u << (scheme))
#define BASE(name)  BIT(FT_ZHU_BASELINE(FT_PLAN_##name))

static const double acceptances[] = {0.5, 0.6, 0.7, 0.8, 0.9}, tasks[] = {10, 30, 50, 70, 90, 100},
                    fewer_tasks[] = {60, 80, 100},
                    inputs[] = {256, 512, 768, 1024, 1280, 1536, 1792},
                    outputs[] = {256, 512, 768, 1024, 1280, 1536, 1792, 2048},
                    bandwidths[] = {10, 15, 20, 25, 30};

static const uint32_t schemes_of[] = {
    BIT(FT_ZHU_PLANNED) | BASE(AUTOREGRESSIVE) | BIT(FT_ZHU_FROM_0),
    BIT(FT_ZHU_PLANNED) | BASE(NO_PIPELINE) | BASE(NO_BATCHING) | BASE(FIXED_LENGTH) |
        BASE(AUTOREGRESSIVE),
    BIT(FT_ZHU_PLANNED) | BASE(STATIC) | BASE(MAXIMUM) | BASE(HEURISTIC) | BASE(AUTOREGRESSIVE),
    BIT(FT_ZHU_PLANNED) | BASE(UNIFORM)};

#define ROWS_MOST 128

static ft_zhu_row *add(ft_zhu_table *t, uint32_t figure, char panel, const char *x_name, double x)
{
    ft_zhu_row *row = &t->rows[t->n++];
    *row = (ft_zhu_row){.figure = figure,
                        .panel = panel,
                        .x_name = x_name,
                        .x = x,
                        .schemes = schemes_of[figure - FT_ZHU_FIRST_FIGURE]};
    return row;
}

/* Figures 7 and 8, of the second pair. */
static void list_sizes(const ft_zhu_config *c, uint32_t figure, ft_zhu_table *t)
{
    for (size_t i = 0; i < FT_COUNT(tasks); i++) {
        ft_zhu_row *row = add(t, figure, 'a', "tasks", tasks[i]);
        row->point = ft_zhu_point_of(c, 1);
        row->point.tasks = (uint32_t)tasks[i];
    }
    for (size_t i = 0; i < FT_COUNT(inputs); i++) {
        ft_zhu_row *row = add(t, figure, 'b', "longest input", inputs[i]);
        row->point = ft_zhu_point_of(c, 1);
        row->point.in_most = (uint32_t)inputs[i];
    }
    for (size_t i = 0; i < FT_COUNT(outputs); i++) {
        ft_zhu_row *row = add(t, figure, 'c', "longest output", outputs[i]);
        row->point = ft_zhu_point_of(c, 1);
        row->point.out_most = (uint32_t)outputs[i];
    }
}

/* Figures 6 and 9, a panel for each pair. */
static void list_acceptances(const ft_zhu_config *c, ft_zhu_table *t)
{
    for (uint32_t pair = 0; pair < FT_ZHU_PAIRS; pair++)
        for (size_t i = 0; i < FT_COUNT(acceptances); i++) {
            ft_zhu_row *row = add(t, 6, (char)('a' + pair), "acceptance", acceptances[i]);
            row->point = ft_zhu_point_of(c, pair);
            row->point.acceptance = acceptances[i];
        }
}

static void list_bandwidths(const ft_zhu_config *c, ft_zhu_table *t)
{
    for (uint32_t pair = 0; pair < FT_ZHU_PAIRS; pair++)
        for (size_t k = 0; k < FT_COUNT(fewer_tasks); k++)
            for (size_t i = 0; i < FT_COUNT(bandwidths); i++) {
                ft_zhu_row *row = add(t, 9, (char)('a' + pair), "MHz", bandwidths[i]);
                row->point = ft_zhu_point_of(c, pair);
                row->point.tasks = (uint32_t)fewer_tasks[k];
                row->point.bandwidth_mhz = bandwidths[i];
            }
}

static void list_rows(const ft_zhu_opts *opts, ft_zhu_table *t)
{
    for (uint32_t figure = FT_ZHU_FIRST_FIGURE; figure <= FT_ZHU_LAST_FIGURE; figure++) {
        if (opts->figure != 0 && opts->figure != figure)
            continue;
        if (figure == 6)
            list_acceptances(opts->config, t);
        else if (figure == 9)
            list_bandwidths(opts->config, t);
        else
            list_sizes(opts->config, figure, t);
    }
}

ft_status ft_zhu_cells(const ft_zhu_opts *opts, const ft_zhu_point *point, uint32_t wanted,
                       ft_error *err, ft_zhu_cell **samples)
{
    const uint32_t seeds = (uint32_t)opts->config->k[FT_ZHU_SEEDS];
    ft_zhu_point read = *point;
    ft_status status = FT_OK;
    read.reading = opts->reading;
    *samples = calloc(seeds, sizeof **samples);
    if (!*samples)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    for (uint32_t i = 0; i < seeds && status == FT_OK; i++) {
        status = ft_zhu_cell_run(opts->config, &read, opts->seed + i, wanted, err, &(*samples)[i]);
        if (status == FT_OK && opts->watch.stop && opts->watch.stop())
            status = ft_error_set(err, FT_CANCELLED, "simulate: stopped");
    }
    if (status != FT_OK) {
        free(*samples);
        *samples = NULL;
    }
    return status;
}

static ft_status fill_row(const ft_zhu_opts *opts, ft_error *err, ft_zhu_row *row)
{
    const uint32_t seeds = (uint32_t)opts->config->k[FT_ZHU_SEEDS];
    double values[FT_ZHU_SEEDS_MAX];
    ft_zhu_cell *samples;
    ft_status status = ft_zhu_cells(opts, &row->point, row->schemes, err, &samples);
    for (uint32_t k = 0; k < FT_ZHU_SCHEMES && status == FT_OK; k++) {
        for (uint32_t i = 0; i < seeds; i++)
            values[i] = samples[i].total_s[k];
        row->total_s[k] = ft_zhu_range_of(values, seeds);
        for (uint32_t i = 0; i < seeds; i++)
            values[i] = samples[i].inf_s[k];
        row->inf_s[k] = ft_zhu_range_of(values, seeds).median;
        for (uint32_t i = 0; i < seeds; i++)
            values[i] = samples[i].length[k];
        row->length[k] = ft_zhu_range_of(values, seeds).median;
        for (uint32_t i = 0; i < seeds; i++)
            values[i] = samples[i].batches[k];
        row->batches[k] = ft_zhu_range_of(values, seeds).median;
    }
    free(samples);
    return status;
}

ft_status ft_zhu_table_make(const ft_zhu_opts *opts, ft_error *err, ft_zhu_table *out)
{
    *out = (ft_zhu_table){.rows = calloc(ROWS_MOST, sizeof *out->rows)};
    ft_status status = out->rows ? FT_OK : ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    if (status == FT_OK)
        list_rows(opts, out);
    for (uint32_t i = 0; i < out->n && status == FT_OK; i++) {
        status = fill_row(opts, err, &out->rows[i]);
        ft_progress_report(&opts->watch.progress, i + 1, out->n);
    }
    if (status != FT_OK)
        ft_zhu_table_deinit(out);
    return status;
}

void ft_zhu_table_deinit(ft_zhu_table *table)
{
    free(table->rows);
    *table = (ft_zhu_table){0};
}
