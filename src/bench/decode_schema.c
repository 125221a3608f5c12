// SPDX-License-Identifier: Apache-2.0
// A text at a time under a constraint, by this engine. Timed, for each token: the pass; moving the
// matcher and the draw under the constraint; and a plain draw from the same logits, whose token is
// not used. A text that ends is followed by the next one, whose prompt is not timed. One thread.
#include "bench/decode_schema.h"

#include <stdlib.h>

#include "base/num.h"
#include "bench/schema.h"
#include "spec/constrained.h"
#include "spec/rule.h"

static const float temperatures[] = {0, 1};

/* Seconds in a round. */
typedef struct times {
    double pass, draw, plain;
} times;

typedef struct bench {
    const ft_bench_decode_schema_opts *o;
    const ft_model *model;
    ft_vocab *vocab;
    ft_bench_schema schema;
    ft_matcher *matcher;
    ft_engine *engine;
    ft_seq *seq;
    ft_rule_work *work;
    int32_t *text; /* [n_prompt + n_predict] */
    uint32_t n;
    ft_sampling sampling;
} bench;

static uint32_t n_vocab(const bench *b)
{
    return ft_model_hparams(b->model)->n_vocab;
}

/* Any prompt will do: it ends with the tokens of no text. */
static ft_status begin_text(bench *b, ft_error *err)
{
    b->n = (uint32_t)b->o->n_prompt;
    for (uint32_t i = 0; i < b->n; i++)
        b->text[i] = (int32_t)((1000u + 37u * i) % n_vocab(b));
    ft_seq_truncate(b->seq, 0);
    return b->n > 1 ? ft_bench_read(b->engine, b->seq, b->text, b->n - 1, false, err) : FT_OK;
}

static int32_t draw(bench *b, const float *logits)
{
    const ft_past past = {.text = b->text, .n_text = b->n};
    if (!ft_constrained_follow(&b->sampling, &past))
        return ft_matcher_end(b->matcher);
    return ft_constrained_draw(b->work->sampler, n_vocab(b), b->work->room, &b->sampling, logits,
                               b->n);
}

/* A token more. */
static ft_status step(bench *b, times *t, ft_error *err)
{
    const double begin = ft_bench_now_s();
    ft_status status = ft_bench_read(b->engine, b->seq, &b->text[b->n - 1], 1, true, err);
    if (status != FT_OK)
        return status;
    const double passed = ft_bench_now_s();
    const float *logits = ft_engine_logits(b->engine, 0);
    const int32_t token = draw(b, logits);
    const double drawn = ft_bench_now_s();
    (void)ft_sampler_draw(b->work->sampler, &b->sampling, logits, b->n);
    t->pass += passed - begin;
    t->draw += drawn - passed;
    t->plain += ft_bench_now_s() - drawn;
    b->text[b->n++] = token;
    status = ft_matcher_status(b->matcher, err);
    return status == FT_OK && ft_vocab_is_eog(b->vocab, token) ? begin_text(b, err) : status;
}

static ft_status round_of(bench *b, times *t, ft_error *err)
{
    ft_status status = begin_text(b, err);
    *t = (times){0};
    for (int64_t i = 0; i < b->o->n_predict && status == FT_OK; i++)
        status = step(b, t, err);
    return status;
}

static ft_status run_row(bench *b, float temperature, json_t *rows, ft_error *err)
{
    const ft_bench_opts *common = b->o->common;
    double pass[FT_BENCH_ROUNDS_MAX], drawn[FT_BENCH_ROUNDS_MAX], plain[FT_BENCH_ROUNDS_MAX];
    const double us = 1e6 / (double)b->o->n_predict, until = ft_bench_now_s() + common->row_s;
    uint32_t n = 0;
    times t;
    b->sampling = ft_sampling_default();
    b->sampling.temperature = temperature;
    b->sampling.matcher = b->matcher;
    b->sampling.answer_at = (uint32_t)b->o->n_prompt;
    ft_status status = round_of(b, &t, err); /* warms up */
    while (status == FT_OK && n < common->rounds && (n == 0 || ft_bench_now_s() < until)) {
        b->sampling.seed = n;
        status = round_of(b, &t, err);
        pass[n] = us * t.pass;
        drawn[n] = us * t.draw;
        plain[n++] = us * t.plain;
    }
    if (status != FT_OK)
        return status;
    const double pass_us = ft_bench_median(pass, n), draw_us = ft_bench_median(drawn, n),
                 plain_us = ft_bench_median(plain, n);
    json_t *row = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "temperature",
                            (double)temperature, "pass_us", pass_us, "draw_us", draw_us, "plain_us",
                            plain_us, "share", draw_us / pass_us, "added_share",
                            (draw_us - plain_us) / pass_us, "rounds", (int)n);
    json_array_append_new(rows, row);
    ft_bench_row(common, row);
    return FT_OK;
}

static ft_status start(bench *b, ft_error *err)
{
    const uint32_t n_ctx = (uint32_t)(b->o->n_prompt + b->o->n_predict);
    const ft_engine_opts opts = {.model = b->model,
                                 .kv_tok = n_ctx + FT_KV_BLOCK_TOK,
                                 .max_batch_tok = FT_BENCH_DECODE_PROMPT_MAX,
                                 .max_logits = 1,
                                 .n_threads = ft_bench_threads(b->o->common),
                                 .kv_type = b->o->common->kv};
    ft_status status = ft_vocab_load(b->o->common->path, err, &b->vocab);
    if (status == FT_OK)
        status = ft_bench_schema_load(b->o->schema, b->vocab, err, &b->schema);
    if (status == FT_OK)
        status = ft_matcher_create(b->schema.grammar, err, &b->matcher);
    if (status == FT_OK)
        status = ft_engine_create(&opts, err, &b->engine);
    if (status == FT_OK)
        status = ft_engine_warm(b->engine, NULL, NULL, err, NULL);
    if (status == FT_OK)
        status = ft_seq_create(b->engine, err, &b->seq);
    if (status == FT_OK)
        status = ft_rule_work_create(ft_rules_default, n_vocab(b), err, &b->work);
    if (status == FT_OK && !(b->text = calloc(n_ctx, sizeof *b->text)))
        status = ft_error_set(err, FT_NOMEM, "out of memory for a text");
    return status;
}

static void stop(bench *b)
{
    free(b->text);
    ft_rule_work_destroy(b->work);
    ft_seq_destroy(b->seq);
    ft_engine_destroy(b->engine);
    ft_matcher_destroy(b->matcher);
    ft_bench_schema_deinit(&b->schema);
    ft_vocab_destroy(b->vocab);
}

ft_status ft_bench_decode_schema(const ft_bench_decode_schema_opts *opts, const ft_model *model,
                                 json_t *report, ft_error *err)
{
    bench b = {.o = opts, .model = model};
    json_t *rows = json_array();
    json_object_set_new(report, "rows", rows);
    json_object_set_new(report, "n", json_integer(opts->n_predict));
    json_object_set_new(report, "schema", json_string(opts->schema));
    ft_status status = start(&b, err);
    for (size_t i = 0; i < FT_COUNT(temperatures) && status == FT_OK; i++)
        status = run_row(&b, temperatures[i], rows, err);
    stop(&b);
    return status;
}
