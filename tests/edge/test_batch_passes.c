// SPDX-License-Identifier: Apache-2.0
// edge/batch_passes: verdicts of one pass count once, whichever batches they are of.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/batch_passes.h"

static bool hear(ft_batch_passes *p, int64_t us, int64_t came_us, bool mixed)
{
    const ft_batch_pass verdict = {
        .us = us, .came_us = came_us, .pass = ft_pass_plus((ft_pass){0}, 10, 3, 3), .mixed = mixed};
    return ft_batch_passes_heard(p, &verdict);
}

static void test_once(void **state)
{
    ft_batch_passes p = {0};
    ft_batch_pass pass;
    (void)state;
    assert_true(hear(&p, 5000, 100000, false));
    assert_false(hear(&p, 5000, 100900, false)); /* of another batch, or a slower stream */
    assert_false(hear(&p, 5000, 99100, true));
    assert_true(hear(&p, 5001, 100000, false)); /* another pass */
    assert_true(hear(&p, 5000, 105000, false)); /* as long, and right behind it */
    assert_int_equal(p.n_seen, 3);
    assert_true(fabs(p.sum_s - 0.015001) < 1e-9);
    assert_false(ft_batch_passes_take(&p, &pass)); /* in the next turn more may come */
    assert_false(hear(&p, 5001, 100500, false));
    assert_true(ft_batch_passes_take(&p, &pass));
    assert_int_equal(pass.pass.rows, 9);
    assert_int_equal(pass.pass.cached, 30);
    assert_true(pass.mixed);
    assert_true(ft_batch_passes_take(&p, &pass));
    assert_int_equal(pass.pass.rows, 3);
    assert_false(ft_batch_passes_take(&p, &pass));
    assert_true(ft_batch_passes_take(&p, &pass));
    assert_int_equal(pass.us, 5001);
    assert_int_equal(pass.pass.rows, 6);
    assert_false(ft_batch_passes_take(&p, &pass));
}

/* More passes than are kept open: each counts, the oldest are forgotten. */
static void test_many(void **state)
{
    ft_batch_passes p = {0};
    ft_batch_pass pass;
    (void)state;
    for (int i = 0; i < FT_BATCH_PASSES_OPEN + 2; i++)
        assert_true(hear(&p, 1000 + i, 0, false));
    assert_int_equal(p.n_seen, FT_BATCH_PASSES_OPEN + 2);
    assert_false(ft_batch_passes_take(&p, &pass));
    assert_true(ft_batch_passes_take(&p, &pass));
    assert_int_equal(pass.us, 1002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
