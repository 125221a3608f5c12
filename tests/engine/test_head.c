// SPDX-License-Identifier: Apache-2.0
// Logits on demand (ft_engine_forward_rows, ft_engine_head): of any rows, in any order, again and
// again, they have the bits of those that come with the pass, for each weight type, family and
// attention route, for chains and trees; rows that were not asked for have none; on devices all
// have theirs at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine_internal.h" /* to make its backend fail */
#include "ggml-cpu.h"
#include "support/device.h"
#include "support/rpc_server.h"
#include "support/tiny_gguf.h"

#define N_SEQS    3
#define MAX_NODES 24
#define MAX_ROWS  (N_SEQS * MAX_NODES)

typedef struct fixture {
    ft_model *model;
    ft_engine *engine;
    ft_rng rng;
    uint32_t n_vocab;
    ft_seq *seq[N_SEQS];
    int32_t tokens[N_SEQS][MAX_NODES], parent[N_SEQS][MAX_NODES];
    uint64_t want[N_SEQS];
    float *direct; /* [MAX_ROWS, n_vocab] */
} fixture;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static fixture *open_fixture(const char *path, const char *device, ft_attn_route route)
{
    ft_error err = {0};
    ft_devices devices;
    fixture *f = calloc(1, sizeof *f);
    must(ft_devices_find(device, &err, &devices), &err);
    ft_model_opts model = {.path = path, .devices = &devices, .n_gpu_layers = -1};
    must(ft_model_load(&model, &err, &f->model), &err);
    ft_engine_opts opts = {.model = f->model,
                           .kv_tok = 1024,
                           .max_batch_tok = MAX_ROWS,
                           .n_threads = 2,
                           .route = route};
    must(ft_engine_create(&opts, &err, &f->engine), &err);
    for (int i = 0; i < N_SEQS; i++)
        must(ft_seq_create(f->engine, &err, &f->seq[i]), &err);
    ft_rng_init(&f->rng, 17);
    f->n_vocab = ft_model_hparams(f->model)->n_vocab;
    f->direct = malloc(sizeof(float) * MAX_ROWS * f->n_vocab);
    return f;
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < N_SEQS; i++)
        ft_seq_destroy(f->seq[i]);
    ft_engine_destroy(f->engine);
    ft_model_destroy(f->model);
    free(f->direct);
    free(f);
}

/* Random chains and trees, some of their nodes wanted; returns how many. */
static uint32_t make_segments(fixture *f, ft_segment *s)
{
    uint32_t n_wanted = 0;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        uint32_t n = 1 + ft_rng_below(&f->rng, MAX_NODES);
        bool chain = ft_rng_below(&f->rng, 2);
        for (uint32_t j = 0; j < n; j++) {
            f->tokens[i][j] = (int32_t)ft_rng_below(&f->rng, 259);
            f->parent[i][j] = (int32_t)ft_rng_below(&f->rng, j + 1) - 1;
        }
        f->want[i] = ft_rng_u32(&f->rng) & ((1ull << n) - 1);
        n_wanted += (uint32_t)__builtin_popcountll(f->want[i]);
        s[i] = (ft_segment){.seq = f->seq[i],
                            .n = n,
                            .tokens = f->tokens[i],
                            .parent = chain ? NULL : f->parent[i],
                            .want = &f->want[i]};
    }
    return n_wanted;
}

/* Asks for a random choice of rows in random order; every row has its logits or none. */
static void ask_and_check(fixture *f, uint32_t n_wanted)
{
    uint32_t rows[MAX_ROWS], n = 0, share = 1 + ft_rng_below(&f->rng, 6);
    bool asked[MAX_ROWS] = {0};
    for (uint32_t row = 0; row < n_wanted; row++)
        if (ft_rng_below(&f->rng, share) == 0) {
            uint32_t at = ft_rng_below(&f->rng, n + 1);
            rows[n++] = rows[at];
            rows[at] = row;
            asked[row] = true;
        }
    ft_error err = {0};
    must(ft_engine_head(f->engine, rows, n, &err), &err);
    for (uint32_t row = 0; row < n_wanted; row++) {
        const float *got = ft_engine_logits(f->engine, row);
        if (!asked[row])
            assert_null(got);
        else
            assert_memory_equal(got, f->direct + (size_t)row * f->n_vocab,
                                f->n_vocab * sizeof *got);
    }
}

static void round_trip(fixture *f)
{
    ft_segment s[N_SEQS];
    ft_error err = {0};
    uint32_t n = make_segments(f, s), zero = 0;
    must(ft_engine_forward(f->engine, s, N_SEQS, &err), &err);
    for (uint32_t row = 0; row < n; row++)
        memcpy(f->direct + (size_t)row * f->n_vocab, ft_engine_logits(f->engine, row),
               f->n_vocab * sizeof *f->direct);
    for (int i = 0; i < N_SEQS; i++)
        ft_seq_truncate(f->seq[i], ft_seq_n_past(f->seq[i]));
    must(ft_engine_forward_rows(f->engine, s, N_SEQS, &err), &err);
    for (uint32_t row = 0; row < n; row++)
        assert_null(ft_engine_logits(f->engine, row));
    for (int times = 0; times < 4; times++)
        ask_and_check(f, n);
    for (int i = 0; i < N_SEQS; i++) /* the contexts grow */
        must(ft_seq_commit(f->seq[i], &zero, 1, NULL, 0, &err), &err);
    ask_and_check(f, n); /* rows stay when nodes have gone */
}

static void run_on(const tiny_gguf_opts *opts, ft_attn_route route)
{
    char *path = tiny_gguf_temp(opts);
    fixture *f = open_fixture(path, "none", route);
    for (int i = 0; i < 6; i++)
        round_trip(f);
    close_fixture(f);
    unlink(path);
    free(path);
}

static void test_same_bits(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int tied = 0; tied < 2; tied++) {
            tiny_gguf_opts opts = {
                .arch = families[t % 3], .type = types[t], .tied = tied, .seed = 50 + t};
            run_on(&opts, FT_ATTN_CPU);
            run_on(&opts, FT_ATTN_PORTABLE);
        }
}

static void test_refusals(void **state)
{
    tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0, .seed = 70};
    char *path = tiny_gguf_temp(&opts);
    fixture *f = open_fixture(path, "none", FT_ATTN_AUTO);
    ft_error err = {0};
    const int32_t tokens[3] = {1, 2, 3};
    const uint64_t want = 5;
    uint32_t rows[] = {0, 1, 2};
    ft_segment s = {.seq = f->seq[0], .n = 3, .tokens = tokens, .want = &want};
    ft_engine_stats stats;
    assert_int_equal(ft_engine_head(f->engine, rows, 1, &err), FT_INVALID); /* no pass yet */
    must(ft_engine_forward_rows(f->engine, &s, 1, &err), &err);
    assert_int_equal(ft_engine_head(f->engine, rows, 3, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "row 2"));
    must(ft_engine_head(f->engine, rows, 2, &err), &err);
    assert_non_null(ft_engine_logits(f->engine, 1));
    assert_int_equal(ft_engine_head(f->engine, rows, 3, &err), FT_INVALID);
    assert_non_null(ft_engine_logits(f->engine, 1)); /* a refusal changes nothing */
    must(ft_engine_head(f->engine, rows, 0, &err), &err);
    assert_null(ft_engine_logits(f->engine, 0));
    s.want = NULL;
    must(ft_engine_forward_rows(f->engine, &s, 1, &err), &err);
    must(ft_engine_head(f->engine, rows, 0, &err), &err);
    assert_int_equal(ft_engine_head(f->engine, rows, 1, &err), FT_INVALID);
    ft_engine_get_stats(f->engine, &stats);
    assert_int_equal(stats.forwards, 2);
    assert_int_equal(stats.heads, 1);
    assert_int_equal(stats.head_rows, 2);
    close_fixture(f);
    unlink(path);
    free(path);
}

static bool always(void *ctx)
{
    return true;
}

/* A run of the head that fails is none, and leaves no logits. */
static void test_failed_run(void **state)
{
    tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0, .seed = 72};
    char *path = tiny_gguf_temp(&opts);
    fixture *f = open_fixture(path, "none", FT_ATTN_AUTO);
    ft_error err = {0};
    const int32_t token = 1;
    const uint64_t want = 1;
    const uint32_t row = 0;
    ft_segment s = {.seq = f->seq[0], .n = 1, .tokens = &token, .want = &want};
    ft_engine_stats stats;
    must(ft_engine_forward_rows(f->engine, &s, 1, &err), &err);
    ggml_backend_cpu_set_abort_callback(f->engine->backends.at[0], always, NULL);
    assert_int_not_equal(ft_engine_head(f->engine, &row, 1, &err), FT_OK);
    assert_null(ft_engine_logits(f->engine, 0));
    ft_engine_get_stats(f->engine, &stats);
    assert_int_equal(stats.heads, 0);
    assert_int_equal(stats.head_rows, 0);
    ggml_backend_cpu_set_abort_callback(f->engine->backends.at[0], NULL, NULL);
    must(ft_engine_head(f->engine, &row, 1, &err), &err);
    ft_engine_get_stats(f->engine, &stats);
    assert_int_equal(stats.heads, 1);
    assert_int_equal(stats.head_rows, 1);
    close_fixture(f);
    unlink(path);
    free(path);
}

static void test_on_device(void **state)
{
    tiny_gguf_opts opts = {.seed = 71};
    ft_error err = {0};
    const char *device = test_device(), *endpoints = device ? NULL : rpc_servers_start();
    if (!device && !endpoints)
        skip();
    if (endpoints)
        must(ft_devices_add_rpc(endpoints, &err), &err);
    char *path = tiny_gguf_temp(&opts);
    fixture *f = open_fixture(path, device ? device : "RPC0", FT_ATTN_AUTO);
    ft_segment s[N_SEQS];
    uint32_t n = make_segments(f, s), row = n - 1;
    must(ft_engine_forward(f->engine, s, N_SEQS, &err), &err);
    memcpy(f->direct, ft_engine_logits(f->engine, 0), n * f->n_vocab * sizeof *f->direct);
    for (int i = 0; i < N_SEQS; i++)
        ft_seq_truncate(f->seq[i], 0);
    must(ft_engine_forward_rows(f->engine, s, N_SEQS, &err), &err);
    must(ft_engine_head(f->engine, &row, 1, &err), &err);
    for (uint32_t i = 0; i < n; i++)
        assert_memory_equal(ft_engine_logits(f->engine, i), f->direct + (size_t)i * f->n_vocab,
                            f->n_vocab * sizeof *f->direct);
    assert_int_equal(ft_engine_head(f->engine, &n, 1, &err), FT_INVALID);
    close_fixture(f);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failed_run),
        cmocka_unit_test(test_on_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
