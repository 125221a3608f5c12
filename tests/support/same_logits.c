// SPDX-License-Identifier: Apache-2.0
// Computes the same rows with two models and compares the logits bit for bit. Stateless.
#include "support/same_logits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/rng.h"

#define N_PROMPT 20
#define N_TEXT   12
#define N_TREE   5

typedef struct one {
    ft_engine *engine;
    ft_seq *seq;
} one;

static void open_one(one *o, ft_model *model, ft_attn_route route)
{
    ft_engine_opts opts = {
        .model = model, .kv_tok = 128, .max_batch_tok = 32, .n_threads = 1, .route = route};
    assert_int_equal(ft_engine_create(&opts, NULL, &o->engine), FT_OK);
    assert_int_equal(ft_seq_create(o->engine, NULL, &o->seq), FT_OK);
}

static void close_one(one *o)
{
    ft_seq_destroy(o->seq);
    ft_engine_destroy(o->engine);
}

/* Both compute the segment; the likeliest token of the last row that both agree on to the bit. The
 * first n_commit nodes stay. */
static int32_t step(one o[2], ft_segment segment, uint32_t n_commit, uint32_t n_vocab)
{
    static const uint32_t path[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                    10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    const uint64_t all = ~0ull;
    const float *row[2] = {NULL, NULL};
    int32_t best = 0;
    segment.want = &all;
    for (int i = 0; i < 2; i++) {
        segment.seq = o[i].seq;
        assert_int_equal(ft_engine_forward(o[i].engine, &segment, 1, NULL), FT_OK);
        assert_int_equal(segment.first_row, 0);
    }
    for (uint32_t r = 0; r < segment.n; r++) {
        row[0] = ft_engine_logits(o[0].engine, r);
        row[1] = ft_engine_logits(o[1].engine, r);
        for (uint32_t j = 0; j < n_vocab; j++)
            if (row[0][j] != row[1][j])
                fail_msg("row %u of %u, token %u: %.9g, was %.9g", r, segment.n, j,
                         (double)row[1][j], (double)row[0][j]);
    }
    for (uint32_t j = 1; row[0] && j < n_vocab; j++)
        if (row[0][j] > row[0][best])
            best = (int32_t)j;
    for (int i = 0; i < 2; i++)
        assert_int_equal(ft_seq_commit(o[i].seq, path, n_commit, NULL, 0, NULL), FT_OK);
    return best;
}

void same_logits(ft_model *a, ft_model *b, ft_attn_route route)
{
    static const int32_t tree[N_TREE] = {7, 8, 9, 10, 11}, parent[N_TREE] = {-1, 0, 0, 1, -1};
    const uint32_t n_vocab = ft_model_hparams(a)->n_vocab;
    int32_t prompt[N_PROMPT];
    one o[2];
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)ft_rng_below(&rng, 259);
    assert_int_equal(ft_model_hparams(b)->n_vocab, n_vocab);
    open_one(&o[0], a, route);
    open_one(&o[1], b, route);
    ft_segment s = {.n = N_PROMPT, .tokens = prompt};
    int32_t next = step(o, s, N_PROMPT, n_vocab);
    for (int i = 0; i < N_TEXT; i++) {
        s = (ft_segment){.n = 1, .tokens = &next};
        next = step(o, s, 1, n_vocab);
    }
    s = (ft_segment){.n = N_TREE, .tokens = tree, .parent = parent};
    step(o, s, 2, n_vocab);
    close_one(&o[0]);
    close_one(&o[1]);
}
