/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts for tests of the verifier, from none to hostile, and what a verdict does to a text. */
#ifndef FT_TEST_ROUNDS_H
#define FT_TEST_ROUNDS_H

#include <stdbool.h>

#include "base/rng.h"
#include "wire/messages.h"

typedef enum test_style {
    TEST_DRAFT_NONE,    /* no nodes: the server draws */
    TEST_DRAFT_PERFECT, /* a chain of what the target will say */
    TEST_DRAFT_WRONG,   /* a chain of random tokens */
    TEST_DRAFT_TREE,    /* a random tree with what the target will say scattered in it */
    TEST_DRAFT_MIXED,   /* one of the above each round */
    TEST_DRAFT_RUN,     /* no nodes, and several tokens */
    TEST_DRAFT_STYLES
} test_style;

#define TEST_TEXT_MAX 4096

/* A text as an edge sees it. */
typedef struct test_text {
    int32_t token[TEST_TEXT_MAX];
    uint32_t n, n_prompt;
    uint32_t rounds, accepted;
    ft_finish finish;
} test_text;

void test_text_init(test_text *text, const int32_t *prompt, uint32_t n);
/* n random bytes' tokens of a tiny model's vocabulary. */
void test_text_random(test_text *text, uint32_t n, uint64_t seed);

/* How an edge drafts. ref: the whole text that the target is going to say, or NULL (then no style
 * is right but by chance). */
typedef struct test_edge {
    test_style style;
    const test_text *ref;
    uint32_t max_tree, n_vocab;
    ft_rng rng;
} test_edge;
test_edge test_edge_make(test_style style, const test_text *ref, uint32_t n_vocab, uint64_t seed);

/* The next round's draft behind `text`. */
void test_draft(ft_msg_draft *draft, test_edge *edge, const test_text *text);

/* Adds what a verdict says about `draft`. False: the verdict contradicts itself or the draft. */
bool test_apply(test_text *text, const ft_msg_draft *draft, const ft_msg_verdict *verdict);

/* Equal tokens and equal finish. */
bool test_text_equal(const test_text *a, const test_text *b);

#endif
