/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that verifies drafts by rule `exact`, for tests of drafters. A failure ends the test. */
#ifndef FT_TEST_EXACT_TARGET_H
#define FT_TEST_EXACT_TARGET_H

#include "engine/engine.h"
#include "spec/rule.h"
#include "spec/tree.h"

typedef struct test_exact_target {
    ft_engine *engine;
    ft_seq *seq;
    ft_rule_work *work;
    uint32_t first_row;
} test_exact_target;

/* Reads all of text[n], n > 1, but the last token. Owes a deinit. */
void test_exact_target_init(test_exact_target *t, const ft_model *model, const int32_t *text,
                            uint32_t n);
void test_exact_target_deinit(test_exact_target *t);
/* One round: verifies the tree behind text[0, n) and commits what is kept. A tree without nodes:
 * plain decoding. */
void test_exact_target_round(test_exact_target *t, const ft_sampling *s, const int32_t *text,
                             uint32_t n, const ft_tree *tree, ft_verified *v);

#endif
