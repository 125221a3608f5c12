// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate zhu`: figures 6 to 9 of Zhu et al. by the planner's own functions, and the
// paper's claims beside what comes out (sim/zhu_claims.h). Main thread only.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "sim/zhu_claims.h"

/* The ways to read what the paper does not fix: its -30 dBm is no gain, and III-B takes all outputs
 * to be O_max, which section IV does not say of its simulations. */
static const ft_zhu_reading readings[] = {{1e-6, false}, {1e-6, true}, {1e-3, false}, {1e-3, true}};
#define READINGS FT_COUNT(readings)

typedef struct simulate {
    const char *config_path, *plot;
    int64_t seed, figure;
    bool json, all;
    ft_zhu_config config;
    ft_zhu_reading reading;
    ft_zhu_table table;
    ft_zhu_claims claims, others[READINGS];
} simulate;

static bool has(const ft_zhu_row *row, uint32_t scheme)
{
    return row->schemes >> scheme & 1;
}

/* ---- JSON ---- */

static json_t *number_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *row_json(const simulate *f, const ft_zhu_row *row)
{
    const char panel[2] = {row->panel, 0};
    json_t *schemes = json_array();
    for (uint32_t i = 0; i < FT_ZHU_SCHEMES; i++)
        if (has(row, i))
            json_array_append_new(schemes, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                                                     ft_zhu_scheme_name(i), "total_s",
                                                     number_or_null(row->total_s[i].median), "low",
                                                     number_or_null(row->total_s[i].low), "high",
                                                     number_or_null(row->total_s[i].high),
                                                     "t_inf_s", number_or_null(row->inf_s[i]),
                                                     "length", number_or_null(row->length[i]),
                                                     "batches", number_or_null(row->batches[i])));
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:f, s:o}", "figure", (int)row->figure, "panel",
                     panel, "pair", f->config.pair[row->point.pair].name, "tasks",
                     (int)row->point.tasks, "x_name", row->x_name, "x", row->x, "schemes", schemes);
}

static void add_claims(json_t *list, const ft_zhu_claims *claims)
{
    for (uint32_t i = 0; i < claims->n; i++) {
        const ft_zhu_claim *c = &claims->at[i];
        char figure[8];
        snprintf(figure, sizeof figure, "%u%c", c->figure % 100, c->panel);
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:o, s:o, s:o, s:s}", "name",
                                              c->name, "figure", figure, "paper", c->paper, "ours",
                                              number_or_null(c->ours.median), "low",
                                              number_or_null(c->ours.low), "high",
                                              number_or_null(c->ours.high), "reading", c->reading));
    }
}

static json_t *report_of(const simulate *f)
{
    json_t *rows = json_array(), *claims = json_array(), *others = json_array();
    for (uint32_t i = 0; i < f->table.n; i++)
        json_array_append_new(rows, row_json(f, &f->table.rows[i]));
    add_claims(claims, &f->claims);
    for (size_t i = 0; i < READINGS; i++)
        add_claims(others, &f->others[i]);
    return json_pack("{s:s, s:s, s:I, s:i, s:o, s:o, s:o}", "command", "simulate zhu", "config",
                     f->config_path ? f->config_path : "built in", "seed", (json_int_t)f->seed,
                     "cells", (int)f->config.k[FT_ZHU_SEEDS], "rows", rows, "claims", claims,
                     "other_readings", others);
}

/* ---- for people ---- */

static bool same_panel(const ft_zhu_row *a, const ft_zhu_row *b)
{
    return a->figure == b->figure && a->panel == b->panel && a->point.tasks == b->point.tasks;
}

/* Rows of a panel; in panels over the number of tasks this is what changes. */
static bool begins(const simulate *f, uint32_t i)
{
    const ft_zhu_row *row = &f->table.rows[i];
    return i == 0 || (!same_panel(row, row - 1) &&
                      (row->figure != row[-1].figure || row->panel != row[-1].panel ||
                       strcmp(row->x_name, "tasks") != 0));
}

static void print_rows(const simulate *f)
{
    for (uint32_t i = 0; i < f->table.n; i++) {
        const ft_zhu_row *row = &f->table.rows[i];
        if (begins(f, i)) {
            printf("%sfigure %u%c, %s", i ? "\n" : "", row->figure, row->panel,
                   f->config.pair[row->point.pair].name);
            if (strcmp(row->x_name, "tasks") != 0)
                printf(", %u tasks", row->point.tasks);
            printf("; seconds until all tasks are complete (length)\n%14s", row->x_name);
            for (uint32_t k = 0; k < FT_ZHU_SCHEMES; k++)
                if (has(row, k))
                    printf(" %18s", ft_zhu_scheme_name(k));
            printf("\n");
        }
        printf("%14g", row->x);
        for (uint32_t k = 0; k < FT_ZHU_SCHEMES; k++)
            if (has(row, k))
                printf(" %13.1f (%2.0f)", row->total_s[k].median, row->length[k]);
        printf("\n");
    }
}

/* Plain decoding of all tasks in one batch, beside the plan with speculation. */
static void print_plain(const simulate *f)
{
    const char *before = "\n";
    for (uint32_t i = 0; i < f->table.n; i++) {
        const ft_zhu_row *row = &f->table.rows[i];
        const double batches = row->batches[FT_ZHU_FROM_0];
        if (row->figure != 6 || row->x != f->config.k[FT_ZHU_ACCEPTANCE] ||
            row->length[FT_ZHU_FROM_0] != 0)
            continue;
        printf("%s%s at acceptance %g: without drafts, %g batch%s: %.0f s of inference; the plan "
               "with drafts: %.0f s\n",
               before, f->config.pair[row->point.pair].name, row->x, batches,
               batches == 1 ? "" : "es", row->inf_s[FT_ZHU_FROM_0], row->inf_s[FT_ZHU_PLANNED]);
        before = "";
    }
}

static void print_claims(const ft_zhu_claims *claims, bool with_reading)
{
    for (uint32_t i = 0; i < claims->n; i++) {
        const ft_zhu_claim *c = &claims->at[i];
        printf("%2u%c %-66s %6.1f %6.1f %6.1f %6.1f\n", c->figure, c->panel, c->name, c->paper,
               c->ours.median, c->ours.low, c->ours.high);
        if (with_reading)
            printf("      %s\n", c->reading);
    }
}

static void print_report(const simulate *f)
{
    print_rows(f);
    print_plain(f);
    if (f->claims.n == 0)
        return;
    printf("\nclaims: by how many %% the plan takes less; over %g cells\n%-70s %6s %6s %6s %6s\n",
           f->config.k[FT_ZHU_SEEDS], "", "paper", "ours", "10 %", "90 %");
    print_claims(&f->claims, true);
    for (size_t i = 0; i < READINGS; i++)
        if (f->others[i].n > 0) {
            printf("\nthe same with g0 = %g and %s\n", readings[i].g0,
                   readings[i].own_outputs ? "each task's own output" : "longest outputs");
            print_claims(&f->others[i], false);
        }
}

/* ---- the plot ---- */

static void plot_panel(const simulate *f, uint32_t first, FILE *out)
{
    const ft_zhu_row *rows = &f->table.rows[first];
    uint32_t n = 1;
    bool comma = false;
    while (first + n < f->table.n && !begins(f, first + n))
        n++;
    char tasks[32] = "";
    if (strcmp(rows->x_name, "tasks") != 0)
        snprintf(tasks, sizeof tasks, ", %u tasks", rows->point.tasks);
    fprintf(out,
            "set title 'figure %u%c: %s%s'\nset xlabel '%s'\nset ylabel 'seconds'\n"
            "set yrange [0:*]\nplot ",
            rows->figure, rows->panel, f->config.pair[rows->point.pair].name, tasks, rows->x_name);
    for (uint32_t k = 0; k < FT_ZHU_SCHEMES; k++)
        if (has(rows, k)) {
            fprintf(out, "%s'-' title '%s' with linespoints", comma ? ", " : "",
                    ft_zhu_scheme_name(k));
            comma = true;
        }
    fprintf(out, "\n");
    for (uint32_t k = 0; k < FT_ZHU_SCHEMES; k++) {
        if (!has(rows, k))
            continue;
        for (uint32_t i = 0; i < n; i++)
            fprintf(out, "%g %g\n", rows[i].x, rows[i].total_s[k].median);
        fprintf(out, "e\n");
    }
}

static ft_status plot(const simulate *f, ft_error *err)
{
    uint32_t panels = 0;
    for (uint32_t i = 0; i < f->table.n; i++)
        panels += begins(f, i);
    const uint32_t lines = (panels + 2) / 3;
    ft_plot p = {.command = "simulate", .path = f->plot, .width = 1800, .height = 360 * lines};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key outside right\nset multiplot layout %u,3\n", lines);
    for (uint32_t i = 0; i < f->table.n; i++)
        if (begins(f, i))
            plot_panel(f, i, p.gnuplot);
    fprintf(p.gnuplot, "unset multiplot\n");
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

static ft_status run_setting(simulate *f, ft_error *err)
{
    ft_zhu_opts opts = {
        .config = &f->config,
        .seed = (uint64_t)f->seed,
        .figure = f->all ? 0 : (uint32_t)f->figure,
        .watch = {.stop = ft_cmd_stopped, .progress = ft_progress_terminal("simulating")}};
    ft_status status = FT_OK;
    ft_zhu_config_paper(&f->config);
    if (f->config_path)
        status = ft_zhu_config_load(f->config_path, err, &f->config);
    opts.reading = (ft_zhu_reading){f->config.k[FT_ZHU_G0], f->config.k[FT_ZHU_OWN_OUTPUTS] != 0};
    f->reading = opts.reading;
    if (status == FT_OK)
        status = ft_zhu_table_make(&opts, err, &f->table);
    if (status == FT_OK)
        status = ft_zhu_claims_make(&opts, err, &f->claims);
    for (size_t i = 0; i < READINGS && status == FT_OK; i++) {
        opts.reading = readings[i];
        if (readings[i].g0 != f->reading.g0 || readings[i].own_outputs != f->reading.own_outputs)
            status = ft_zhu_claims_make(&opts, err, &f->others[i]);
    }
    if (status == FT_OK && f->plot)
        status = plot(f, err);
    return status;
}

static const ft_flag rows[] = {
    {"--figure", NULL, FT_FLAG(simulate, figure), "N", "figure to compute, 6 to 9",
     FT_ZHU_FIRST_FIGURE, FT_ZHU_LAST_FIGURE},
    {"--all", NULL, FT_FLAG(simulate, all), NULL, "compute all figures"},
    {"--config", NULL, FT_FLAG(simulate, config_path), "FILE",
     "setting (JSON) instead of the paper's"},
    {"--seed", NULL, FT_FLAG(simulate, seed), "N", "of the first cell", 0, 1e9},
    {"--plot", NULL, FT_FLAG(simulate, plot), "FILE", "the figures, by gnuplot: .svg, .png or .txt",
     .plot = true},
    {"--json", NULL, FT_FLAG(simulate, json), NULL, "print one JSON object"},
};

static const simulate defaults = {.seed = 1};

static int run(void *options, int n_words, char **words)
{
    simulate *f = options;
    ft_error err = {0};
    ft_status status = FT_OK;
    ft_cmd_catch_signals();
    if (f->all == (f->figure != 0))
        status = ft_error_set(&err, FT_INVALID, "simulate: give --figure N or --all");
    if (status == FT_OK)
        status = run_setting(f, &err);
    json_t *report = status == FT_OK ? report_of(f) : NULL;
    if (status == FT_OK && !f->json)
        print_report(f);
    ft_zhu_table_deinit(&f->table);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_simulate_zhu = {
    .name = "simulate zhu",
    .summary = "seconds to serve a cell of users whose edge drafts for all, by scheme",
    .usage = "--figure N|--all [flags]",
    .about = "Computes figures 6 to 9 of Zhu et al.: how long two stations take to serve all users "
             "of a cell, by planned batches, length and bandwidth (foretoken plan --algorithm "
             "paper), and by the paper's benchmarks. Medians over random cells. Then prints the "
             "paper's claims beside what comes out, also in other readings of what the paper "
             "leaves open. docs/SIMULATOR.md says what is modelled.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
