// SPDX-License-Identifier: Apache-2.0
// The prefix cache as the engine's users see it: what is found and what is not, rows behind
// attached KV equal bit for bit (on a device: up to its rounding) to those of a sequence that
// computed everything itself, also after eviction, after release under pressure and beside other
// scopes; equal texts are kept once.
#include <math.h>
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
#include "support/device.h"
#include "support/oracle.h"
#include "support/tiny_gguf.h"

#define BLOCK    FT_KV_BLOCK_TOK
#define N_BLOCKS 24
#define MAX_TEXT 160

/* Rounding of 8-bit rows carries the routes' last bits as far as 3e-4 (test_logits: libllama's two
 * ways differ as much); other KV gives 1 and more. */
#define ROUNDING 5e-3

typedef struct fixture {
    char *path;
    ft_model *model;
    ft_engine *engine, *portable;
    ft_engine *cold; /* for sequences that compute everything */
    uint32_t n_vocab;
    bool exact;   /* bits are compared; else only what they mean */
    double limit; /* of the difference then: NMSE of a row */
    int32_t text[MAX_TEXT];
    float *expected;
} fixture;

static ft_engine *new_engine(fixture *f, uint32_t kv_tok, ft_attn_route route)
{
    ft_engine *engine = NULL;
    ft_engine_opts opts = {
        .model = f->model, .kv_tok = kv_tok, .max_batch_tok = 64, .n_threads = 1, .route = route};
    assert_int_equal(ft_engine_create(&opts, NULL, &engine), FT_OK);
    return engine;
}

/* How far a row of libllama's on the device is from the same row on the CPU, at most, whole or one
 * token at a time. Two of our rows may be twice as far from each other, so the squares four times.
 */
static double device_rounding(const fixture *f)
{
    const oracle_way ways[] = {{.device = test_device()},
                               {.device = test_device(), .flash = true},
                               {.device = test_device(), .flash = true, .batch = 1}};
    double most = 0;
    uint32_t n;
    float *cpu = oracle_logits(f->path, (oracle_way){.device = "none"}, f->text, MAX_TEXT, &n);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *theirs = oracle_logits(f->path, ways[i], f->text, MAX_TEXT, &n);
        for (size_t row = 0; row < MAX_TEXT; row++)
            most = fmax(most, oracle_nmse(theirs + row * n, cpu + row * n, n));
        free(theirs);
    }
    free(cpu);
    print_message("libllama's worst row on %s: nmse %.2e\n", test_device(), most);
    return most;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    tiny_gguf_opts opts = {.arch = "llama", .type = GGML_TYPE_Q4_0, .seed = 4};
    f->path = tiny_gguf_temp(&opts);
    ft_model_opts model = {.path = f->path};
    assert_int_equal(ft_model_load(&model, NULL, &f->model), FT_OK);
    f->n_vocab = ft_model_hparams(f->model)->n_vocab;
    f->engine = new_engine(f, N_BLOCKS * BLOCK, FT_ATTN_AUTO);
    f->portable = new_engine(f, N_BLOCKS * BLOCK, FT_ATTN_PORTABLE);
    f->cold = new_engine(f, 512, FT_ATTN_AUTO);
    f->exact = !test_device();
    f->limit = ROUNDING;
    f->expected = malloc(f->n_vocab * sizeof *f->expected);
    for (int32_t i = 0; i < MAX_TEXT; i++)
        f->text[i] = (i * 37 + i / 7) % 259;
    if (test_device())
        f->limit = fmax(ROUNDING, 4 * device_rounding(f));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ft_engine_destroy(f->engine);
    ft_engine_destroy(f->portable);
    ft_engine_destroy(f->cold);
    ft_model_destroy(f->model);
    unlink(f->path);
    free(f->path);
    free(f->expected);
    free(f);
    return 0;
}

static ft_seq *new_seq(ft_engine *engine, uint64_t scope)
{
    ft_seq *seq = NULL;
    assert_int_equal(ft_seq_create(engine, NULL, &seq), FT_OK);
    ft_seq_set_scope(seq, scope);
    return seq;
}

static ft_engine_stats stats_of(fixture *f)
{
    ft_engine_stats stats;
    ft_engine_get_stats(f->engine, &stats);
    return stats;
}

/* Computes and commits text[n_past..n) in chunks; returns the logits of the last row. */
static const float *grow(ft_engine *engine, ft_seq *seq, const int32_t *text, uint32_t n)
{
    uint32_t path[64];
    for (uint32_t i = 0; i < 64; i++)
        path[i] = i;
    while (ft_seq_n_past(seq) < n) {
        uint32_t done = ft_seq_n_past(seq), k = n - done < 27 ? n - done : 27;
        uint64_t want = 1ull << (k - 1);
        ft_segment s = {.seq = seq, .n = k, .tokens = text + done, .want = &want};
        assert_int_equal(ft_engine_forward(engine, &s, 1, NULL), FT_OK);
        assert_int_equal(ft_seq_commit(seq, path, k, NULL, 0, NULL), FT_OK);
    }
    return ft_engine_logits(engine, 0);
}

/* What a sequence says behind text[0..n) that computed all of it. */
static const float *cold(fixture *f, const int32_t *text, uint32_t n)
{
    ft_seq *seq = new_seq(f->cold, 0);
    memcpy(f->expected, grow(f->cold, seq, text, n), f->n_vocab * sizeof *f->expected);
    ft_seq_destroy(seq);
    return f->expected;
}

/* The same as a tree: beside every token hangs a wrong one, so that what is committed moves. */
static const float *grow_tree(ft_engine *engine, ft_seq *seq, const int32_t *text, uint32_t n)
{
    int32_t token[40], parent[40];
    uint32_t path[20];
    while (ft_seq_n_past(seq) < n) {
        uint32_t done = ft_seq_n_past(seq), k = n - done < 20 ? n - done : 20;
        for (uint32_t i = 0; i < k; i++) {
            token[2 * i] = 258 - text[done + i];
            token[2 * i + 1] = text[done + i];
            parent[2 * i] = parent[2 * i + 1] = 2 * (int32_t)i - 1;
            path[i] = 2 * i + 1;
        }
        uint64_t want = 1ull << (2 * k - 1);
        ft_segment s = {.seq = seq, .n = 2 * k, .tokens = token, .parent = parent, .want = &want};
        assert_int_equal(ft_engine_forward(engine, &s, 1, NULL), FT_OK);
        assert_int_equal(ft_seq_commit(seq, path, k, NULL, 0, NULL), FT_OK);
    }
    return ft_engine_logits(engine, 0);
}

static void check_logits(const fixture *f, const float *got, const float *expected)
{
    if (f->exact) {
        assert_memory_equal(got, expected, f->n_vocab * sizeof *got);
        return;
    }
    double error = 0, power = 0;
    for (uint32_t i = 0; i < f->n_vocab; i++) {
        error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
        power += (double)expected[i] * expected[i];
    }
    assert_true(error / power < f->limit);
}

static void check_grow(fixture *f, ft_seq *seq, const int32_t *text, uint32_t n)
{
    const float *expected = cold(f, text, n);
    check_logits(f, grow(f->engine, seq, text, n), expected);
}

/* Leaves the engine with nothing cached. */
static void flush(fixture *f)
{
    ft_seq *seq = new_seq(f->engine, 0);
    int32_t zero[N_BLOCKS * BLOCK] = {0};
    grow(f->engine, seq, zero, N_BLOCKS * BLOCK);
    ft_seq_destroy(seq);
    assert_int_equal(stats_of(f).blocks_cached, 0);
    assert_int_equal(stats_of(f).blocks_free, N_BLOCKS);
}

static void test_found(void **state)
{
    fixture *f = *state;
    ft_seq *first = new_seq(f->engine, 7), *seq;
    ft_engine_stats before = stats_of(f);
    assert_int_equal(ft_seq_attach(first, f->text, 100), 0);
    check_grow(f, first, f->text, 100);
    ft_seq_destroy(first);
    assert_int_equal(stats_of(f).blocks_cached, 6);
    assert_int_equal(stats_of(f).blocks_free, N_BLOCKS);

    seq = new_seq(f->engine, 7);
    assert_int_equal(ft_seq_attach(seq, f->text, 96), 80); /* one token at least to compute */
    ft_seq_truncate(seq, 0);
    assert_int_equal(ft_seq_attach(seq, f->text, 1), 0);
    assert_int_equal(ft_seq_attach(seq, f->text, 0), 0);
    assert_int_equal(ft_seq_attach(seq, f->text, 16), 0);
    assert_int_equal(ft_seq_attach(seq, f->text, MAX_TEXT), 96);
    assert_int_equal(ft_seq_attach(seq, f->text, MAX_TEXT), 96); /* not empty: nothing */
    assert_int_equal(stats_of(f).blocks_cached, 0);
    assert_int_equal(stats_of(f).blocks_free, N_BLOCKS - 6);
    check_grow(f, seq, f->text, 130);

    /* Beside it, over the same blocks while they are in use. */
    ft_seq *beside = new_seq(f->engine, 7);
    assert_int_equal(ft_seq_attach(beside, f->text, 120), 112);
    check_grow(f, beside, f->text, 120);
    check_grow(f, seq, f->text, 140);
    ft_seq_destroy(beside);
    ft_seq_destroy(seq);
    ft_engine_stats after = stats_of(f);
    assert_int_equal(after.prefix_lookup_tok - before.prefix_lookup_tok,
                     100 + 96 + 1 + 16 + MAX_TEXT + 120);
    assert_int_equal(after.prefix_hit_tok - before.prefix_hit_tok, 80 + 96 + 112);
    flush(f);
    assert_int_equal(stats_of(f).prefix_evicted - after.prefix_evicted, 8);
}

static void test_not_found(void **state)
{
    fixture *f = *state;
    ft_seq *seq = new_seq(f->engine, 7);
    int32_t other[MAX_TEXT];
    grow(f->engine, seq, f->text, 64);
    memcpy(other, f->text, sizeof other);
    other[40]++;
    ft_seq *another = new_seq(f->engine, 8), *nobody = new_seq(f->engine, 0);
    assert_int_equal(ft_seq_attach(another, f->text, 64), 0);
    assert_int_equal(ft_seq_attach(nobody, f->text, 64), 0);
    check_grow(f, another, f->text, 64);
    check_grow(f, nobody, f->text, 64);
    ft_seq_truncate(nobody, 0);
    assert_int_equal(ft_seq_attach(nobody, f->text, 64), 0);
    ft_seq_destroy(nobody);
    ft_seq_destroy(another);
    ft_seq *diverged = new_seq(f->engine, 7);
    assert_int_equal(ft_seq_attach(diverged, other, 80), 32);
    check_grow(f, diverged, other, 80);
    /* The same tokens behind another beginning are another text. */
    ft_seq *shifted = new_seq(f->engine, 7);
    assert_int_equal(ft_seq_attach(shifted, f->text + BLOCK, 60), 0);
    check_grow(f, shifted, f->text + BLOCK, 60);
    ft_seq_destroy(shifted);
    ft_seq_destroy(diverged);
    ft_seq_destroy(seq);
    flush(f);
}

static void test_kept_once(void **state)
{
    fixture *f = *state;
    ft_seq *a = new_seq(f->engine, 7), *b = new_seq(f->engine, 7);
    grow(f->engine, a, f->text, 70);
    grow(f->engine, b, f->text, 70);
    assert_int_equal(stats_of(f).blocks_free, N_BLOCKS - 4 - 2);
    check_grow(f, b, f->text, 100);
    check_grow(f, a, f->text, 100);
    /* One goes back into what both hold and goes another way: the other must not notice. */
    int32_t other[MAX_TEXT];
    memcpy(other, f->text, sizeof other);
    for (uint32_t i = 50; i < MAX_TEXT; i++)
        other[i] = 258 - other[i];
    ft_seq_truncate(b, 50);
    check_grow(f, b, other, 90);
    check_grow(f, a, f->text, 110);
    /* Alone in the middle of its own text. */
    ft_seq_destroy(a);
    ft_seq_truncate(b, 70);
    for (uint32_t i = 70; i < MAX_TEXT; i++)
        other[i] = f->text[i - 50];
    check_grow(f, b, other, 90);
    ft_seq_destroy(b);
    flush(f);
}

static void test_pressure(void **state)
{
    fixture *f = *state;
    ft_seq *seq = new_seq(f->engine, 7), *big = new_seq(f->engine, 0);
    grow(f->engine, seq, f->text, 150);
    ft_seq_truncate(seq, 0);
    assert_int_equal(stats_of(f).blocks_cached, 9);
    int32_t zero[N_BLOCKS * BLOCK] = {0};
    grow(f->engine, big, zero, 19 * BLOCK); /* takes the 15 free ones and the text's last 4 */
    assert_int_equal(stats_of(f).blocks_cached, 5);
    assert_int_equal(ft_seq_attach(seq, f->text, 150), 80);
    assert_int_equal(ft_seq_blocks_needed(seq, 70), 5);
    ft_segment s = {.seq = seq, .n = 1, .tokens = f->text};
    assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_EXHAUSTED);
    ft_seq_destroy(big);
    check_grow(f, seq, f->text, 150);
    ft_seq_destroy(seq);
    flush(f);
}

/* Texts of two scopes over a small alphabet of continuations, so that they share beginnings; the
 * pool is too small for all. */
static void random_walk(fixture *f)
{
    ft_rng rng;
    ft_seq *seq[4];
    int32_t text[4][MAX_TEXT];
    ft_rng_init(&rng, 3);
    for (int i = 0; i < 4; i++)
        seq[i] = new_seq(f->engine, 1 + (uint64_t)i / 2);
    for (int step = 0; step < 300; step++) {
        uint32_t i = ft_rng_below(&rng, 4), n_past = ft_seq_n_past(seq[i]);
        if (ft_rng_below(&rng, 4) == 0) {
            ft_seq_truncate(seq[i], ft_rng_below(&rng, 2) ? 0 : ft_rng_below(&rng, n_past + 1));
            n_past = ft_seq_n_past(seq[i]);
        }
        for (uint32_t j = n_past; j < MAX_TEXT; j++)
            text[i][j] = (int32_t)(j % 24 == 0 ? ft_rng_below(&rng, 2) : j % 24);
        n_past = ft_seq_attach(seq[i], text[i], MAX_TEXT);
        uint32_t n = n_past + 1 + ft_rng_below(&rng, 40);
        n = n < MAX_TEXT ? n : MAX_TEXT;
        while (ft_seq_blocks_needed(seq[i], n - n_past + 20) > stats_of(f).blocks_free)
            ft_seq_truncate(seq[(i + 1 + ft_rng_below(&rng, 3)) % 4], 0);
        if (n == n_past)
            continue;
        const float *expected = cold(f, text[i], n);
        bool tree = ft_rng_below(&rng, 2);
        check_logits(f, (tree ? grow_tree : grow)(f->engine, seq[i], text[i], n), expected);
    }
    ft_engine_stats stats = stats_of(f);
    assert_true(stats.prefix_evicted > 20 && stats.prefix_hit_tok > 1000);
    for (int i = 0; i < 4; i++)
        ft_seq_destroy(seq[i]);
    flush(f);
}

static void test_random(void **state)
{
    random_walk(*state);
}

/* Through the other route, which carries out moves later. */
static void test_random_portable(void **state)
{
    fixture *f = *state, other = *f;
    other.engine = f->portable;
    other.exact = false;
    random_walk(&other);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),     cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_kept_once), cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_random_portable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
