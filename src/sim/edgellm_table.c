// SPDX-License-Identifier: Apache-2.0
// Runs all methods of a setting. A table is made once and then only read. No other state.
#include "sim/edgellm_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Rows of one dataset: lists with the usual number added, and single methods. */
#define WAYS (4 * (FT_EDGELLM_LIST + 1) + 2 * (FT_EDGELLM_LIST + FT_EDGELLM_METHODS))

typedef struct ways {
    uint32_t n;
    ft_edgellm_way at[WAYS];
} ways;

static void add_way(ways *w, const ft_edgellm_way *way)
{
    w->at[w->n++] = *way;
}

/* The usual number and those of the list, rising. */
static void add_numbers(ways *w, ft_edgellm_method method, double usual, const double *list,
                        uint32_t n)
{
    bool had = false;
    for (uint32_t i = 0; i < n; i++) {
        const bool now = !had && usual <= list[i];
        if (now && usual < list[i])
            add_way(w, &(ft_edgellm_way){.method = method, .tok = (uint32_t)usual});
        had |= now;
        add_way(w, &(ft_edgellm_way){.method = method, .tok = (uint32_t)list[i]});
    }
    if (!had)
        add_way(w, &(ft_edgellm_way){.method = method, .tok = (uint32_t)usual});
}

/* What EdgeLLM is made of, with trees or with chains. */
static void add_edgellm(const ft_edgellm_config *c, ways *w, bool chain)
{
    for (int method = FT_EDGELLM_ALL; method < FT_EDGELLM_METHODS; method++) {
        ft_edgellm_way way = {.method = (ft_edgellm_method)method, .chain = chain};
        if (chain && (method == FT_EDGELLM_BEST || method == FT_EDGELLM_ANYWHERE))
            continue;
        if (method != FT_EDGELLM_FIXED)
            add_way(w, &way);
        for (uint32_t i = 0; method == FT_EDGELLM_FIXED && i < c->n_alphas; i++) {
            way.alpha = (float)c->alphas[i];
            add_way(w, &way);
        }
    }
}

static void list_ways(const ft_edgellm_config *c, bool claims_only, ways *w)
{
    w->n = 0;
    for (int method = 0; method < FT_EDGELLM_SP; method++)
        add_way(w, &(ft_edgellm_way){.method = (ft_edgellm_method)method});
    add_numbers(w, FT_EDGELLM_SP, c->k[FT_EDGELLM_SP_LENGTH], c->lengths, c->n_lengths);
    for (uint32_t i = 0; i < c->n_widths; i++)
        add_way(w, &(ft_edgellm_way){.method = FT_EDGELLM_SPECINFER, .widths = i});
    add_numbers(w, FT_EDGELLM_BNV, c->k[FT_EDGELLM_TREE_TOK], c->trees, c->n_trees);
    add_numbers(w, FT_EDGELLM_BNV_PP, c->k[FT_EDGELLM_TREE_TOK], c->trees, c->n_trees);
    if (claims_only) {
        add_way(w, &(ft_edgellm_way){.method = FT_EDGELLM_ALL});
        add_way(w, &(ft_edgellm_way){.method = FT_EDGELLM_BEST});
        return;
    }
    add_edgellm(c, w, false);
    add_edgellm(c, w, true);
}

void ft_edgellm_way_name(const ft_edgellm_config *config, const ft_edgellm_way *way, char *out,
                         size_t n)
{
    const ft_edgellm_method m = way->method;
    const uint8_t *children = config->widths[way->widths].children;
    int len = snprintf(out, n, "%s", ft_edgellm_method_name[m]);
    if (m == FT_EDGELLM_SP || m == FT_EDGELLM_BNV || m == FT_EDGELLM_BNV_PP)
        len += snprintf(out + len, n - (size_t)len, " %u", way->tok);
    for (uint32_t i = 0; m == FT_EDGELLM_SPECINFER && i < FT_GROW_LEVELS && children[i] > 0; i++)
        len += snprintf(out + len, n - (size_t)len, "%s%u", i ? "," : " ", children[i]);
    if (m == FT_EDGELLM_FIXED)
        len += snprintf(out + len, n - (size_t)len, " %g", (double)way->alpha);
    if (way->chain)
        snprintf(out + len, n - (size_t)len, ", chain");
}

static bool is_usual(const ft_edgellm_config *c, const ft_edgellm_way *way)
{
    switch (way->method) {
    case FT_EDGELLM_SP:
        return way->tok == (uint32_t)c->k[FT_EDGELLM_SP_LENGTH];
    case FT_EDGELLM_BNV:
    case FT_EDGELLM_BNV_PP:
        return way->tok == (uint32_t)c->k[FT_EDGELLM_TREE_TOK];
    case FT_EDGELLM_SPECINFER:
        return way->widths == 0;
    default:
        return true;
    }
}

const ft_edgellm_row *ft_edgellm_table_find(const ft_edgellm_table *table,
                                            const ft_edgellm_config *config,
                                            const ft_edgellm_row *like, bool best)
{
    const ft_edgellm_row *found = NULL;
    for (size_t i = 0; i < table->n_rows; i++) {
        const ft_edgellm_row *row = &table->rows[i];
        if (row->pair != like->pair || row->dataset != like->dataset ||
            row->way.method != like->way.method || row->way.chain ||
            (!best && !is_usual(config, &row->way)))
            continue;
        if (!found || ft_edgellm_s_per_tok(&row->sum) < ft_edgellm_s_per_tok(&found->sum))
            found = row;
    }
    return found;
}

/* ---- running ---- */

typedef struct maker {
    const ft_edgellm_table_opts *opts;
    ft_edgellm_table *table;
    uint64_t done, total; /* runs */
} maker;

static ft_status run_one(maker *m, const ft_edgellm_opts *opts, const ft_edgellm_way *way,
                         ft_error *err, ft_edgellm_result *out)
{
    if (m->opts->stop && m->opts->stop())
        return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
    ft_status status = ft_edgellm_run(opts, way, err, out);
    ft_progress_report(&m->opts->progress, ++m->done, m->total);
    return status;
}

static ft_status make_dataset(maker *m, uint32_t pair, uint32_t dataset, const ways *w,
                              ft_error *err)
{
    const ft_edgellm_config *c = m->opts->config;
    const ft_edgellm_opts opts = {.config = c,
                                  .pair = &c->pair[pair],
                                  .dataset = dataset,
                                  .verify_s = c->pair[pair].s[FT_EDGELLM_VERIFY_S],
                                  .seed = m->opts->seed};
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < w->n && status == FT_OK; i++) {
        ft_edgellm_row *row = &m->table->rows[m->table->n_rows];
        *row = (ft_edgellm_row){.pair = pair, .dataset = dataset, .way = w->at[i]};
        status = run_one(m, &opts, &w->at[i], err, &row->sum);
        m->table->n_rows += status == FT_OK;
    }
    return status;
}

/* Adds a dataset's part of the mean gain. */
static ft_status add_gain(maker *m, const ft_edgellm_opts *opts, ft_error *err,
                          ft_edgellm_gain *mean)
{
    const ft_edgellm_way ways_of[2] = {
        {.method = FT_EDGELLM_ALL},
        {.method = FT_EDGELLM_SP, .tok = (uint32_t)opts->config->k[FT_EDGELLM_SP_LENGTH]}};
    const double n = opts->pair->n_datasets;
    ft_edgellm_result r[2] = {0};
    ft_status status = FT_OK;
    for (int i = 0; i < 2 && status == FT_OK; i++)
        status = run_one(m, opts, &ways_of[i], err, &r[i]);
    if (status == FT_OK) {
        const ft_edgellm_gain gain = ft_edgellm_compare(&r[0], &r[1]);
        mean->times += gain.times / n;
        mean->error += gain.error / n; /* the same texts: the errors may go together */
    }
    ft_edgellm_result_deinit(&r[0]);
    ft_edgellm_result_deinit(&r[1]);
    return status;
}

static ft_status make_budgets(maker *m, uint32_t pair, ft_error *err)
{
    const ft_edgellm_config *c = m->opts->config;
    const ft_edgellm_pair *p = &c->pair[pair];
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < p->memory.n && status == FT_OK; i++) {
        ft_edgellm_budget *b = &m->table->budgets[m->table->n_budgets++];
        const double gb = p->memory.budgets_gb[i];
        *b = (ft_edgellm_budget){
            .pair = pair, .budget_gb = gb, .verify_s = ft_edgellm_verify_s(c, p, gb)};
        for (uint32_t k = 0; k < p->n_datasets && status == FT_OK; k++) {
            const ft_edgellm_opts opts = {.config = c,
                                          .pair = p,
                                          .dataset = k,
                                          .verify_s = b->verify_s,
                                          .seed = m->opts->seed};
            status = add_gain(m, &opts, err, &b->gain);
        }
    }
    return status;
}

ft_status ft_edgellm_table_make(const ft_edgellm_table_opts *opts, ft_error *err,
                                ft_edgellm_table *out)
{
    const ft_edgellm_config *c = opts->config;
    maker m = {.opts = opts, .table = out};
    size_t datasets = 0;
    ways w;
    list_ways(c, opts->claims_only, &w);
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        datasets += c->pair[i].n_datasets;
        m.total += 2 * c->pair[i].memory.n * c->pair[i].n_datasets;
    }
    m.total += datasets * w.n;
    *out = (ft_edgellm_table){.rows = calloc(datasets * w.n, sizeof *out->rows)};
    ft_status status = out->rows ? FT_OK : ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    for (uint32_t i = 0; i < c->n_pairs && status == FT_OK; i++) {
        for (uint32_t k = 0; k < c->pair[i].n_datasets && status == FT_OK; k++)
            status = make_dataset(&m, i, k, &w, err);
        if (status == FT_OK)
            status = make_budgets(&m, i, err);
    }
    if (status != FT_OK)
        ft_edgellm_table_deinit(out);
    return status;
}

void ft_edgellm_table_deinit(ft_edgellm_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++)
        ft_edgellm_result_deinit(&table->rows[i].sum);
    free(table->rows);
    *table = (ft_edgellm_table){0};
}
