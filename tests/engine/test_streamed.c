// SPDX-License-Identifier: Apache-2.0
// Passes over weights that are read from the file have the logits of the resident model, bit for
// bit: prompts, single tokens and trees, for all families and types, with any number of resident
// layers, with an output head in parts and with rows of the embedding from the file. A pass that
// cannot read fails alone.
#include "model/streamed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "model/memory_choose.h"
#include "support/tiny_gguf.h"

#define N_PROMPT 20
#define N_TEXT   4
#define N_TREE   5
#define BATCH    32

typedef struct one {
    ft_memory_budget budget;
    ft_model *model;
    ft_streamed *streamed; /* NULL: all is resident */
    ft_engine *engine;
    ft_seq *seq;
} one;

static uint64_t no_bytes(const void *ctx, uint32_t rows, uint32_t out, bool parts)
{
    (void)ctx;
    (void)rows;
    (void)out;
    (void)parts;
    return 0;
}

static void ask_for(one *o, uint64_t budget)
{
    o->budget = (ft_memory_budget){.ask = {.budget_bytes = budget,
                                           .pass_bytes = no_bytes,
                                           .rows_least = BATCH,
                                           .rows_most = BATCH}};
}

/* budget 0: resident */
static void open_one(one *o, const char *path, uint64_t budget)
{
    ft_error err = {0};
    ft_model_opts opts = {.path = path, .no_repack = false};
    *o = (one){0};
    ask_for(o, budget);
    if (budget) {
        opts.stream = ft_memory_choose;
        opts.stream_ctx = &o->budget;
    }
    if (ft_model_load(&opts, &err, &o->model) != FT_OK)
        fail_msg("%s", err.message);
    const ft_streamed_opts streamed = {.model = o->model, .plan = &o->budget.plan};
    if (budget && !o->budget.plan.all_resident &&
        ft_streamed_create(&streamed, &err, &o->streamed) != FT_OK)
        fail_msg("%s", err.message);
    ft_engine_opts engine = {.model = o->model,
                             .kv_tok = 128,
                             .max_batch_tok = BATCH,
                             .n_threads = 2,
                             .streamed = o->streamed};
    if (ft_engine_create(&engine, &err, &o->engine) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(ft_seq_create(o->engine, NULL, &o->seq), FT_OK);
}

static void close_one(one *o)
{
    ft_seq_destroy(o->seq);
    ft_engine_destroy(o->engine);
    ft_streamed_destroy(o->streamed);
    ft_model_destroy(o->model);
}

/* Budgets with which something is streamed: the least, and the one with which nothing is. */
static void find_budgets(const char *path, uint64_t *least, uint64_t *all)
{
    ft_error err = {0};
    ft_model_info info;
    one o;
    ft_model_opts opts = {.path = path, .stream = ft_memory_choose, .stream_ctx = &o.budget};
    ask_for(&o, 1);
    assert_int_equal(ft_model_inspect(&opts, &err, &info), FT_EXHAUSTED);
    *least = o.budget.plan.least_bytes;
    ask_for(&o, UINT64_MAX / 2);
    assert_int_equal(ft_model_inspect(&opts, &err, &info), FT_OK);
    assert_true(o.budget.plan.all_resident);
    *all = o.budget.plan.bytes;
}

/* Both compute the segment and agree to the bit. Returns the likeliest token of the last row. The
 * first n_commit nodes stay. */
static int32_t step(one o[2], ft_segment segment, uint32_t n_commit)
{
    static const uint32_t path[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                    10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    const uint32_t n_vocab = ft_model_hparams(o[0].model)->n_vocab;
    int32_t best = 0;
    for (int i = 0; i < 2; i++) {
        segment.seq = o[i].seq;
        assert_int_equal(ft_engine_forward(o[i].engine, &segment, 1, NULL), FT_OK);
    }
    const uint32_t n = segment.want ? segment.n : 0;
    for (uint32_t r = 0; r < n; r++) {
        const float *a = ft_engine_logits(o[0].engine, r), *b = ft_engine_logits(o[1].engine, r);
        for (uint32_t j = 0; j < n_vocab; j++) {
            if (a[j] != b[j])
                fail_msg("row %u of %u, token %u: %.9g, resident %.9g", r, n, j, (double)b[j],
                         (double)a[j]);
            best = r + 1 == n && a[j] > a[best] ? (int32_t)j : best;
        }
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(ft_seq_commit(o[i].seq, path, n_commit, NULL, 0, NULL), FT_OK);
    return best;
}

static void compare(const char *path, uint64_t budget)
{
    static const int32_t tree[N_TREE] = {7, 8, 9, 10, 11}, parent[N_TREE] = {-1, 0, 0, 1, -1};
    const uint64_t all = ~0ull;
    int32_t prompt[N_PROMPT];
    one o[2];
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)ft_rng_below(&rng, 259);
    open_one(&o[0], path, 0);
    open_one(&o[1], path, budget);
    ft_segment s = {.n = N_PROMPT - 1, .tokens = prompt}; /* no logits: the head is not read */
    step(o, s, N_PROMPT - 1);
    s = (ft_segment){.n = 1, .tokens = &prompt[N_PROMPT - 1], .want = &all};
    int32_t next = step(o, s, 1);
    for (int i = 0; i < N_TEXT; i++) {
        s = (ft_segment){.n = 1, .tokens = &next, .want = &all};
        next = step(o, s, 1);
    }
    s = (ft_segment){.n = N_TREE, .tokens = tree, .parent = parent, .want = &all};
    step(o, s, 2);
    close_one(&o[0]);
    close_one(&o[1]);
}

static void check_file(const tiny_gguf_opts *opts)
{
    char *path = tiny_gguf_temp(opts);
    uint64_t least, all;
    find_budgets(path, &least, &all);
    assert_true(least < all);
    for (int i = 0; i <= 3; i++)
        compare(path, least + (all - least) / 3 * (uint64_t)i - (i == 3));
    unlink(path);
    free(path);
}

static void test_families_and_types(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,    GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ3_S};
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const size_t f = t % 3;
        check_file(&(tiny_gguf_opts){.arch = families[f],
                                     .type = types[t],
                                     .n_layer = 16,
                                     .output_bias = f == 0,
                                     .rope_freqs = f == 0,
                                     .seed = 50 + t});
    }
}

static void test_kinds_of_files(void **state)
{
    (void)state;
    check_file(&(tiny_gguf_opts){.type = GGML_TYPE_BF16, .n_layer = 16, .tied = true, .seed = 1});
    check_file(&(tiny_gguf_opts){
        .type = GGML_TYPE_Q8_0, .n_layer = 16, .tied = true, .embd_as_type = true, .seed = 2});
    check_file(&(tiny_gguf_opts){
        .type = GGML_TYPE_Q4_K, .finer = GGML_TYPE_Q6_K, .n_layer = 16, .seed = 3});
    check_file(
        &(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .mixed_qkv = true, .n_layer = 16, .seed = 4});
    /* a head of many parts */
    check_file(
        &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .n_vocab = 20000, .n_layer = 3, .seed = 5});
}

/* The file gets shorter between two passes, and is whole again behind them. */
static void test_short_file(void **state)
{
    (void)state;
    const int32_t token = 5;
    const uint64_t want = 1;
    ft_error err = {0};
    uint64_t least, all;
    one o;
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.n_layer = 16, .seed = 6});
    find_budgets(path, &least, &all);
    open_one(&o, path, least);
    ft_segment s = {.seq = o.seq, .n = 1, .tokens = &token, .want = &want};
    assert_int_equal(ft_engine_forward(o.engine, &s, 1, &err), FT_OK);
    assert_int_equal(truncate(path, 4096), 0);
    ft_status status = FT_OK; /* the ring may still have the next pass's first layers */
    for (int i = 0; i < 2 && status == FT_OK; i++)
        status = ft_engine_forward(o.engine, &s, 1, &err);
    assert_true(status == FT_IO || status == FT_CORRUPT);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(ft_seq_n_past(o.seq), 0);
    close_one(&o);
    unlink(path);
    free(path);
}

/* Weights that nothing reads are noticed before a pass. */
static void test_no_reader(void **state)
{
    (void)state;
    ft_error err = {0};
    uint64_t least, all;
    one o = {0};
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.n_layer = 16, .seed = 7});
    find_budgets(path, &least, &all);
    ask_for(&o, least);
    ft_model_opts opts = {.path = path, .stream = ft_memory_choose, .stream_ctx = &o.budget};
    assert_int_equal(ft_model_load(&opts, &err, &o.model), FT_OK);
    ft_engine_opts engine = {.model = o.model, .kv_tok = 128};
    assert_int_equal(ft_engine_create(&engine, &err, &o.engine), FT_INVALID);
    ft_model_destroy(o.model);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_and_types),
        cmocka_unit_test(test_kinds_of_files),
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_no_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
