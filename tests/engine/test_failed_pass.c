// SPDX-License-Identifier: Apache-2.0
// A pass that fails has no effect (engine.h): its allocations fail one after the other, or it is
// computed to its end and then reported as failed. The same segments are then computed again. All
// logits, in this round and in later ones, have the bits of an engine in which nothing fails.
//
// The linker sends our own allocations, the clock and ft_graph_cache_compute here
// (tests/CMakeLists.txt), but not the allocations of ggml's libraries: ggml ends the program when
// it finds no memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "model/memory_choose.h"
#include "model/streamed.h"
#include "support/sanitized.h"
#include "support/tiny_gguf.h"

#define N_SEQS  5
#define ROWS    8 /* of a segment, at most */
#define LONGEST 200
#define ROUNDS  FT_TIMES(60, 20)
#define N_LAYER 24 /* of the model whose weights are read in every pass */

/* ---- what fails ---- */

static uint32_t fail_at; /* the allocation that fails, from 1; 0: none */
static ft_status fail_with = FT_OK;
static uint32_t give_up_at; /* the graph that is given up, from 1; 0: none */

static bool fails(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
ft_status __real_ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph);
ft_status __wrap_ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

/* A clock by which each graph takes the same time, so that an engine sees no reason to compute on
 * one thread. Then no graph would be given up. */
static int64_t now_us;

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return now_us;
}

ft_clock __wrap_ft_clock_monotonic(void);
ft_clock __wrap_ft_clock_monotonic(void)
{
    return (ft_clock){.now_us = read_clock};
}

/* A graph uses the memory of its inputs for what it computes. */
static void overwrite(struct ggml_tensor *input)
{
    if (input)
        memset(input->data, 0x7e, ggml_nbytes(input));
}

ft_status __wrap_ft_graph_cache_compute(ft_graph_cache *cache, ft_graph *graph)
{
    const ft_status status = __real_ft_graph_cache_compute(cache, graph);
    now_us += 1000;
    if (give_up_at > 0 && --give_up_at == 0) {
        overwrite(graph->rows);
        overwrite(graph->out_ids);
        return FT_TIMEOUT;
    }
    return fail_with == FT_OK ? status : fail_with;
}

/* ---- two engines with the same texts ---- */

typedef struct fixture {
    ft_rng rng;
    ft_engine *engine[2]; /* in the first one passes fail */
    ft_seq *seq[2][N_SEQS];
    int32_t text[N_SEQS][LONGEST];
    int32_t tokens[N_SEQS][ROWS], parent[N_SEQS][ROWS];
    uint64_t want[N_SEQS];
    uint32_t n_vocab;
    uint32_t n_short; /* passes that failed for an allocation */
    bool streamed;    /* the first engine reads weights in every pass */
    uint32_t n_given_up;
} fixture;

/* The segments of a round, for both engines: trees and chunks of text. Returns how many. */
static size_t make_round(fixture *f, ft_segment segments[2][N_SEQS], uint32_t *n_wanted)
{
    size_t n = 0;
    *n_wanted = 0;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        const bool tree = ft_rng_below(&f->rng, 2);
        const uint32_t rows = 1 + ft_rng_below(&f->rng, ROWS);
        if (ft_rng_below(&f->rng, 4) == 0)
            continue;
        for (uint32_t j = 0; j < rows; j++) {
            f->tokens[i][j] = (int32_t)ft_rng_below(&f->rng, f->n_vocab);
            f->parent[i][j] = (int32_t)(tree ? ft_rng_below(&f->rng, j + 1) : j) - 1;
        }
        f->want[i] = UINT64_MAX >> (64 - rows);
        for (int e = 0; e < 2; e++)
            segments[e][n] = (ft_segment){.seq = f->seq[e][i],
                                          .n = rows,
                                          .tokens = f->tokens[i],
                                          .parent = f->parent[i],
                                          .want = tree ? &f->want[i] : NULL};
        *n_wanted += tree ? rows : 0;
        n++;
    }
    return n;
}

/* A pass that fails in the first engine. Returns the status. */
static ft_status fail_pass(fixture *f, ft_segment *segments, size_t n)
{
    uint32_t past[N_SEQS];
    ft_engine_stats before, after;
    ft_error err = {0};
    ft_engine_get_stats(f->engine[0], &before);
    for (size_t i = 0; i < n; i++)
        past[i] = ft_seq_n_past(segments[i].seq);
    const ft_status status = ft_engine_forward(f->engine[0], segments, n, &err);
    fail_at = 0;
    fail_with = FT_OK;
    if (status == FT_OK)
        return FT_OK;
    ft_engine_get_stats(f->engine[0], &after);
    assert_int_equal(after.blocks_free, before.blocks_free);
    assert_int_equal(after.forwards, before.forwards);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ft_seq_n_past(segments[i].seq), past[i]);
        assert_int_equal(ft_seq_n_pending(segments[i].seq), 0);
    }
    return status;
}

/* Lets the pass fail in every way, then computes it in both engines. Allocations first: a failed
 * pass keeps the memory that it has got. */
static void compute(fixture *f, ft_segment segments[2][N_SEQS], size_t n, uint32_t n_wanted)
{
    fail_at = 1;
    ft_status status = fail_pass(f, segments[0], n);
    for (uint32_t k = 2; status == FT_NOMEM; k++) {
        f->n_short++;
        fail_at = k;
        status = fail_pass(f, segments[0], n);
    }
    assert_int_equal(status, FT_OK);
    for (size_t i = 0; i < n; i++) /* give it up */
        ft_seq_truncate(segments[0][i].seq, ft_seq_n_past(segments[0][i].seq));
    fail_with = FT_INTERNAL;
    assert_int_equal(fail_pass(f, segments[0], n), FT_INTERNAL);
    fail_with = FT_NOMEM;
    assert_int_equal(fail_pass(f, segments[0], n), FT_NOMEM);
    if (f->streamed) /* the last layer is the one that knows which rows want logits */
        give_up_at =
            n_wanted && ft_rng_below(&f->rng, 2) ? N_LAYER : 1 + ft_rng_below(&f->rng, N_LAYER);
    status = ft_engine_forward(f->engine[0], segments[0], n, NULL);
    f->n_given_up += f->streamed && status == FT_OK;
    give_up_at = 0;
    if (status == FT_TIMEOUT) /* the engine does not know yet what a pass takes */
        status = ft_engine_forward(f->engine[0], segments[0], n, NULL);
    assert_int_equal(status, FT_OK);
    assert_int_equal(ft_engine_forward(f->engine[1], segments[1], n, NULL), FT_OK);
    for (uint32_t row = 0; row < n_wanted; row++)
        assert_memory_equal(ft_engine_logits(f->engine[0], row),
                            ft_engine_logits(f->engine[1], row), f->n_vocab * sizeof(float));
}

/* Keeps a path of each tree and all of each chunk; now and then takes some of a text back. */
static void commit(fixture *f, ft_segment segments[2][N_SEQS], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const ft_segment *s = &segments[0][i];
        uint32_t path[ROWS], n_path = 0;
        for (uint32_t j = 0; j < s->n; j++)
            if (s->parent[j] == (n_path ? (int32_t)path[n_path - 1] : -1))
                path[n_path++] = j;
        const uint32_t n_past = ft_seq_n_past(s->seq) + n_path;
        const bool full = n_past + ROWS > LONGEST;
        const bool back = full || ft_rng_below(&f->rng, 8) == 0;
        const uint32_t to = full ? 0 : ft_rng_below(&f->rng, n_past + 1);
        for (int e = 0; e < 2; e++) {
            assert_int_equal(ft_seq_commit(segments[e][i].seq, path, n_path, NULL, 0, NULL), FT_OK);
            if (back)
                ft_seq_truncate(segments[e][i].seq, to);
        }
    }
}

/* A sequence begins anew, so that its block table has to be made again. */
static void start_over(fixture *f, uint32_t i)
{
    for (int e = 0; e < 2; e++) {
        ft_seq_destroy(f->seq[e][i]);
        assert_int_equal(ft_seq_create(f->engine[e], NULL, &f->seq[e][i]), FT_OK);
        ft_seq_set_scope(f->seq[e][i], 1);
    }
}

static uint64_t no_bytes(const void *ctx, uint32_t rows, uint32_t out, bool parts)
{
    (void)ctx;
    (void)rows;
    (void)out;
    (void)parts;
    return 0;
}

/* The same model with the least memory. */
static ft_model *load_streamed(const char *path, ft_streamed **streamed)
{
    ft_memory_budget budget = {
        .ask = {.budget_bytes = 1, .pass_bytes = no_bytes, .rows_least = 1, .rows_most = 1}};
    ft_model_opts load = {.path = path, .stream = ft_memory_choose, .stream_ctx = &budget};
    ft_model *model;
    ft_error err = {0};
    assert_int_equal(ft_model_load(&load, &err, &model), FT_EXHAUSTED);
    budget.ask.budget_bytes = budget.plan.least_bytes;
    assert_int_equal(ft_model_load(&load, &err, &model), FT_OK);
    const ft_streamed_opts opts = {.model = model, .plan = &budget.plan};
    assert_int_equal(ft_streamed_create(&opts, &err, streamed), FT_OK);
    return model;
}

static void go_on(fixture *f)
{
    for (uint32_t i = 0; i < N_SEQS; i++)
        start_over(f, i);
    for (int round = 0; round < ROUNDS; round++) {
        ft_segment segments[2][N_SEQS];
        uint32_t n_wanted;
        const size_t n = make_round(f, segments, &n_wanted);
        if (n > 0) {
            compute(f, segments, n, n_wanted);
            commit(f, segments, n);
        }
        if (round % 4 == 0)
            start_over(f, ft_rng_below(&f->rng, N_SEQS));
    }
    assert_true(f->n_short > N_SEQS);
    for (int e = 0; e < 2; e++)
        for (uint32_t i = 0; i < N_SEQS; i++)
            ft_seq_destroy(f->seq[e][i]);
}

static void run_on(ft_attn_route route, ft_kv_type kv_type, bool streamed)
{
    const tiny_gguf_opts gguf = {.type = streamed ? GGML_TYPE_F16 : GGML_TYPE_Q4_0,
                                 .n_layer = streamed ? N_LAYER : 0,
                                 .seed = 3};
    char *path = tiny_gguf_temp(&gguf);
    const ft_model_opts load = {.path = path};
    ft_model *model, *lean = NULL;
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(ft_model_load(&load, NULL, &model), FT_OK);
    f->n_vocab = ft_model_hparams(model)->n_vocab;
    f->streamed = streamed;
    ft_rng_init(&f->rng, 1 + kv_type);
    ft_engine_opts opts = {.model = model,
                           .kv_tok = N_SEQS * LONGEST + 32 * FT_KV_BLOCK_TOK,
                           .max_batch_tok = N_SEQS * ROWS,
                           .n_threads = streamed ? 2 : 1,
                           .route = route,
                           .kv_type = kv_type};
    assert_int_equal(ft_engine_create(&opts, NULL, &f->engine[1]), FT_OK);
    if (streamed)
        opts.model = lean = load_streamed(path, &opts.streamed);
    assert_int_equal(ft_engine_create(&opts, NULL, &f->engine[0]), FT_OK);
    go_on(f);
    assert_int_equal(f->n_given_up > 0, streamed);
    for (int e = 0; e < 2; e++)
        ft_engine_destroy(f->engine[e]);
    ft_streamed_destroy(opts.streamed);
    ft_model_destroy(lean);
    ft_model_destroy(model);
    unlink(path);
    free(path);
    free(f);
}

static void test_cpu(void **state)
{
    (void)state;
    run_on(FT_ATTN_AUTO, FT_KV_F16, false);
    run_on(FT_ATTN_AUTO, FT_KV_Q8_0, false);
}

/* K and V in rows: copies are collected, and done before the next pass. */
static void test_portable(void **state)
{
    (void)state;
    run_on(FT_ATTN_PORTABLE, FT_KV_F16, false);
    run_on(FT_ATTN_PORTABLE, FT_KV_Q8_0, false);
}

/* Layers that are given up are computed again within the pass. */
static void test_streamed(void **state)
{
    (void)state;
    run_on(FT_ATTN_AUTO, FT_KV_F16, true);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_portable),
        cmocka_unit_test(test_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
