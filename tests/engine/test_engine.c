// SPDX-License-Identifier: Apache-2.0
// The engine's contract at its edges: what is refused leaves all as it was, exhaustion included;
// wanted rows are numbered as said; both attention routes (route_cpu, route_portable) agree on
// trees.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/device.h"
#include "support/tiny_gguf.h"

typedef struct fixture {
    char *path;
    ft_model *model;
    ft_engine *engine, *portable;
    uint32_t n_vocab;
} fixture;

static ft_engine *new_engine(fixture *f, ft_attn_route route, ft_kv_type kv_type)
{
    ft_engine *engine = NULL;
    ft_engine_opts opts = {.model = f->model,
                           .kv_tok = 96,
                           .max_batch_tok = 32,
                           .max_logits = 16,
                           .n_threads = 2,
                           .route = route,
                           .kv_type = kv_type};
    assert_int_equal(ft_engine_create(&opts, NULL, &engine), FT_OK);
    return engine;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    tiny_gguf_opts opts = {.arch = "qwen3", .seed = 1};
    f->path = tiny_gguf_temp(&opts);
    ft_model_opts model = {.path = f->path};
    assert_int_equal(ft_model_load(&model, NULL, &f->model), FT_OK);
    f->n_vocab = ft_model_hparams(f->model)->n_vocab;
    f->engine = new_engine(f, FT_ATTN_AUTO, FT_KV_F16);
    f->portable = new_engine(f, FT_ATTN_PORTABLE, FT_KV_F16);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ft_engine_destroy(f->engine);
    ft_engine_destroy(f->portable);
    ft_model_destroy(f->model);
    unlink(f->path);
    free(f->path);
    free(f);
    return 0;
}

#define PADDING (512 / 32 * 34 + 128) /* bytes of 512 numbers in Q8_0, and their alignment */

static const int32_t text[32] = {5, 9, 77, 3, 42, 42, 8, 100, 200, 17, 5, 6, 7, 8, 9, 10};

static void refuse(ft_engine *engine, ft_segment *s, size_t n, ft_status expected)
{
    ft_engine_stats before, after;
    ft_error err = {0};
    uint32_t pending = s[0].seq ? ft_seq_n_pending(s[0].seq) : 0;
    ft_engine_get_stats(engine, &before);
    assert_int_equal(ft_engine_forward(engine, s, n, &err), expected);
    assert_int_equal(err.code, expected);
    assert_true(err.message[0] != 0);
    ft_engine_get_stats(engine, &after);
    assert_int_equal(before.blocks, after.blocks);
    assert_int_equal(before.blocks_free, after.blocks_free);
    assert_int_equal(before.kv_bytes, after.kv_bytes);
    assert_int_equal(before.compute_bytes, after.compute_bytes);
    assert_int_equal(before.n_seqs, after.n_seqs);
    assert_int_equal(before.forwards, after.forwards);
    assert_int_equal(before.rows, after.rows);
    if (s[0].seq)
        assert_int_equal(ft_seq_n_pending(s[0].seq), pending);
}

static void test_refusals(void **state)
{
    fixture *f = *state;
    ft_seq *seq = NULL, *foreign = NULL;
    assert_int_equal(ft_seq_create(f->engine, NULL, &seq), FT_OK);
    assert_int_equal(ft_seq_create(f->portable, NULL, &foreign), FT_OK);
    const int32_t low = -1, high = (int32_t)f->n_vocab, cyclic[] = {0, -1}, many[33] = {0};
    const uint64_t all = ~0ull;
    ft_segment s[2] = {{.seq = seq, .n = 2, .tokens = text}, {.seq = seq, .n = 1, .tokens = text}};
    refuse(f->engine, s, 0, FT_INVALID);
    refuse(f->engine, s, 2, FT_INVALID); /* a sequence twice */
    s[0].n = 0;
    refuse(f->engine, s, 1, FT_INVALID);
    s[0] = (ft_segment){.seq = seq, .n = 1, .tokens = &low};
    refuse(f->engine, s, 1, FT_INVALID);
    s[0].tokens = &high;
    refuse(f->engine, s, 1, FT_INVALID);
    s[0] = (ft_segment){.seq = seq, .n = 2, .tokens = text, .parent = cyclic};
    refuse(f->engine, s, 1, FT_INVALID);
    s[0] = (ft_segment){.seq = seq, .n = 33, .tokens = many};
    refuse(f->engine, s, 1, FT_INVALID);
    s[0] = (ft_segment){.seq = seq, .n = 17, .tokens = text, .want = &all};
    refuse(f->engine, s, 1, FT_INVALID); /* more logits than max_logits */
    s[0] = (ft_segment){.seq = foreign, .n = 1, .tokens = text};
    refuse(f->engine, s, 1, FT_INVALID);
    s[0].seq = NULL;
    refuse(f->engine, s, 1, FT_INVALID);
    ft_seq_destroy(seq);
    ft_seq_destroy(foreign);
}

static void test_exhaustion(void **state)
{
    fixture *f = *state;
    ft_seq *a = NULL, *b = NULL, *fork = NULL;
    assert_int_equal(ft_seq_create(f->engine, NULL, &a), FT_OK);
    assert_int_equal(ft_seq_create(f->engine, NULL, &b), FT_OK);
    ft_segment s[2] = {{.seq = a, .n = 32, .tokens = text}, {.seq = b, .n = 1, .tokens = text}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(ft_engine_forward(f->engine, s, 1, NULL), FT_OK);
    uint32_t path[64];
    for (uint32_t i = 0; i < 64; i++)
        path[i] = i;
    assert_int_equal(ft_seq_commit(a, path, 60, NULL, 0, NULL), FT_OK);
    assert_int_equal(ft_seq_n_past(a), 60);
    assert_int_equal(ft_seq_fork(a, NULL, &fork), FT_OK); /* 4 blocks and a copy of the last */
    ft_engine_stats stats;
    ft_engine_get_stats(f->engine, &stats);
    assert_int_equal(stats.blocks, 6);
    assert_int_equal(stats.blocks_free, 1);
    assert_int_equal(ft_seq_blocks_needed(a, 5), 1);
    s[0].n = 5;
    refuse(f->engine, s, 2, FT_EXHAUSTED); /* two blocks */
    ft_seq_destroy(fork);
    assert_int_equal(ft_engine_forward(f->engine, s, 2, NULL), FT_OK);
    ft_seq_destroy(a);
    ft_seq_destroy(b);
    ft_engine_get_stats(f->engine, &stats);
    assert_int_equal(stats.blocks_free, 6);
    assert_int_equal(stats.n_seqs, 0);
}

static void test_truncated_share(void **state)
{
    /* After truncation into a shared block, writing must not touch the other's tokens. */
    fixture *f = *state;
    ft_seq *a = NULL, *b = NULL;
    uint32_t path[16];
    uint64_t want = 1;
    float *first = malloc(f->n_vocab * sizeof *first);
    assert_int_equal(ft_seq_create(f->engine, NULL, &a), FT_OK);
    ft_segment s = {.seq = a, .n = 16, .tokens = text};
    for (uint32_t i = 0; i < 16; i++)
        path[i] = i;
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
    assert_int_equal(ft_seq_commit(a, path, 16, NULL, 0, NULL), FT_OK);
    assert_int_equal(ft_seq_fork(a, NULL, &b), FT_OK);
    s = (ft_segment){.seq = b, .n = 1, .tokens = text, .want = &want};
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
    memcpy(first, ft_engine_logits(f->engine, 0), f->n_vocab * sizeof *first);
    ft_seq_truncate(a, 3);
    assert_int_equal(ft_seq_blocks_needed(a, 1), 1);
    s = (ft_segment){.seq = a, .n = 13, .tokens = text};
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
    ft_seq_truncate(b, 16);
    s = (ft_segment){.seq = b, .n = 1, .tokens = text, .want = &want};
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
    assert_memory_equal(first, ft_engine_logits(f->engine, 0), f->n_vocab * sizeof *first);
    ft_seq_destroy(a);
    ft_seq_destroy(b);
    free(first);
}

/* A chunk and two trees with commits between, on either engine; logits of the last pass. */
static void script(ft_engine *engine, uint32_t n_vocab, float *out)
{
    static const int32_t tree[] = {-1, 0, 0, -1, 3, 1, 5};
    const uint64_t want_some = 0x55, want_all = 0xf;
    const uint32_t path[] = {0, 1}, keep[] = {5, 6}, chunk[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    ft_seq *a = NULL, *b = NULL;
    assert_int_equal(ft_seq_create(engine, NULL, &a), FT_OK);
    assert_int_equal(ft_seq_create(engine, NULL, &b), FT_OK);
    ft_segment s[2] = {{.seq = a, .n = 10, .tokens = text}, {.seq = b, .n = 3, .tokens = text + 4}};
    assert_int_equal(ft_engine_forward(engine, s, 2, NULL), FT_OK);
    assert_int_equal(ft_seq_commit(a, chunk, 10, NULL, 0, NULL), FT_OK);
    s[0] = (ft_segment){.seq = a, .n = 7, .tokens = text, .parent = tree, .want = &want_some};
    s[1] = (ft_segment){.seq = b, .n = 4, .tokens = text + 2, .want = &want_some};
    assert_int_equal(ft_engine_forward(engine, s, 2, NULL), FT_OK);
    assert_int_equal(s[0].first_row, 0);
    assert_int_equal(s[1].first_row, 4);
    assert_int_equal(ft_seq_commit(a, path, 2, keep, 2, NULL), FT_OK);
    assert_int_equal(ft_seq_n_past(a), 12);
    assert_int_equal(ft_seq_n_pending(a), 2);
    s[0] = (ft_segment){.seq = a, .n = 4, .tokens = text + 7, .want = &want_all};
    static const int32_t more[] = {1, 1, 0, -1};
    s[0].parent = more;
    assert_int_equal(ft_engine_forward(engine, s, 1, NULL), FT_OK);
    memcpy(out, ft_engine_logits(engine, 0), 4 * n_vocab * sizeof *out);
    ft_seq_destroy(a);
    ft_seq_destroy(b);
}

/* Mean square difference of the script's logits, relative to those of `a`. */
static double difference(fixture *f, ft_engine *a, ft_engine *b)
{
    size_t n = 4 * (size_t)f->n_vocab;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    double error = 0, power = 0;
    script(a, f->n_vocab, x);
    script(b, f->n_vocab, y);
    for (size_t i = 0; i < n; i++) {
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        power += (double)x[i] * x[i];
    }
    free(x);
    free(y);
    return error / power;
}

static void test_routes_agree(void **state)
{
    fixture *f = *state;
    assert_true(difference(f, f->engine, f->portable) < 1e-8);
}

/* Our kernel also rounds queries (and, for bf16, weights) to the type's precision: relative errors
 * of 2^-9 and of half a step in 127, whose squares add up over two layers. */
static void test_kv_types(void **state)
{
    fixture *f = *state;
    static const ft_kv_type types[] = {FT_KV_BF16, FT_KV_Q8_0};
    const ft_hparams *hp = ft_model_hparams(f->model);
    size_t heads = (size_t)96 * 2 * hp->n_layer * hp->n_head_kv;
    const size_t bytes[] = {heads * hp->head_dim * 2, heads * hp->head_dim / 32 * 34};
    for (int i = 0; i < 2; i++) {
        ft_engine *engine = new_engine(f, FT_ATTN_AUTO, types[i]);
        ft_engine *portable = new_engine(f, FT_ATTN_PORTABLE, types[i]);
        double routes = difference(f, engine, portable), halves = difference(f, f->engine, engine);
        if (!(routes < 1e-4) || !(halves < 1e-3) || !(halves > 0))
            fail_msg("type %d: %g between routes, %g from f16", types[i], routes, halves);
        ft_engine_stats stats;
        ft_engine_get_stats(engine, &stats);
        /* A device may make room behind a tensor: CUDA's kernels read quantized rows of 512. */
        assert_in_range(stats.kv_bytes, bytes[i],
                        bytes[i] + (test_device() ? 2 * hp->n_layer * PADDING : 0));
        ft_engine_destroy(engine);
        ft_engine_destroy(portable);
    }
}

/* A warmed engine has measured passes, of as many rows as it can hold, and is otherwise as it
 * was. */
static void test_warm(void **state)
{
    fixture *f = *state;
    const int32_t tokens[] = {5, 6, 7};
    const uint64_t want = 4;
    ft_engine_stats before, after;
    ft_warm warm;
    ft_seq *seq = NULL;
    ft_engine_get_stats(f->engine, &before);
    assert_int_equal(ft_engine_warm(f->engine, NULL, NULL, NULL, &warm), FT_OK);
    assert_int_equal(ft_engine_warm(f->portable, NULL, NULL, NULL, NULL), FT_OK);
    ft_engine_get_stats(f->engine, &after);
    assert_in_range(warm.n, 1, 3);
    for (uint32_t i = 0; i < warm.n; i++) {
        assert_int_equal(warm.rows[i], 1u << 2 * i);
        assert_true(warm.us[i] >= 0);
    }
    assert_int_equal(after.blocks_free, before.blocks_free);
    assert_int_equal(after.n_seqs, before.n_seqs);
    assert_true(after.forwards == before.forwards && after.rows == before.rows);
    assert_true(after.alone == before.alone && after.compute_us == before.compute_us);
    assert_true(after.heads == before.heads && after.head_rows == before.head_rows);
    assert_int_equal(ft_seq_create(f->engine, NULL, &seq), FT_OK);
    ft_segment s = {.seq = seq, .n = 3, .tokens = tokens, .want = &want};
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
    assert_non_null(ft_engine_logits(f->engine, 0));
    ft_seq_destroy(seq);
}

/* The first pass is on one thread, as nothing is known (pace.h): it is counted where there are
 * more. Where layers are on a device, passes have all threads (pass.c). */
static void test_counts(void **state)
{
    fixture *f = *state;
    const int32_t tokens[] = {5, 6, 7};
    const uint64_t want = 4;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        ft_engine *engine = NULL;
        ft_engine_stats stats;
        ft_seq *seq = NULL;
        const ft_engine_opts opts = {.model = f->model,
                                     .kv_tok = 96,
                                     .max_batch_tok = 32,
                                     .max_logits = 16,
                                     .n_threads = n_threads};
        assert_int_equal(ft_engine_create(&opts, NULL, &engine), FT_OK);
        assert_int_equal(ft_seq_create(engine, NULL, &seq), FT_OK);
        ft_segment s = {.seq = seq, .n = 3, .tokens = tokens, .want = &want};
        assert_int_equal(ft_engine_forward(engine, &s, 1, NULL), FT_OK);
        ft_engine_get_stats(engine, &stats);
        assert_int_equal(stats.forwards, 1);
        assert_int_equal(stats.alone, test_device() ? 0 : n_threads - 1);
        assert_int_equal(stats.n_threads, n_threads);
        assert_true(stats.compute_us > 0);
        ft_seq_destroy(seq);
        ft_engine_destroy(engine);
    }
}

static void test_bad_options(void **state)
{
    fixture *f = *state;
    ft_engine *engine = NULL;
    ft_engine_opts opts = {.model = f->model};
    assert_int_equal(ft_engine_create(&opts, NULL, &engine), FT_INVALID);
    assert_null(engine);
    opts = (ft_engine_opts){.kv_tok = 16};
    assert_int_equal(ft_engine_create(&opts, NULL, &engine), FT_INVALID);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_exhaustion),
        cmocka_unit_test(test_truncated_share),
        cmocka_unit_test(test_routes_agree),
        cmocka_unit_test(test_kv_types),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_warm),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
