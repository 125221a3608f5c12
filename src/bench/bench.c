// SPDX-License-Identifier: Apache-2.0
// What the comparisons share. A comparison is interleaved (ours, theirs, ours, theirs), so that
// other work of the machine slows both sides down alike, and it reports medians. No state.
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/num.h"
#include "engine/attn_layout.h"

/* How often a faster side's round is repeated, and for which share of the slowest side's time at
 * most. Without repeats its median would come from a few short moments of a noisy machine, and the
 * other side's from all the time between them. */
#define REPEATS_MAX   8
#define REPEATS_SHARE 0.25

int ft_bench_threads(const ft_bench_opts *opts)
{
    return ft_cpu_threads(opts->n_threads);
}

void ft_bench_row(const ft_bench_opts *opts, const json_t *row)
{
    if (opts->on_row)
        opts->on_row(opts->ctx, row);
}

ft_status ft_bench_list_parse(const char *flag, const char *text, uint32_t max, ft_error *err,
                              ft_bench_list *out)
{
    const char *at = text;
    for (out->n = 0; out->n < FT_BENCH_LIST_MAX;) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        if (end == at || *at == '-' || value == 0 || value > max || (*end && *end != ','))
            break;
        out->value[out->n++] = (uint32_t)value;
        if (!*end)
            return FT_OK;
        at = end + 1;
    }
    return ft_error_set(err, FT_INVALID,
                        "%s: '%s' is no list of at most %d numbers from 1 to %u, as in 1,4,16",
                        flag, text, FT_BENCH_LIST_MAX, max);
}

int64_t ft_bench_now_us(void)
{
    return ft_monotonic_us();
}

double ft_bench_now_s(void)
{
    return (double)ft_bench_now_us() * 1e-6;
}

double ft_bench_cpu_s(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

size_t ft_bench_memory_free(void)
{
    char line[128];
    size_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

ft_status ft_bench_read(ft_engine *engine, ft_seq *seq, const int32_t *tokens, uint32_t n,
                        bool want, ft_error *err)
{
    const uint32_t most = ft_min_u32(FT_BENCH_READ_TOK, ft_engine_max_batch_tok(engine));
    uint32_t path[FT_BENCH_READ_TOK];
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < most; i++)
        path[i] = i;
    for (uint32_t at = 0; at < n && status == FT_OK;) {
        uint32_t chunk = ft_min_u32(n - at, most);
        uint64_t last[FT_BENCH_READ_TOK / 64] = {0};
        if (want && at + chunk == n)
            last[(chunk - 1) / 64] = UINT64_C(1) << (chunk - 1) % 64;
        ft_segment s = {.seq = seq, .n = chunk, .tokens = tokens + at, .want = last};
        status = ft_engine_forward(engine, &s, 1, err);
        if (status == FT_OK)
            status = ft_seq_commit(seq, path, chunk, NULL, 0, err);
        at += chunk;
    }
    return status;
}

int32_t ft_bench_argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ft_bench_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Times of rounds, by side. */
typedef struct times {
    double s[FT_BENCH_SIDES_MAX][FT_BENCH_ROUNDS_MAX * REPEATS_MAX];
    uint32_t n[FT_BENCH_SIDES_MAX];
} times;

static ft_status run_all(const ft_bench_side *sides, uint32_t n, const uint32_t *repeats,
                         times *out, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < repeats[i] && status == FT_OK; k++) {
            status = sides[i].round(sides[i].ctx, &out->s[i][out->n[i]], err);
            out->n[i] += status == FT_OK;
        }
    return status;
}

/* How often each side repeats its round; seconds: what one took. */
static void count_repeats(const double *seconds, uint32_t n, uint32_t *repeats)
{
    double longest = 0;
    for (uint32_t i = 0; i < n; i++)
        longest = seconds[i] > longest ? seconds[i] : longest;
    for (uint32_t i = 0; i < n; i++) {
        double fit = seconds[i] > 0 ? REPEATS_SHARE * longest / seconds[i] : 1;
        repeats[i] = fit < 1 ? 1 : fit > REPEATS_MAX ? REPEATS_MAX : (uint32_t)fit;
    }
}

ft_status ft_bench_interleave(const ft_bench_opts *opts, const ft_bench_side *sides, uint32_t n,
                              ft_error *err, double *median_s, ft_bench_rounds *rounds)
{
    times t = {0};
    uint32_t done = 0, most = (uint32_t)opts->rounds;
    uint32_t repeats[FT_BENCH_SIDES_MAX] = {1, 1, 1, 1};
    double begin = ft_bench_now_s(), warm[FT_BENCH_SIDES_MAX];
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        if (sides[i].ours)
            status = sides[i].round(sides[i].ctx, &warm[i], err);
    if (status == FT_OK)
        status = run_all(sides, n, repeats, &t, err);
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < n; i++)
        warm[i] = t.s[i][0];
    count_repeats(warm, n, repeats);
    if (ft_bench_now_s() - begin <= opts->row_s)
        memset(t.n, 0, sizeof t.n); /* else the warm-up is what counts */
    else
        most = 0;
    for (begin = ft_bench_now_s(); status == FT_OK && done < most; done++) {
        if (done && ft_bench_now_s() - begin > opts->row_s)
            break;
        status = run_all(sides, n, repeats, &t, err);
    }
    ft_bench_rounds all = {.n = done ? done : 1};
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        median_s[i] = ft_bench_median(t.s[i], t.n[i]);
        all.least_s[i] = t.s[i][0]; /* they are sorted now */
    }
    if (rounds)
        *rounds = all;
    return status;
}

static void add_matrix(const struct ggml_tensor *w, uint32_t rows, ft_bench_work *out)
{
    if (!w)
        return;
    double macs = (double)ggml_nelements(w) * rows;
    out->bytes += (double)ggml_nbytes(w);
    if (ggml_is_quantized(w->type))
        out->int8_macs += macs;
    else
        out->f32_macs += macs;
}

void ft_bench_pass_work(const ft_model *model, const ft_bench_pass *pass, ft_bench_work *out)
{
    const ft_hparams *hp = ft_model_hparams(model);
    const ft_weights *w = ft_model_weights(model);
    *out = (ft_bench_work){0};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const ft_layer *l = &w->layers[i];
        const struct ggml_tensor *const matrices[] = {l->wqkv,
                                                      l->wqkv ? NULL : l->wq,
                                                      l->wqkv ? NULL : l->wk,
                                                      l->wqkv ? NULL : l->wv,
                                                      l->wo,
                                                      l->wgate_up,
                                                      l->wgate_up ? NULL : l->wgate,
                                                      l->wgate_up ? NULL : l->wup,
                                                      l->wdown};
        for (size_t m = 0; m < FT_COUNT(matrices); m++)
            add_matrix(matrices[m], pass->rows, out);
    }
    if (pass->out_rows)
        add_matrix(w->output, pass->out_rows, out);
    out->bytes += (double)pass->kv_tok * (double)ft_bench_kv_tok_bytes(model, pass->kv);
    out->f32_macs += 2.0 * (double)pass->row_tok * hp->n_layer * hp->n_head * hp->head_dim;
}

size_t ft_bench_kv_tok_bytes(const ft_model *model, ft_kv_type type)
{
    const ft_hparams *hp = ft_model_hparams(model);
    return (size_t)hp->n_layer * hp->n_head_kv * 2 * ft_attn_token_bytes(type, hp->head_dim);
}
