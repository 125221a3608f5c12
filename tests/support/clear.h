/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of the tests' target that a device's rounding does not change. A device may round a row in
 * another way in another batch. So two texts need not be equal there, unless the best token leads
 * the second one by more than rounding at each position. A failure ends the test. */
#ifndef FT_TEST_CLEAR_H
#define FT_TEST_CLEAR_H

#include <stdbool.h>

#include "support/rounds.h"

/* An engine of target.model, and the rounding. One thread. */
typedef struct test_clear test_clear;

/* path: the model's file. Measures the rounding: libllama's ways on test_device(), whole and one
 * token at a time, against its plain attention on the CPU. */
test_clear *test_clear_create(const char *path);
void test_clear_destroy(test_clear *clear);
/* The largest difference between two logits of libllama's. */
float test_clear_rounding(const test_clear *clear);
/* Whether the two best tokens are more than two roundings apart at each of up to max_tok positions
 * behind the prompt. Filters must be off: at their edge, too, rounding decides. */
bool test_clear_prompt(test_clear *clear, const test_text *prompt, const ft_msg_sampling *s,
                       uint32_t max_tok);

#endif
