// SPDX-License-Identifier: Apache-2.0
// Size and time of the codes of lattice points (spec/lattice.h). Each distribution is quantized,
// and its point goes through both codes and back; what comes back must be the same. Each call is
// timed once, with its own work alone. One thread; no model but the draft's.
#include "bench/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/rng.h"
#include "bench/prompts.h"
#include "bench/reader.h"
#include "model/vocab.h"
#include "spec/lattice.h"
#include "template/template.h"

/* ---- a row ---- */

typedef enum step {
    QUANTIZE,
    INDEX_ENCODE,
    INDEX_DECODE,
    ADAPTIVE_ENCODE,
    ADAPTIVE_DECODE,
    STEPS
} step;

static const char *const step_key[STEPS] = {"quantize_ms", "encode_ms", "decode_ms",
                                            "adaptive_encode_ms", "adaptive_decode_ms"};

typedef struct row {
    const char *source;
    double temperature; /* 0: none */
    uint32_t n_vocab, l;
    void *memory[2];
    ft_lattice_work work, back;
    uint8_t *bytes; /* [most] of either code */
    size_t most, n, cap, unchanged;
    double *ms[STEPS];                     /* [cap] */
    uint64_t bits, adaptive_bits, support; /* the most; sums */
} row;

static void row_deinit(row *r)
{
    for (size_t i = 0; i < FT_COUNT(r->memory); i++)
        free(r->memory[i]);
    for (size_t i = 0; i < STEPS; i++)
        free(r->ms[i]);
    free(r->bytes);
}

/* The caller has set source, temperature, n_vocab, l and cap. */
static ft_status row_init(row *r, ft_error *err)
{
    const size_t index = ft_lattice_index.most_bytes(r->n_vocab, r->l);
    const size_t adaptive = ft_lattice_adaptive.most_bytes(r->n_vocab, r->l);
    bool whole = true;
    r->most = index > adaptive ? index : adaptive;
    whole &= (r->bytes = malloc(r->most)) != NULL;
    for (size_t i = 0; i < FT_COUNT(r->memory); i++)
        whole &= (r->memory[i] = malloc(ft_lattice_work_bytes(r->n_vocab, r->l))) != NULL;
    for (size_t i = 0; i < STEPS; i++)
        whole &= (r->ms[i] = calloc(r->cap, sizeof *r->ms[i])) != NULL;
    if (!whole)
        return ft_error_set(err, FT_NOMEM, "bench codec: out of memory");
    r->work = ft_lattice_work_in(r->memory[0], r->n_vocab, r->l);
    r->back = ft_lattice_work_in(r->memory[1], r->n_vocab, r->l);
    return FT_OK;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool same(const ft_lattice_point *a, const ft_lattice_point *b)
{
    return a->l == b->l && a->n == b->n &&
           memcmp(a->token, b->token, a->n * sizeof *a->token) == 0 &&
           memcmp(a->count, b->count, a->n * sizeof *a->count) == 0;
}

/* The row's point through a code and back; returns its bits. */
static uint64_t through(row *r, const ft_lattice_code *code, step encode, bool *unchanged)
{
    const double begin = now_ms();
    const uint64_t bits = code->encode(&r->work, &r->work.point, r->bytes, r->most);
    const double encoded = now_ms();
    const char *wrong =
        code->decode(&r->back, r->l, r->bytes, (size_t)(bits + 7) / 8, &r->back.point);
    r->ms[encode + 1][r->n] = now_ms() - encoded;
    r->ms[encode][r->n] = encoded - begin;
    *unchanged = *unchanged && !wrong && same(&r->work.point, &r->back.point);
    return bits;
}

static void row_add(row *r, const int32_t *tokens, const uint64_t *weights, size_t n)
{
    bool unchanged = true;
    const double begin = now_ms();
    ft_lattice_quantize(&r->work, r->l, tokens, weights, n, &r->work.point);
    r->ms[QUANTIZE][r->n] = now_ms() - begin;
    const uint64_t bits = through(r, &ft_lattice_index, INDEX_ENCODE, &unchanged);
    r->bits = bits > r->bits ? bits : r->bits;
    r->adaptive_bits += through(r, &ft_lattice_adaptive, ADAPTIVE_ENCODE, &unchanged);
    r->support += r->work.point.n;
    r->unchanged += unchanged;
    r->n++;
}

/* Eq. (6) by lgamma. */
static double formula_bits(const row *r)
{
    const double n = (double)r->l + r->n_vocab, l = r->l;
    return ceil((lgamma(n) - lgamma(l + 1) - lgamma(n - l)) / log(2) - 1e-9);
}

static json_t *row_json(const row *r)
{
    const double n = r->n > 0 ? (double)r->n : 1;
    json_t *out =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "source", r->source, "vocab",
                  (json_int_t)r->n_vocab, "l", (json_int_t)r->l, "distributions", (json_int_t)r->n,
                  "unchanged", (json_int_t)r->unchanged, "support", (double)r->support / n, "bits",
                  (json_int_t)r->bits, "formula_bits", (json_int_t)formula_bits(r));
    if (r->temperature > 0)
        json_object_set_new(out, "temperature", json_real(r->temperature));
    json_object_set_new(out, "adaptive_bits", json_real((double)r->adaptive_bits / n));
    json_object_set_new(out, "adaptive_bits_ratio",
                        json_real((double)r->adaptive_bits / n / (double)(r->bits ? r->bits : 1)));
    for (int i = 0; i < STEPS; i++)
        json_object_set_new(out, step_key[i],
                            json_real(r->n ? ft_bench_median(r->ms[i], (uint32_t)r->n) : 0));
    return out;
}

/* ---- made-up distributions ---- */

enum { ZIPF_TOKENS = 4096 };

/* Probabilities fall as (rank + 1)^-slope with noise; ranks and tokens are random, tokens spread
 * evenly over the vocabulary. */
static size_t zipf(ft_rng *rng, uint32_t n_vocab, int32_t *tokens, uint64_t *weights)
{
    const uint32_t n = ft_min_u32(n_vocab, ZIPF_TOKENS), stride = n_vocab / n;
    const double slope = 0.8 + 1.4 * ft_rng_unit(rng);
    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(i * stride + ft_rng_below(rng, stride));
        weights[i] = 1 + (uint64_t)(0x1p38 * pow(i + 1, -slope) * exp(-ft_rng_unit(rng)));
    }
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t other = ft_rng_below(rng, i + 1);
        const uint64_t held = weights[i];
        weights[i] = weights[other];
        weights[other] = held;
    }
    return n;
}

static bool stopped(const ft_bench_codec_opts *set)
{
    return set->stop && set->stop();
}

static ft_status add_made_up(const ft_bench_codec_opts *set, uint32_t n_vocab, uint32_t l,
                             ft_error *err, json_t *rows)
{
    static int32_t tokens[ZIPF_TOKENS];
    static uint64_t weights[ZIPF_TOKENS];
    row r = {.source = "zipf", .n_vocab = n_vocab, .l = l, .cap = (size_t)set->distributions};
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)set->seed);
    ft_status status = row_init(&r, err);
    while (status == FT_OK && r.n < r.cap && !stopped(set)) {
        const size_t n = zipf(&rng, n_vocab, tokens, weights);
        row_add(&r, tokens, weights, n);
        ft_progress_report(&set->progress, r.n, r.cap);
    }
    if (status == FT_OK)
        json_array_append_new(rows, row_json(&r));
    row_deinit(&r);
    return status;
}

/* ---- a draft's own ---- */

#define TEXT_TOK 64 /* tokens that the draft writes behind a prompt at most */

static const uint32_t draft_l[] = {240, 720};

typedef struct job {
    const ft_bench_codec_opts *set;
    ft_bench_reader reader;
    ft_vocab *vocab;
    ft_bench_prompts prompts;
    row rows[FT_COUNT(draft_l)];
} job;

/* The draft's text behind a prompt: each distribution from which it draws goes into the rows. */
static ft_status write_text(job *j, const ft_sampling *s, const ft_tokens *prompt, ft_error *err)
{
    const int32_t *next = prompt->id, *tokens;
    uint32_t n_next = (uint32_t)prompt->n;
    const uint64_t *weights;
    const float *logits;
    int32_t token;
    ft_status status = FT_OK;
    ft_seq_truncate(j->reader.seq, 0);
    for (uint32_t i = 0; i < TEXT_TOK && j->rows->n < j->rows->cap && !stopped(j->set); i++) {
        status = ft_bench_reader_feed(&j->reader, next, n_next, err, &logits);
        if (status != FT_OK)
            break;
        const size_t n = ft_sampler_weights(j->reader.sampler, s, logits, &tokens, &weights);
        for (size_t k = 0; k < FT_COUNT(j->rows); k++)
            row_add(&j->rows[k], tokens, weights, n);
        ft_progress_report(&j->set->progress, j->rows->n, j->rows->cap);
        token = ft_sampler_draw(j->reader.sampler, s, logits, (uint32_t)prompt->n + i);
        if (ft_vocab_is_eog(j->vocab, token))
            break;
        next = &token;
        n_next = 1;
    }
    return status;
}

static ft_status write_texts(job *j, const ft_sampling *s, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < j->prompts.n && status == FT_OK; i++) {
        ft_tokens tokens = {0};
        status = ft_template_ask(j->vocab, j->prompts.items[i].text, err, &tokens);
        if (status == FT_OK && tokens.n + TEXT_TOK <= j->reader.n_ctx)
            status = write_text(j, s, &tokens, err);
        ft_tokens_deinit(&tokens);
    }
    return status;
}

static ft_status add_draft(job *j, double temperature, ft_error *err, json_t *rows)
{
    const ft_bench_codec_opts *set = j->set;
    const ft_sampling s = {.temperature = (float)temperature,
                           .top_k = (int32_t)set->top_k,
                           .top_p = (float)set->top_p,
                           .min_p = (float)set->min_p,
                           .seed = (uint64_t)set->seed};
    ft_status status = ft_sampling_check(&s, err);
    for (size_t k = 0; k < FT_COUNT(j->rows); k++) {
        j->rows[k] = (row){.source = "draft",
                           .temperature = temperature,
                           .n_vocab = j->reader.n_vocab,
                           .l = draft_l[k],
                           .cap = (size_t)set->distributions};
        if (status == FT_OK)
            status = row_init(&j->rows[k], err);
    }
    if (status == FT_OK)
        status = write_texts(j, &s, err);
    for (size_t k = 0; k < FT_COUNT(j->rows); k++) {
        if (status == FT_OK)
            json_array_append_new(rows, row_json(&j->rows[k]));
        row_deinit(&j->rows[k]);
    }
    return status;
}

static ft_status add_drafts(const ft_bench_codec_opts *set, ft_error *err, json_t *rows)
{
    job j = {.set = set};
    const ft_bench_reader_opts opts = {.path = set->draft,
                                       .n_ctx = set->n_ctx,
                                       .n_threads = set->n_threads,
                                       .loading = set->loading};
    /* of some prompts texts end early: twice as many as would do */
    ft_status status = ft_bench_prompts_load(
        set->prompts, (size_t)set->distributions / (TEXT_TOK / 2) + 1, err, &j.prompts);
    if (status == FT_OK)
        status = ft_vocab_load(set->draft, err, &j.vocab);
    if (status == FT_OK)
        status = ft_bench_reader_init(&opts, err, &j.reader);
    for (uint32_t i = 0; i < set->n_temps && status == FT_OK; i++)
        status = add_draft(&j, set->temps[i], err, rows);
    ft_bench_reader_deinit(&j.reader);
    ft_vocab_destroy(j.vocab);
    ft_bench_prompts_deinit(&j.prompts);
    return status;
}

ft_status ft_bench_codec(const ft_bench_codec_opts *opts, ft_error *err, json_t **report)
{
    static const struct {
        uint32_t n_vocab, l;
    } made_up[] = {{32000, 100}, {49152, 240}, {49152, 720}, {151936, 1000}};
    json_t *rows = json_array();
    ft_status status = FT_OK;
    *report = NULL;
    if ((opts->draft == NULL) != (opts->prompts == NULL))
        status = ft_error_set(err, FT_INVALID,
                              "bench codec: a draft's own distributions need -md and --prompts");
    for (size_t i = 0; i < FT_COUNT(made_up) && status == FT_OK; i++)
        status = add_made_up(opts, made_up[i].n_vocab, made_up[i].l, err, rows);
    if (status == FT_OK && opts->draft)
        status = add_drafts(opts, err, rows);
    if (status == FT_OK)
        *report = json_pack("{s:O}", "rows", rows);
    json_decref(rows);
    return status;
}
