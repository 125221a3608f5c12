// SPDX-License-Identifier: Apache-2.0
// The engine's rounds allocate nothing (support/count_allocs.h). The test first runs a few
// passes of every kind. Then come hundreds of rounds over growing contexts: trees, chunks,
// logits on demand, commits, truncations and attached prefixes. None of them may allocate or
// free. The exception is ggml (0.3.36): ggml_cpu_init makes and frees an empty context whenever
// a graph is computed, even an empty one. The test counts those calls first.
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
#include "engine/engine.h"
#include "support/count_allocs.h"
#include "support/tiny_gguf.h"

#define N_SEQS   6
#define MAX_ROWS 96
#define LONGEST  300

typedef struct fixture {
    ft_model *model;
    ft_engine *engine;
    ft_rng rng;
    ft_seq *seq[N_SEQS];
    int32_t text[N_SEQS][LONGEST + MAX_ROWS];
    int32_t tokens[N_SEQS][MAX_ROWS], parent[N_SEQS][MAX_ROWS];
    uint64_t want[N_SEQS][2];
} fixture;

/* A segment of a sequence: a tree, all of it wanted, or a chunk of the text without logits. */
static ft_segment segment(fixture *f, uint32_t i, uint32_t n, bool tree)
{
    uint32_t at = ft_seq_n_past(f->seq[i]), n_pending = ft_seq_n_pending(f->seq[i]);
    uint32_t depth[MAX_ROWS + 1] = {0}; /* of the kept node, if any, and the new ones */
    for (uint32_t j = 0; j < n; j++) {
        int32_t up = (int32_t)(tree ? ft_rng_below(&f->rng, n_pending + j + 1) : n_pending + j) - 1;
        depth[n_pending + j] = up < 0 ? 0 : depth[up] + 1;
        f->parent[i][j] = up;
        f->tokens[i][j] = f->text[i][at + depth[n_pending + j]];
    }
    f->want[i][0] = f->want[i][1] = ~0ull;
    return (ft_segment){.seq = f->seq[i],
                        .n = n,
                        .tokens = f->tokens[i],
                        .parent = tree ? f->parent[i] : NULL,
                        .want = tree ? f->want[i] : NULL};
}

/* Commits the first pending node and what follows from it as a chain; keeps a node below, if
 * any. */
static void commit(ft_seq *seq, const ft_segment *s)
{
    uint32_t path[MAX_ROWS], n = 0, keep, n_keep = 0;
    if (ft_seq_n_pending(seq) > s->n) { /* a kept node before it */
        ft_seq_truncate(seq, ft_seq_n_past(seq));
        return;
    }
    for (uint32_t j = 0; j < s->n; j++) {
        bool on = s->parent ? s->parent[j] == (n > 0 ? (int32_t)path[n - 1] : -1) : true;
        if (on && n < 5 + 90 * !s->parent)
            path[n++] = j;
        else if (on && n_keep == 0)
            keep = j, n_keep = 1;
    }
    assert_int_equal(ft_seq_commit(seq, path, n, &keep, n_keep, NULL), FT_OK);
}

/* The text has ended; a new one begins like an old one of the same scope. */
static void start_over(fixture *f, uint32_t i)
{
    uint32_t same = ft_rng_below(&f->rng, 200);
    for (uint32_t j = 0; j < LONGEST + MAX_ROWS; j++)
        f->text[i][j] = (int32_t)(j < same ? j : ft_rng_below(&f->rng, 259));
    ft_seq_truncate(f->seq[i], 0);
    (void)ft_seq_attach(f->seq[i], f->text[i], LONGEST);
}

/* A few times the logits of some of the wanted rows. */
static void ask_some(fixture *f, const ft_segment *s, uint32_t n)
{
    uint32_t rows[MAX_ROWS], n_wanted = 0, n_rows;
    for (uint32_t i = 0; i < n; i++)
        n_wanted += s[i].want ? s[i].n : 0;
    for (uint32_t times = ft_rng_below(&f->rng, 4); times-- > 0;) {
        n_rows = 0;
        for (uint32_t row = 0; row < n_wanted; row++)
            if (ft_rng_below(&f->rng, 3) == 0)
                rows[n_rows++] = row;
        assert_int_equal(ft_engine_head(f->engine, rows, n_rows, NULL), FT_OK);
    }
}

static void one_round(fixture *f)
{
    ft_segment s[N_SEQS];
    uint32_t n = 0, rows = 0;
    bool prompts = ft_rng_below(&f->rng, 4) == 0;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        if (ft_seq_n_past(f->seq[i]) + MAX_ROWS / N_SEQS > LONGEST)
            start_over(f, i);
        if (ft_rng_below(&f->rng, 3) == 0)
            continue;
        bool tree = !prompts && ft_rng_below(&f->rng, 5);
        if (!tree)
            ft_seq_truncate(f->seq[i], ft_seq_n_past(f->seq[i]));
        s[n] = segment(f, i, 1 + ft_rng_below(&f->rng, MAX_ROWS / N_SEQS), tree);
        rows += s[n++].n;
    }
    if (rows == 0)
        return;
    if (ft_rng_below(&f->rng, 2)) {
        assert_int_equal(ft_engine_forward(f->engine, s, n, NULL), FT_OK);
    } else {
        assert_int_equal(ft_engine_forward_rows(f->engine, s, n, NULL), FT_OK);
        ask_some(f, s, n);
    }
    for (uint32_t i = 0; i < n; i++)
        commit(s[i].seq, &s[i]);
}

/* The largest pass of either kind, then as many shapes as the engine keeps graphs of. */
static void warm_up(fixture *f)
{
    for (int tree = 0; tree < 2; tree++) {
        ft_segment s = segment(f, 0, MAX_ROWS, tree);
        assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
        ft_seq_truncate(f->seq[0], 0);
    }
    for (int i = 0; i < 300; i++)
        one_round(f);
}

static void run_on(enum ggml_type type, int n_threads)
{
    uint32_t own = count_allocs_of_ggml(), passes, runs;
    fixture *f = calloc(1, sizeof *f);
    tiny_gguf_opts gguf = {.arch = "llama", .type = type, .seed = 4};
    char *path = tiny_gguf_temp(&gguf);
    ft_model_opts model = {.path = path};
    assert_int_equal(ft_model_load(&model, NULL, &f->model), FT_OK);
    ft_engine_opts opts = {.model = f->model,
                           .kv_tok = N_SEQS * (LONGEST + 32),
                           .max_batch_tok = MAX_ROWS,
                           .n_threads = n_threads};
    assert_int_equal(ft_engine_create(&opts, NULL, &f->engine), FT_OK);
    ft_rng_init(&f->rng, 9);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        assert_int_equal(ft_seq_create(f->engine, NULL, &f->seq[i]), FT_OK);
        ft_seq_set_scope(f->seq[i], 1 + i / 2);
        start_over(f, i);
    }
    warm_up(f);
    ft_engine_stats stats;
    ft_engine_get_stats(f->engine, &stats);
    passes = (uint32_t)stats.forwards;
    runs = (uint32_t)(stats.forwards + stats.heads); /* of ggml */
    count_allocs(true);
    for (int i = 0; i < 400; i++)
        one_round(f);
    count_allocs(false);
    ft_engine_get_stats(f->engine, &stats);
    passes = (uint32_t)stats.forwards - passes;
    runs = (uint32_t)(stats.forwards + stats.heads) - runs;
    assert_true(stats.prefix_hit_tok > 1000 && stats.prefix_evicted > 0 && passes > 300);
    for (int i = 0; i < N_SEQS; i++)
        ft_seq_destroy(f->seq[i]);
    ft_engine_destroy(f->engine);
    ft_model_destroy(f->model);
    unlink(path);
    free(path);
    free(f);
    /* On more threads a pass can be given up and done again (pace.h). */
    uint32_t calls = count_allocs_taken(), most = (n_threads > 1 ? 2 : 1) * own * runs;
    print_message("%u passes, %u calls, %u of them a run by ggml itself\n", passes, calls, own);
    if (calls < own * runs || calls > most || (own > 0 && calls % own != 0))
        fail_msg("allocations in a round, the first call of all for %zu bytes",
                 count_allocs_first_bytes());
}

static void test_counter(void **state)
{
    void *volatile p;
    if (!COUNTS_ALLOCS) {
        print_message("SKIPPED: allocations cannot be counted in this build\n");
        skip();
    }
    count_allocs(true);
    p = malloc(10);
    free(p);
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){.mem_size = 1000});
    count_allocs(false);
    ggml_free(ctx);
    assert_true(count_allocs_taken() >= 4); /* ggml's own too */
}

static void test_rounds(void **state)
{
    if (!COUNTS_ALLOCS)
        skip();
    run_on(GGML_TYPE_Q4_0, 1);
    run_on(GGML_TYPE_F16, 2);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
