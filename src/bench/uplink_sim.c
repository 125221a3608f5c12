// SPDX-License-Identifier: Apache-2.0
// From measured rounds to a setting of the simulator. The simulator's round is the edge's: draft,
// send, wait; so a round's time is the sum of its parts, and what is no part of the first three is
// a constant of the round. No state.
#include "bench/uplink_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPLAYS 40 /* of each text: the chance of acceptance then matters less than that of texts */

static double per(double a, double n)
{
    return n > 0 ? a / n : 0;
}

/* ---- rounds of the measurement ---- */

double ft_bench_uplink_speed(const ft_bench_uplink_sum *sum)
{
    return per(1e6 * (double)sum->tokens, (double)sum->us);
}

double ft_bench_uplink_policy_share(const ft_bench_uplink_sum *sum)
{
    return per((double)sum->by_policy, (double)sum->rounds);
}

static int by_speed(const void *a, const void *b)
{
    const double x = ft_bench_uplink_speed(&(*(const ft_bench_uplink_part *const *)a)->sum);
    const double y = ft_bench_uplink_speed(&(*(const ft_bench_uplink_part *const *)b)->sum);
    return (x > y) - (x < y);
}

static void see_round(const ft_bench_uplink_part *parts, size_t n_texts, uint32_t rounds,
                      ft_bench_uplink_total *out)
{
    ft_bench_uplink_part sum = {0};
    for (size_t i = 0; i < n_texts; i++)
        ft_bench_uplink_add(&sum, &parts[i * rounds]);
    const double speed = ft_bench_uplink_speed(&sum.sum);
    if (out->slowest_per_s == 0 || speed < out->slowest_per_s)
        out->slowest_per_s = speed;
    out->fastest_per_s = fmax(out->fastest_per_s, speed);
}

void ft_bench_uplink_total_of(const ft_bench_uplink_part *parts, size_t n_texts, uint32_t rounds,
                              ft_bench_uplink_total *out)
{
    const ft_bench_uplink_part *order[FT_BENCH_UPLINK_ROUNDS_MAX];
    out->part = (ft_bench_uplink_part){0};
    out->slowest_per_s = out->fastest_per_s = 0;
    for (size_t i = 0; i < n_texts; i++) {
        for (uint32_t r = 0; r < rounds; r++)
            order[r] = &parts[i * rounds + r];
        qsort(order, rounds, sizeof *order, by_speed);
        ft_bench_uplink_add(&out->part, order[(rounds - 1) / 2]);
    }
    for (uint32_t r = 0; r < rounds; r++)
        see_round(parts + r, n_texts, rounds, out);
}

/* ---- times ---- */

/* Between two numbers of nodes that were measured lies a line; outside of all, a constant. */
static void fill_gaps(ft_bench_uplink_times *t)
{
    uint32_t below = FT_TREE_MAX + 1; /* the last one that was measured; there is none yet */
    for (uint32_t k = 0; k <= FT_TREE_MAX; k++) {
        if (t->verified[k] == 0)
            continue;
        const double to = t->verify_ms[k];
        const double from = below <= FT_TREE_MAX ? t->verify_ms[below] : to;
        const uint32_t first = below <= FT_TREE_MAX ? below + 1 : 0;
        for (uint32_t i = first; i < k; i++)
            t->verify_ms[i] = from + (to - from) * (i + 1 - first) / (k + 1 - first);
        below = k;
    }
    for (uint32_t k = below; k < FT_TREE_MAX; k++)
        t->verify_ms[k + 1] = t->verify_ms[below];
}

static void find_verify(const ft_bench_uplink_verify *v, ft_bench_uplink_times *out)
{
    for (uint32_t k = 0; k <= FT_TREE_MAX; k++) {
        out->verified[k] = v->n[k];
        out->verify_ms[k] = per((double)v->us[k] / 1e3, (double)v->n[k]);
    }
    fill_gaps(out);
}

static void find_method(const ft_bench_uplink_total *totals, uint32_t n, ft_qsv_method method,
                        ft_bench_uplink_times *out)
{
    ft_bench_uplink_part all = {0};
    uint32_t width = 1;
    for (uint32_t i = 0; i < n; i++)
        if (totals[i].way.method == method) {
            ft_bench_uplink_add(&all, &totals[i].part);
            width = totals[i].way.width;
        }
    const ft_bench_uplink_sum *s = &all.sum;
    const double bytes = (double)(s->bytes - s->evidence_bytes - s->empty_bytes);
    out->draft_ms[method] = per((double)s->draft_us / 1e3, (double)s->nodes / width);
    out->node_bits[method] = per(8 * bytes, (double)s->nodes);
    const double parts_us = (double)(s->draft_us + s->line_us + s->verify_us);
    out->rest_ms[method] = per(((double)s->drafts_us - parts_us) / 1e3, (double)s->drafts);
}

ft_bench_uplink_times ft_bench_uplink_times_of(const ft_bench_uplink_total *totals, uint32_t n)
{
    ft_bench_uplink_times out = {0};
    ft_bench_uplink_part all = {0};
    const ft_bench_uplink_sum *s = &all.sum;
    for (uint32_t i = 0; i < n; i++)
        ft_bench_uplink_add(&all, &totals[i].part);
    find_verify(&all.verify, &out);
    for (int m = 0; m < FT_QSV_METHODS; m++)
        find_method(totals, n, (ft_qsv_method)m, &out);
    out.message_bits = per(8 * (double)s->empty_bytes, (double)s->drafts);
    return out;
}

/* ---- the simulation ---- */

static void set_config(const ft_bench_uplink_times *times, const ft_qsv_way *way,
                       const ft_bench_uplink_way *by, ft_qsv_config *out)
{
    *out = (ft_qsv_config){.code = FT_QSV_CODE_SHORTER, .l = {by->l}, .n_l = 1};
    out->k[FT_QSV_DRAFT_MS] = times->draft_ms[by->method];
    out->k[FT_QSV_RTT_MS] = times->rest_ms[by->method];
    out->k[FT_QSV_MESSAGE_BITS] = times->message_bits;
    out->k[FT_QSV_LENGTH_MOST] = way->length;
    if (way->method == FT_QSV_METHOD_POLICY) {
        memcpy(out->l, way->policy->l, way->policy->n_l * sizeof *way->policy->l);
        out->n_l = way->policy->n_l;
    }
}

/* A round's means. */
typedef struct mean_round {
    double tokens, ms, bytes;
} mean_round;

/* by: the method whose times and bytes these are. */
static ft_status run_way(const ft_bench_uplink_sim_opts *o, const ft_qsv_opts *opts,
                         const ft_qsv_way *way, const ft_bench_uplink_way *by, ft_error *err,
                         mean_round *out)
{
    ft_qsv_config config;
    ft_qsv_setting setting;
    ft_qsv_opts all = *opts;
    ft_qsv_result sum;
    set_config(o->times, way, by, &config);
    ft_status status = ft_qsv_setting_init(&config, o->positions, err, &setting);
    if (status != FT_OK)
        return status;
    /* A real message has more bits for a node than the number of its token. */
    setting.token_bits = (uint32_t)lround(o->times->node_bits[by->method]);
    setting.verify_ms = o->times->verify_ms;
    all.setting = &setting;
    ft_qsv_run(&all, way, &sum);
    const double n = (double)sum.rounds;
    *out = (mean_round){.tokens = per((double)sum.tokens, n),
                        .ms = per(sum.draft_ms + sum.up_ms + sum.verify_ms + sum.down_ms, n),
                        .bytes = per(sum.bits / 8, n)};
    return FT_OK;
}

ft_status ft_bench_uplink_simulate(const ft_bench_uplink_sim_opts *o,
                                   const ft_bench_uplink_way *way, const ft_qsv_link *link,
                                   double policy_share, ft_error *err,
                                   ft_bench_uplink_simulated *out)
{
    const bool policy = way->method == FT_QSV_METHOD_POLICY;
    const double share = policy ? policy_share : 1, rest = 1 - share;
    const size_t n_texts = o->positions->n_texts;
    ft_qsv_way how = {
        .method = way->method, .length = way->length, .width = way->width, .policy = o->policy};
    mean_round known, unknown = {0};
    uint32_t *texts = calloc(n_texts, sizeof *texts);
    if (!texts)
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    for (uint32_t i = 0; i < n_texts; i++)
        texts[i] = i;
    const ft_qsv_opts opts = {
        .link = link, .texts = texts, .n_texts = n_texts, .replays = REPLAYS, .seed = o->seed};
    ft_status status = run_way(o, &opts, &how, way, err, &known);
    how.method = policy ? FT_QSV_METHOD_FIXED : how.method;
    if (status == FT_OK && policy)
        status = run_way(o, &opts, &how, way, err, &unknown);
    if (status == FT_OK)
        *out = (ft_bench_uplink_simulated){
            .tokens_per_s = per(1e3 * (share * known.tokens + rest * unknown.tokens),
                                share * known.ms + rest * unknown.ms),
            .bytes_per_round = share * known.bytes + rest * unknown.bytes};
    free(texts);
    return status;
}
