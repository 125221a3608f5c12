// SPDX-License-Identifier: Apache-2.0
// How much of a prediction came true: of whole answers, of edited ones, of none; against what was
// edited, in random edits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/prediction.h"

enum { MOST = 800 };

static uint32_t came(const int32_t *prediction, uint32_t n, const int32_t *answer,
                     uint32_t n_answer)
{
    ft_error err = {0};
    uint32_t result = 0;
    if (ft_prediction_came(prediction, n, answer, n_answer, &err, &result) != FT_OK)
        fail_msg("%s", err.message);
    return result;
}

static void test_all_or_nothing(void **state)
{
    static const int32_t text[] = {5, 6, 7, 8, 9, 5, 6}, other[] = {1, 2, 3, 4};
    assert_int_equal(came(text, 7, text, 7), 7);
    assert_int_equal(came(text, 7, text, 3), 3);
    assert_int_equal(came(text, 7, other, 4), 0);
    assert_int_equal(came(text, 7, NULL, 0), 0);
    assert_int_equal(came(NULL, 0, text, 7), 0);
    assert_int_equal(came(text, 1, text, 1), 1);
}

static void test_edits(void **state)
{
    static const int32_t before[] = {10, 11, 12, 13, 14, 15, 16, 17};
    static const int32_t replaced[] = {10, 11, 12, 99, 14, 15, 16, 17};
    static const int32_t inserted[] = {1, 2, 10, 11, 12, 13, 3, 4, 14, 15, 16, 17, 5};
    static const int32_t removed[] = {10, 11, 15, 16, 17};
    static const int32_t moved[] = {14, 15, 16, 17, 10, 11, 12, 13};
    assert_int_equal(came(before, 8, replaced, 8), 7);
    assert_int_equal(came(before, 8, inserted, 13), 8);
    assert_int_equal(came(before, 8, removed, 5), 5);
    assert_int_equal(came(before, 8, moved, 8), 8);
}

/* An answer that is the prediction with tokens replaced by new ones here and there: all others
 * came, but single ones between two replacements need not be found again. */
static void test_random_edits(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int round = 0; round < 200; round++) {
        int32_t prediction[MOST], answer[MOST];
        const uint32_t n = 1 + ft_rng_below(&rng, MOST), every = 2 + ft_rng_below(&rng, 30);
        uint32_t same = 0, alone = 0, since = 0;
        for (uint32_t i = 0; i < n; i++) {
            const bool edit = ft_rng_below(&rng, every) == 0;
            prediction[i] = (int32_t)(1000 + i);
            answer[i] = edit ? (int32_t)i : prediction[i];
            same += !edit;
            alone += edit && since == 1;
            since = edit ? 0 : since + 1;
        }
        const uint32_t found = came(prediction, n, answer, n);
        assert_in_range(found, same - (alone + (since == 1)), same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_random_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
