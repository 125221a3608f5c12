// SPDX-License-Identifier: Apache-2.0
// Passes of two sessions, each alone and together. All four are computed by our engine, so they
// differ only in their rows: a padded pass is one in which B has as many rows as A. Our server does
// not pad; the measurement says what it would cost. One thread; the state belongs to the call.
#include "bench/prefill_solo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/plot.h"

#define B_ROWS (1 + FT_BENCH_SOLO_DRAFT)

typedef struct bench {
    const ft_bench_prefill_solo_opts *o;
    ft_engine *engine;
    ft_seq *a, *b;   /* b holds its prefix */
    uint32_t rows_a; /* of the row that is measured */
    uint32_t longest;
    int32_t *tokens;           /* [longest + FT_BENCH_SOLO_CACHED] */
    uint64_t *want_a, *want_b; /* [longest / 64 + 1] */
    json_t *rows;
} bench;

/* One pass: rows of A and of B, 0: it is not in it. */
typedef struct pass {
    bench *bench;
    uint32_t rows_a, rows_b;
} pass;

/* The rows from first on, so many, have logits. */
static void want(uint64_t *bits, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* The pass alone is timed. */
static ft_status run_pass(void *ctx, double *seconds, ft_error *err)
{
    const pass *p = ctx;
    const bench *x = p->bench;
    ft_segment segments[2];
    size_t n = 0;
    if (p->rows_a > 0)
        segments[n++] =
            (ft_segment){.seq = x->a, .n = p->rows_a, .tokens = x->tokens, .want = x->want_a};
    if (p->rows_b > 0)
        segments[n++] =
            (ft_segment){.seq = x->b, .n = p->rows_b, .tokens = x->tokens, .want = x->want_b};
    const double began_s = ft_bench_now_s();
    ft_status status = ft_engine_forward(x->engine, segments, n, err);
    *seconds = ft_bench_now_s() - began_s;
    ft_seq_truncate(x->a, 0);
    ft_seq_truncate(x->b, FT_BENCH_SOLO_CACHED);
    return status;
}

static json_t *row_json(uint32_t rows_a, const double s[4], uint32_t rounds)
{
    const double a = s[0], b = s[1], both = s[2], padded = s[3];
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "tokens", (int)rows_a,
                     "a_ms", 1e3 * a, "b_ms", 1e3 * b, "both_ms", 1e3 * both, "padded_ms",
                     1e3 * padded, "b_ratio", both / b, "b_ratio_padded", padded / b,
                     "batching_ratio", (a + b) / both, "padding_ratio", padded / both, "rounds",
                     (int)rounds);
}

static ft_status run_row(bench *x, uint32_t rows_a, ft_error *err)
{
    const uint32_t padded = ft_max_u32(rows_a, B_ROWS), draft = ft_min_u32(rows_a, B_ROWS);
    pass passes[] = {{x, rows_a, 0}, {x, 0, B_ROWS}, {x, rows_a, B_ROWS}, {x, rows_a, padded}};
    ft_bench_side sides[FT_COUNT(passes)];
    double s[FT_COUNT(passes)];
    ft_bench_rounds rounds;
    for (size_t i = 0; i < FT_COUNT(passes); i++)
        sides[i] = (ft_bench_side){.ctx = &passes[i], .round = run_pass, .ours = true};
    memset(x->want_a, 0, (x->longest / 64 + 1) * sizeof *x->want_a);
    want(x->want_a, rows_a - draft, draft);
    ft_status status = ft_bench_interleave(x->o->common, sides, FT_COUNT(passes), err, s, &rounds);
    if (status != FT_OK)
        return status;
    json_t *row = row_json(rows_a, s, rounds.n);
    json_array_append_new(x->rows, row);
    ft_bench_row(x->o->common, row);
    return FT_OK;
}

static ft_status open_engine(bench *x, ft_error *err)
{
    const uint32_t rows = 2 * x->longest;
    const ft_engine_opts opts = {.model = x->o->model,
                                 .kv_tok = rows + FT_BENCH_SOLO_CACHED + 2 * FT_KV_BLOCK_TOK,
                                 .max_batch_tok = rows,
                                 .max_logits = 2 * B_ROWS,
                                 .n_threads = ft_bench_threads(x->o->common),
                                 .kv_type = x->o->common->kv};
    const uint32_t n_vocab = ft_model_hparams(x->o->model)->n_vocab;
    const uint32_t n = x->longest + FT_BENCH_SOLO_CACHED, words = x->longest / 64 + 1;
    x->tokens = malloc(n * sizeof *x->tokens);
    x->want_a = calloc(words, sizeof *x->want_a);
    x->want_b = calloc(words, sizeof *x->want_b);
    if (!x->tokens || !x->want_a || !x->want_b)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        x->tokens[i] = (int32_t)((1000u + 37u * i) % n_vocab);
    want(x->want_b, 0, B_ROWS);
    ft_status status = ft_engine_create(&opts, err, &x->engine);
    if (status == FT_OK)
        status = ft_engine_warm(x->engine, NULL, NULL, err, NULL);
    if (status == FT_OK)
        status = ft_seq_create(x->engine, err, &x->a);
    if (status == FT_OK)
        status = ft_seq_create(x->engine, err, &x->b);
    return status == FT_OK
               ? ft_bench_read(x->engine, x->b, x->tokens, FT_BENCH_SOLO_CACHED, false, err)
               : status;
}

/* WISP figure 4. The paper gives no numbers for its curves. */
static ft_status draw(const bench *x, ft_error *err)
{
    static const struct {
        const char *key, *title;
    } lines[] = {{"a_ms", "A alone"},
                 {"b_ms", "B alone: 500 cached tokens, 5 drafted"},
                 {"both_ms", "both in one pass: either gets its verdict then"},
                 {"padded_ms", "the same, B padded to A"}};
    ft_plot p = {.command = "bench prefill", .path = x->o->plot, .width = 800, .height = 520};
    const json_t *row;
    size_t k;
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key top left\nset title 'interference (WISP, figure 4)'\n"
                       "set xlabel 'rows of A'\nset ylabel 'ms'\nset yrange [0:*]\n");
    for (size_t i = 0; i < FT_COUNT(lines); i++) {
        fprintf(p.gnuplot, "$line%zu << EOD\n", i);
        json_array_foreach(x->rows, k, row)
        {
            fprintf(p.gnuplot, "%g %g\n", json_number_value(json_object_get(row, "tokens")),
                    json_number_value(json_object_get(row, lines[i].key)));
        }
        fprintf(p.gnuplot, "EOD\n");
    }
    for (size_t i = 0; i < FT_COUNT(lines); i++)
        fprintf(p.gnuplot, "%s$line%zu with linespoints title '%s'", i ? ", " : "plot ", i,
                lines[i].title);
    fprintf(p.gnuplot, "\n");
    return ft_plot_close(&p, err);
}

ft_status ft_bench_prefill_solo(const ft_bench_prefill_solo_opts *opts, json_t *report,
                                ft_error *err)
{
    bench x = {.o = opts, .rows = json_array(), .longest = B_ROWS};
    ft_bench_list lengths;
    json_object_set_new(report, "rows", x.rows);
    json_object_set_new(report, "cached_tokens", json_integer(FT_BENCH_SOLO_CACHED));
    json_object_set_new(report, "draft_tokens", json_integer(FT_BENCH_SOLO_DRAFT));
    ft_status status =
        ft_bench_list_parse("--lengths", opts->lengths, FT_BENCH_SOLO_MAX, err, &lengths);
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < lengths.n; i++)
        x.longest = ft_max_u32(x.longest, lengths.value[i]);
    status = open_engine(&x, err);
    for (uint32_t i = 0; i < lengths.n && status == FT_OK; i++)
        status = run_row(&x, lengths.value[i], err);
    if (status == FT_OK && opts->plot)
        status = draw(&x, err);
    ft_seq_destroy(x.a);
    ft_seq_destroy(x.b);
    ft_engine_destroy(x.engine);
    free(x.tokens);
    free(x.want_a);
    free(x.want_b);
    return status;
}
