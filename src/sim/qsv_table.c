// SPDX-License-Identifier: Apache-2.0
// All methods, and the paper's claims. Best ways are found by trying all. They are chosen on the
// same texts and luck on which they are reported, so they are what hindsight would choose. No
// state.
#include "sim/qsv_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NEAR_BEST 0.98 /* of the best fixed pair, at constant rates */
/* Total variation that three digits in the file and sums in single precision may make. */
#define LAW_TOLERANCE 1e-3

/* ---- searching ---- */

static void keep_better(const ft_qsv_opts *opts, const ft_qsv_way *trial, ft_qsv_way *way,
                        ft_qsv_result *sum)
{
    ft_qsv_result r;
    ft_qsv_run(opts, trial, &r);
    if (ft_qsv_tokens_per_s(&r) > ft_qsv_tokens_per_s(sum)) {
        *way = *trial;
        *sum = r;
    }
}

/* All l, for one length, width and threshold. */
static void try_lattices(const ft_qsv_opts *opts, ft_qsv_way *trial, ft_qsv_way *way,
                         ft_qsv_result *sum)
{
    for (trial->i_l = 0; trial->i_l < opts->setting->config->n_l; trial->i_l++)
        keep_better(opts, trial, way, sum);
}

static void try_lengths(const ft_qsv_opts *opts, ft_qsv_way *trial, ft_qsv_way *way,
                        ft_qsv_result *sum)
{
    const uint32_t most = (uint32_t)opts->setting->config->k[FT_QSV_LENGTH_MOST];
    for (trial->length = 1; trial->length <= most; trial->length++)
        if (trial->method == FT_QSV_METHOD_FIXED)
            try_lattices(opts, trial, way, sum);
        else
            keep_better(opts, trial, way, sum);
}

void ft_qsv_best(const ft_qsv_opts *opts, const ft_qsv_way *numbers, ft_qsv_way *way,
                 ft_qsv_result *sum)
{
    const double *k = opts->setting->config->k;
    ft_qsv_way trial = *numbers;
    *way = *numbers;
    *sum = (ft_qsv_result){0};
    switch (trial.method) {
    case FT_QSV_METHOD_FIXED:
    case FT_QSV_METHOD_WHOLE:
    case FT_QSV_METHOD_CHAIN:
        try_lengths(opts, &trial, way, sum);
        break;
    case FT_QSV_METHOD_TREE:
        for (trial.width = 2; trial.width <= (uint32_t)k[FT_QSV_WIDTH_MOST]; trial.width++)
            try_lengths(opts, &trial, way, sum);
        break;
    case FT_QSV_METHOD_THRESHOLD:
        trial.length = (uint32_t)k[FT_QSV_LENGTH_MOST];
        for (int tenths = 1; tenths <= 9; tenths++) {
            trial.threshold = tenths / 10.0;
            try_lattices(opts, &trial, way, sum);
        }
        break;
    case FT_QSV_METHOD_HEURISTIC:
        trial.length = (uint32_t)k[FT_QSV_HEURISTIC_START];
        try_lattices(opts, &trial, way, sum);
        break;
    case FT_QSV_METHOD_PLAIN:
    case FT_QSV_METHOD_POLICY:
    case FT_QSV_METHOD_SQ:
    case FT_QSV_METHODS:
        ft_qsv_run(opts, way, sum);
    }
}

/* ---- points ---- */

typedef struct maker {
    const ft_qsv_table_opts *opts;
    ft_qsv_setting setting;
    uint32_t *texts;      /* [n_texts] of the present temperature */
    ft_qsv_point *points; /* one for each temperature, link and method */
    size_t n_points;
    ft_qsv_claim *claims;
    size_t n_claims, cap_claims;
} maker;

static void make_point(maker *m, const ft_qsv_opts *opts, uint32_t temperature, uint32_t link,
                       ft_qsv_method method)
{
    ft_qsv_way numbers = {.method = method, .policy = m->opts->policy};
    ft_qsv_point *point = &m->points[m->n_points++];
    if (method == FT_QSV_METHOD_SQ) { /* at equal bits: as the best fixed pair */
        const ft_qsv_table so_far = {.points = m->points, .n_points = m->n_points - 1};
        numbers = ft_qsv_table_find(&so_far, temperature, link, FT_QSV_METHOD_FIXED)->way;
        numbers.method = method;
    }
    *point = (ft_qsv_point){.temperature = temperature, .link = link};
    ft_qsv_best(opts, &numbers, &point->way, &point->sum);
    point->tokens_per_s = ft_qsv_tokens_per_s(&point->sum);
}

static ft_status make_temperature(maker *m, uint32_t temperature, ft_error *err)
{
    const ft_qsv_table_opts *o = m->opts;
    ft_qsv_opts opts = {.setting = &m->setting,
                        .texts = m->texts,
                        .replays = (uint32_t)o->config->k[FT_QSV_REPLAYS],
                        .seed = o->seed};
    for (uint32_t i = 0; i < o->positions->n_texts; i++)
        if (o->positions->texts[i].temperature == temperature)
            m->texts[opts.n_texts++] = i;
    if (opts.n_texts == 0)
        return ft_error_set(err, FT_INVALID, "simulate: there is no text of temperature %g",
                            (double)o->positions->temperature[temperature]);
    for (uint32_t link = 0; link < o->config->n_links; link++) {
        opts.link = &o->config->link[link];
        for (int method = 0; method < FT_QSV_METHODS; method++) {
            if (o->stop && o->stop())
                return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
            if (method != FT_QSV_METHOD_POLICY || o->policy)
                make_point(m, &opts, temperature, link, (ft_qsv_method)method);
        }
        ft_progress_report(&o->progress, temperature * o->config->n_links + link + 1,
                           (uint64_t)o->positions->n_temperatures * o->config->n_links);
    }
    return FT_OK;
}

const ft_qsv_point *ft_qsv_table_find(const ft_qsv_table *table, uint32_t temperature,
                                      uint32_t link, ft_qsv_method method)
{
    for (size_t i = 0; i < table->n_points; i++) {
        const ft_qsv_point *p = &table->points[i];
        if (p->temperature == temperature && p->link == link && p->way.method == method)
            return p;
    }
    return NULL;
}

/* ---- claims ---- */

static ft_qsv_claim *add_claim(maker *m, double margin)
{
    ft_qsv_claim *claim = &m->claims[m->n_claims++];
    *claim = (ft_qsv_claim){.margin = margin, .holds = margin >= 0};
    return claim;
}

/* What a round of a point is like: "policy: 2.31 tokens in 45.1 ms (22 % drafting, 31 % uplink)" */
static int describe(const ft_qsv_point *p, char *out, size_t n)
{
    const ft_qsv_result *r = &p->sum;
    const double ms = r->draft_ms + r->up_ms + r->verify_ms + r->down_ms;
    return snprintf(out, n, "%s: %.2f tokens in %.1f ms a round (%.0f %% drafting, %.0f %% uplink)",
                    ft_qsv_method_name[p->way.method], (double)r->tokens / (double)r->rounds,
                    ms / (double)r->rounds, 100 * r->draft_ms / ms, 100 * r->up_ms / ms);
}

/* Point a is faster than point b. */
static void claim_faster(maker *m, const char *what, const ft_qsv_point *a, const ft_qsv_point *b)
{
    ft_qsv_claim *claim = add_claim(m, a->tokens_per_s / b->tokens_per_s - 1);
    snprintf(claim->name, sizeof claim->name, "%s: %s, temperature %g",
             m->opts->config->link[a->link].name, what,
             (double)m->opts->positions->temperature[a->temperature]);
    if (claim->holds)
        return;
    int n = describe(a, claim->reason, sizeof claim->reason);
    n += snprintf(claim->reason + n, sizeof claim->reason - (size_t)n, "; ");
    describe(b, claim->reason + n, sizeof claim->reason - (size_t)n);
}

/* Under a changing uplink (figure 4). */
static void claim_chain(maker *m, const ft_qsv_table *all, uint32_t temperature, uint32_t link)
{
    const ft_qsv_point *of[FT_QSV_METHODS];
    for (int i = 0; i < FT_QSV_METHODS; i++)
        of[i] = ft_qsv_table_find(all, temperature, link, (ft_qsv_method)i);
    const ft_qsv_point *policy = of[FT_QSV_METHOD_POLICY], *fixed = of[FT_QSV_METHOD_FIXED];
    claim_faster(m, "speculation above plain decoding", fixed, of[FT_QSV_METHOD_PLAIN]);
    if (!policy)
        return;
    claim_faster(m, "policy above every fixed pair", policy, fixed);
    claim_faster(m, "policy above the heuristic", policy, of[FT_QSV_METHOD_HEURISTIC]);
}

/* At the constant rate and temperature where the policy does worst. */
static void claim_near_best(maker *m, const ft_qsv_table *all)
{
    const ft_qsv_point *worst = NULL, *beside = NULL;
    double least = 0;
    for (size_t i = 0; i < all->n_points; i++) {
        const ft_qsv_point *p = &all->points[i];
        if (p->way.method != FT_QSV_METHOD_POLICY ||
            m->opts->config->link[p->link].rate.step_ns > 0)
            continue;
        const ft_qsv_point *fixed =
            ft_qsv_table_find(all, p->temperature, p->link, FT_QSV_METHOD_FIXED);
        const double share = p->tokens_per_s / fixed->tokens_per_s;
        if (!worst || share < least) {
            worst = p;
            beside = fixed;
            least = share;
        }
    }
    if (!worst)
        return;
    ft_qsv_claim *claim = add_claim(m, least - NEAR_BEST);
    snprintf(claim->name, sizeof claim->name,
             "constant uplinks: policy at least %g of the best fixed pair", NEAR_BEST);
    if (claim->holds)
        return;
    int n = snprintf(claim->reason, sizeof claim->reason, "%g kbit/s, temperature %g: ",
                     ft_qsv_link_kbit_s(&m->opts->config->link[worst->link]),
                     (double)m->opts->positions->temperature[worst->temperature]);
    n += describe(worst, claim->reason + n, sizeof claim->reason - (size_t)n);
    n += snprintf(claim->reason + n, sizeof claim->reason - (size_t)n, "; ");
    describe(beside, claim->reason + n, sizeof claim->reason - (size_t)n);
}

double ft_qsv_law(const ft_positions *positions, uint32_t temperature, uint32_t row, bool sq)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < positions->n_texts; i++) {
        const ft_positions_text *text = &positions->texts[i];
        if (text->temperature != temperature)
            continue;
        sum += (double)text->n * (double)(sq ? text->sq_tv[row] : text->qs_tv[row]);
        n += text->n;
    }
    return n > 0 ? sum / (double)n : 0;
}

/* Figure 3. At one position, for all lattices that were recorded: of quantize, then sample the
 * largest total variation from the target's law; of sample, then quantize the least of any
 * temperature at the coarsest l. */
static void claim_law(maker *m)
{
    const ft_positions *all = m->opts->positions;
    double most_qs = 0, least_sq = 1;
    uint32_t coarsest = 0;
    for (uint32_t k = 1; k < all->n_l; k++)
        if (all->l[k] < all->l[coarsest])
            coarsest = k;
    for (uint32_t t = 0; t < all->n_temperatures; t++) {
        least_sq = fmin(least_sq, ft_qsv_law(all, t, coarsest, true));
        for (uint32_t k = 0; k < all->n_l; k++)
            most_qs = fmax(most_qs, ft_qsv_law(all, t, k, false));
    }
    ft_qsv_claim *claim = add_claim(m, LAW_TOLERANCE - most_qs);
    snprintf(claim->name, sizeof claim->name, "quantize, then sample keeps the target's law");
    if (!claim->holds)
        snprintf(claim->reason, sizeof claim->reason, "total variation %.3g", most_qs);
    claim = add_claim(m, least_sq - LAW_TOLERANCE);
    snprintf(claim->name, sizeof claim->name,
             "sample, then quantize does not keep the target's law at l = %u", all->l[coarsest]);
    if (!claim->holds)
        snprintf(claim->reason, sizeof claim->reason, "total variation %.3g", least_sq);
}

static void make_claims(maker *m)
{
    const ft_qsv_table all = {.points = m->points, .n_points = m->n_points};
    for (uint32_t t = 0; t < m->opts->positions->n_temperatures; t++)
        for (uint32_t link = 0; link < m->opts->config->n_links; link++)
            if (m->opts->config->link[link].rate.step_ns > 0)
                claim_chain(m, &all, t, link);
    claim_near_best(m, &all);
    claim_law(m);
}

/* ---- the table ---- */

ft_status ft_qsv_table_make(const ft_qsv_table_opts *opts, ft_error *err, ft_qsv_table *out)
{
    const size_t pairs = (size_t)opts->positions->n_temperatures * opts->config->n_links;
    maker m = {.opts = opts};
    *out = (ft_qsv_table){0};
    ft_status status = ft_qsv_setting_init(opts->config, opts->positions, err, &m.setting);
    if (status == FT_OK && opts->policy)
        status = ft_qsv_check_policy(opts->config, opts->policy, err);
    if (status != FT_OK)
        return status;
    m.texts = calloc(opts->positions->n_texts, sizeof *m.texts);
    m.points = calloc(pairs * FT_QSV_METHODS, sizeof *m.points);
    m.claims = calloc(3 * pairs + 3, sizeof *m.claims);
    if (!m.texts || !m.points || !m.claims)
        status = ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    for (uint32_t t = 0; t < opts->positions->n_temperatures && status == FT_OK; t++)
        status = make_temperature(&m, t, err);
    free(m.texts);
    if (status == FT_OK)
        make_claims(&m);
    *out = (ft_qsv_table){m.points, m.claims, m.n_points, m.n_claims};
    if (status != FT_OK)
        ft_qsv_table_deinit(out);
    return status;
}

void ft_qsv_table_deinit(ft_qsv_table *table)
{
    free(table->points);
    free(table->claims);
    *table = (ft_qsv_table){0};
}
