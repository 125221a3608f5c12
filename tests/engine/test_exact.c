// SPDX-License-Identifier: Apache-2.0
// Row results are a function of the row's own tokens, bit for bit, with packed weights: random
// batches of chunks and trees of several sequences, with commits, kept subtrees, forks and
// truncations between them, against the same tokens computed one at a time. FT_TEST_MODEL names a
// further file to run on (skipped if unset).
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
#include "engine/products.h"
#include "support/sanitized.h"
#include "support/tiny_gguf.h"

#define N_SEQS   3
#define MAX_NEW  24
#define MAX_PEND 64

/* A sequence under test beside its reference, which only ever sees one token at a time. */
typedef struct pair {
    ft_seq *seq, *ref;
    uint32_t n_pending;
    int32_t token[MAX_PEND], parent[MAX_PEND];
} pair;

typedef struct fixture {
    ft_model *model;
    ft_engine *engine, *ref_engine;
    ft_rng rng;
    uint32_t n_vocab, rows;
    pair pairs[N_SEQS];
} fixture;

static ft_engine *new_engine(ft_model *model, int n_threads)
{
    ft_error err = {0};
    ft_engine *engine = NULL;
    ft_engine_opts opts = {
        .model = model, .kv_tok = 8192, .max_batch_tok = 128, .n_threads = n_threads};
    if (ft_engine_create(&opts, &err, &engine) != FT_OK)
        fail_msg("%s", err.message);
    return engine;
}

static const float *step(fixture *f, ft_seq *seq, int32_t token)
{
    uint64_t want = 1;
    ft_segment s = {.seq = seq, .n = 1, .tokens = &token, .want = &want};
    assert_int_equal(ft_engine_forward(f->ref_engine, &s, 1, NULL), FT_OK);
    return ft_engine_logits(f->ref_engine, 0);
}

static void commit_last(ft_seq *seq)
{
    uint32_t node = 0;
    assert_int_equal(ft_seq_commit(seq, &node, 1, NULL, 0, NULL), FT_OK);
}

/* Path of a pending node from its root; returns its length. */
static uint32_t path_to(const pair *p, int32_t node, uint32_t *path)
{
    uint32_t n = 0, tmp[MAX_PEND];
    for (; node >= 0; node = p->parent[node])
        tmp[n++] = (uint32_t)node;
    for (uint32_t i = 0; i < n; i++)
        path[i] = tmp[n - 1 - i];
    return n;
}

static void check_row(fixture *f, const pair *p, uint32_t node, const float *got)
{
    uint32_t path[MAX_PEND], n = path_to(p, (int32_t)node, path);
    ft_seq *ref = NULL;
    assert_int_equal(ft_seq_fork(p->ref, NULL, &ref), FT_OK);
    const float *expected = NULL;
    for (uint32_t i = 0; i < n; i++) {
        expected = step(f, ref, p->token[path[i]]);
        if (i + 1 < n)
            commit_last(ref);
    }
    f->rows++;
    if (memcmp(got, expected, f->n_vocab * sizeof *got) != 0) {
        double worst = 0;
        for (uint32_t i = 0; i < f->n_vocab; i++) {
            double d = (double)got[i] - expected[i];
            worst = d > worst ? d : -d > worst ? -d : worst;
        }
        fail_msg("row %u at depth %u behind %u differs by up to %g", node, n, ft_seq_n_past(p->ref),
                 worst);
    }
    ft_seq_destroy(ref);
}

/* New nodes for a pair: a chunk or a tree, all wanted or some. */
static void add_nodes(fixture *f, pair *p, ft_segment *s, uint64_t *want)
{
    uint32_t room = MAX_PEND - p->n_pending, n = 1 + ft_rng_below(&f->rng, MAX_NEW);
    bool chain = ft_rng_below(&f->rng, 3) == 0;
    n = n < room ? n : room;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = p->n_pending + i;
        p->token[number] = (int32_t)ft_rng_below(&f->rng, 259);
        p->parent[number] =
            chain ? (int32_t)number - 1 : (int32_t)ft_rng_below(&f->rng, number + 1) - 1;
    }
    *want = ft_rng_u32(&f->rng) & ft_rng_u32(&f->rng);
    *s = (ft_segment){.seq = p->seq,
                      .n = n,
                      .tokens = p->token + p->n_pending,
                      .parent = chain ? NULL : p->parent + p->n_pending,
                      .want = want};
    p->n_pending += n;
}

static void one_batch(fixture *f)
{
    ft_segment segments[N_SEQS];
    uint64_t want[N_SEQS];
    pair *who[N_SEQS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_SEQS; i++)
        if (ft_rng_below(&f->rng, 4) && f->pairs[i].n_pending < MAX_PEND) {
            who[n] = &f->pairs[i];
            add_nodes(f, &f->pairs[i], &segments[n], &want[n]);
            n++;
        }
    if (n == 0)
        return;
    ft_error err = {0};
    if (ft_engine_forward(f->engine, segments, n, &err) != FT_OK)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0, row = segments[i].first_row; j < segments[i].n; j++)
            if (want[i] >> j & 1)
                check_row(f, who[i], who[i]->n_pending - segments[i].n + j,
                          ft_engine_logits(f->engine, row++));
}

/* Commits the path to a random node, keeps a random part of what hangs below. */
static void commit_some(fixture *f, pair *p)
{
    uint32_t path[MAX_PEND], keep[MAX_PEND], n_keep = 0;
    int32_t renumbered[MAX_PEND];
    int32_t node = (int32_t)ft_rng_below(&f->rng, p->n_pending + 1) - 1;
    uint32_t n_path = path_to(p, node, path);
    for (uint32_t i = 0; i < n_path; i++) {
        step(f, p->ref, p->token[path[i]]);
        commit_last(p->ref);
    }
    int32_t token[MAX_PEND], parent[MAX_PEND];
    for (uint32_t i = 0; i < p->n_pending; i++) {
        int32_t up = p->parent[i];
        bool hangs = up == node || (up >= 0 && renumbered[up] >= 0);
        renumbered[i] = -1;
        if ((int32_t)i <= node || !hangs || ft_rng_below(&f->rng, 4) == 0)
            continue;
        parent[n_keep] = up == node ? -1 : renumbered[up];
        token[n_keep] = p->token[i];
        renumbered[i] = (int32_t)n_keep;
        keep[n_keep++] = i;
    }
    ft_error err = {0};
    if (ft_seq_commit(p->seq, path, n_path, keep, n_keep, &err) != FT_OK)
        fail_msg("%s", err.message);
    p->n_pending = n_keep;
    memcpy(p->token, token, n_keep * sizeof *token);
    memcpy(p->parent, parent, n_keep * sizeof *parent);
    assert_int_equal(ft_seq_n_past(p->seq), ft_seq_n_past(p->ref));
}

static void fork_over(fixture *f, pair *from, pair *to)
{
    ft_seq_destroy(to->seq);
    ft_seq_destroy(to->ref);
    assert_int_equal(ft_seq_fork(from->seq, NULL, &to->seq), FT_OK);
    assert_int_equal(ft_seq_fork(from->ref, NULL, &to->ref), FT_OK);
    to->n_pending = 0;
}

static void random_walk(fixture *f, uint32_t n_steps)
{
    for (uint32_t s = 0; s < n_steps; s++) {
        one_batch(f);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            pair *p = &f->pairs[i];
            if (ft_rng_below(&f->rng, 3))
                commit_some(f, p);
            if (ft_rng_below(&f->rng, 8) == 0) {
                uint32_t n = ft_rng_below(&f->rng, ft_seq_n_past(p->seq) + 1);
                n = n > 40 ? ft_seq_n_past(p->seq) - n % 20 : n;
                ft_seq_truncate(p->seq, n);
                ft_seq_truncate(p->ref, n);
                p->n_pending = 0;
            }
            if (ft_rng_below(&f->rng, 8) == 0)
                fork_over(f, p, &f->pairs[(i + 1) % N_SEQS]);
        }
    }
}

/* A long prompt in chunks, so that several tiles and the split over threads come in. */
static void prefill(fixture *f, pair *p, uint32_t n)
{
    int32_t token[64];
    for (uint32_t done = 0; done < n;) {
        uint32_t k = 1 + ft_rng_below(&f->rng, 64);
        k = k < n - done ? k : n - done;
        for (uint32_t i = 0; i < k; i++) {
            token[i] = (int32_t)ft_rng_below(&f->rng, 259);
            step(f, p->ref, token[i]);
            commit_last(p->ref);
        }
        ft_segment s = {.seq = p->seq, .n = k, .tokens = token};
        assert_int_equal(ft_engine_forward(f->engine, &s, 1, NULL), FT_OK);
        uint32_t path[64];
        for (uint32_t i = 0; i < k; i++)
            path[i] = i;
        assert_int_equal(ft_seq_commit(p->seq, path, k, NULL, 0, NULL), FT_OK);
        done += k;
    }
}

static void run_with(ft_products products, const char *path, uint64_t seed, uint32_t n_prompt,
                     uint32_t n_steps)
{
    fixture f = {0};
    ft_error err = {0};
    ft_model_opts opts = {.path = path};
    ft_products_apply(products, &opts);
    if (ft_model_load(&opts, &err, &f.model) != FT_OK)
        fail_msg("%s", err.message);
    f.n_vocab = ft_model_hparams(f.model)->n_vocab;
    f.engine = new_engine(f.model, 2);
    f.ref_engine = new_engine(f.model, 1);
    ft_rng_init(&f.rng, seed);
    for (int i = 0; i < N_SEQS; i++) {
        assert_int_equal(ft_seq_create(f.engine, NULL, &f.pairs[i].seq), FT_OK);
        assert_int_equal(ft_seq_create(f.ref_engine, NULL, &f.pairs[i].ref), FT_OK);
        prefill(&f, &f.pairs[i], i == 0 ? n_prompt : 10 + (uint32_t)i);
    }
    random_walk(&f, n_steps);
    print_message("%u rows equal\n", f.rows);
    assert_true(f.rows > n_steps);
    for (int i = 0; i < N_SEQS; i++) {
        ft_seq_destroy(f.pairs[i].seq);
        ft_seq_destroy(f.pairs[i].ref);
    }
    ft_engine_destroy(f.engine);
    ft_engine_destroy(f.ref_engine);
    ft_model_destroy(f.model);
}

/* With our products and with ggml's. */
static void run_on(const char *path, uint64_t seed, uint32_t n_prompt, uint32_t n_steps)
{
    run_with(FT_PRODUCTS_AUTO, path, seed, n_prompt, n_steps);
    run_with(FT_PRODUCTS_GGML, path, seed, n_prompt, n_steps);
}

static void test_tiny(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL, GGML_TYPE_BF16,
                                           GGML_TYPE_F16,  GGML_TYPE_F32,    GGML_TYPE_Q8_0};
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < 3; i++) {
            if (t >= 2 && i != (t - 2) % 3)
                continue; /* one family a type will do then */
            tiny_gguf_opts opts = {.arch = families[i],
                                   .type = types[t],
                                   .seed = 20 + i,
                                   .tied = i == 0,
                                   .n_head = i == 1 ? 6 : 4,
                                   .n_embd = 192,
                                   .n_head_kv = 2,
                                   .head_dim = 32};
            char *path = tiny_gguf_temp(&opts);
            run_on(path, 30 + i, 300, FT_TIMES(40, 12));
            unlink(path);
            free(path);
        }
}

/* Files of K-quants have some matrices in a finer type. */
static void test_k_quants(void **state)
{
    static const enum ggml_type types[][2] = {{GGML_TYPE_Q4_K, GGML_TYPE_Q6_K},
                                              {GGML_TYPE_Q5_K, GGML_TYPE_Q5_K}};
    for (size_t t = 0; t < 2; t++) {
        tiny_gguf_opts opts = {.type = types[t][0], .finer = types[t][1], .seed = 40 + t};
        char *path = tiny_gguf_temp(&opts);
        run_on(path, 33 + t, 300, FT_TIMES(40, 12));
        unlink(path);
        free(path);
    }
}

static void test_named_model(void **state)
{
    const char *path = getenv("FT_TEST_MODEL");
    if (!path)
        skip();
    run_on(path, 5, 150, 12);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_k_quants),
        cmocka_unit_test(test_named_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
