/* SPDX-License-Identifier: Apache-2.0
 *
 * The small target model that tests of the server share, and verifiers of it. */
#ifndef FT_TEST_TARGET_H
#define FT_TEST_TARGET_H

#include <stdatomic.h>

#include "serve/verifier.h"

struct test_text; /* support/rounds.h */

typedef struct test_target {
    ft_model *model; /* of weights whose kernels are batch-invariant; on test_device() in F32, where
                        the device rounds least */
    ft_vocab *vocab;
    uint32_t n_vocab;
    struct test_clear *clear; /* what test_prompt_clear needs; NULL without a device */
} test_target;

/* The one model of a test program: from setup to teardown, which are cmocka's of a group. */
extern test_target target;
int test_target_setup(void **state);
int test_target_teardown(void **state);

/* How far a logit may be off on test_device(): as far as libllama's there are from its own on the
 * CPU, in this run. 0 without a device: there every pass gives the same bits. */
float test_rounding(void);
/* Whether the text behind this prompt is the same in every batch: the best token leads the second
 * one by more than rounding can take from it, everywhere (support/clear.h). Without a device every
 * text is. */
bool test_prompt_clear(const struct test_text *prompt, const ft_msg_sampling *s, uint32_t max_tok);

/* opts with model, vocabulary, and where they are 0 the machine's clock, one thread and a context
 * of 512 filled in. */
ft_verifier_opts test_verifier_opts(ft_verifier_opts opts);
/* Of these; a failure ends the test. */
ft_verifier *test_verifier_start(ft_verifier_opts opts);
/* After a tick. */
ft_verifier_stats test_verifier_stats(ft_verifier *v);
/* No session is left, and all KV is free. */
void test_verifier_expect_empty(ft_verifier *v);

/* A clock whose time is the work that a verifier did: so many us a pass and a row, whatever the
 * machine is doing. Without a verifier it stands still. A verifier that holds a pass back until
 * some time needs look_us > 0. Each look at the clock moves it by so much, so the time comes. */
typedef struct test_work_clock {
    _Atomic(ft_verifier *) verifier;
    int64_t pass_us, row_us, look_us;
    _Atomic int64_t looks;
} test_work_clock;
ft_clock test_work_clock_of(test_work_clock *clock);

/* A clock that stands where `now_us` is; another thread may read it at any time. */
ft_clock test_shared_clock(_Atomic int64_t *now_us);

#endif
