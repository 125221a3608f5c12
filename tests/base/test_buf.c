// SPDX-License-Identifier: Apache-2.0
// The byte buffer: always a string, grows, shifts, and a failed append leaves it as it was.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"

static void test_empty(void **state)
{
    ft_buf buf = {0};
    assert_string_equal(ft_buf_str(&buf), "");
    ft_buf_clear(&buf);
    ft_buf_shift(&buf, 0);
    assert_int_equal(ft_buf_append(&buf, NULL, 0), FT_OK);
    assert_string_equal(ft_buf_str(&buf), "");
    ft_buf_deinit(&buf);
    assert_null(buf.data);
    ft_buf_deinit(&buf);
}

static void test_reserved_is_a_string(void **state)
{
    ft_buf buf = {0};
    assert_int_equal(ft_buf_reserve(&buf, 1000), FT_OK);
    assert_true(buf.cap >= 1001);
    assert_string_equal(ft_buf_str(&buf), "");
    ft_buf_deinit(&buf);
}

static void test_append_printf_shift(void **state)
{
    ft_buf buf = {0};
    assert_int_equal(ft_buf_puts(&buf, "one "), FT_OK);
    assert_int_equal(ft_buf_append(&buf, "two\0three", 9), FT_OK);
    assert_int_equal(buf.len, 13);
    assert_memory_equal(buf.data, "one two\0three", 14); /* the NUL behind it too */
    ft_buf_clear(&buf);
    assert_string_equal(ft_buf_str(&buf), "");
    assert_int_equal(ft_buf_printf(&buf, "%d-%s", 42, "x"), FT_OK);
    assert_int_equal(ft_buf_printf(&buf, "%0500d", 7), FT_OK);
    assert_int_equal(buf.len, 504);
    assert_int_equal(strlen(ft_buf_str(&buf)), 504);
    ft_buf_shift(&buf, 3);
    assert_int_equal(buf.len, 501);
    assert_int_equal(buf.data[0], 'x');
    ft_buf_shift(&buf, 501);
    assert_string_equal(ft_buf_str(&buf), "");
    assert_false(buf.failed);
    ft_buf_deinit(&buf);
}

static void test_failure_leaves_it_as_it_was(void **state)
{
    ft_buf buf = {0};
    assert_int_equal(ft_buf_puts(&buf, "kept"), FT_OK);
    assert_int_equal(ft_buf_reserve(&buf, SIZE_MAX), FT_NOMEM);
    assert_int_equal(ft_buf_reserve(&buf, SIZE_MAX - 6), FT_NOMEM);
    assert_int_equal(ft_buf_reserve(&buf, SIZE_MAX / 2), FT_NOMEM);
    assert_true(buf.failed);
    assert_string_equal(ft_buf_str(&buf), "kept");
    assert_int_equal(ft_buf_puts(&buf, "!"), FT_OK);
    assert_true(buf.failed); /* sticks until cleared */
    ft_buf_clear(&buf);
    assert_false(buf.failed);
    ft_buf_deinit(&buf);
}

/* Random appends and shifts against a plain array. */
static void test_against_array(void **state)
{
    static char model[200000];
    size_t n = 0;
    ft_buf buf = {0};
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int step = 0; step < 3000; step++) {
        char piece[64];
        size_t k = ft_rng_below(&rng, sizeof piece);
        for (size_t i = 0; i < k; i++)
            piece[i] = (char)ft_rng_u32(&rng);
        assert_int_equal(ft_buf_append(&buf, piece, k), FT_OK);
        memcpy(model + n, piece, k);
        n += k;
        if (ft_rng_below(&rng, 4) == 0) {
            size_t drop = ft_rng_below(&rng, (uint32_t)n + 1);
            ft_buf_shift(&buf, drop);
            memmove(model, model + drop, n - drop);
            n -= drop;
        }
        assert_int_equal(buf.len, n);
        assert_true(buf.cap > n || !buf.data);
        if (buf.data) {
            assert_memory_equal(buf.data, model, n);
            assert_int_equal(buf.data[n], 0);
        }
    }
    ft_buf_deinit(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_reserved_is_a_string),
        cmocka_unit_test(test_append_printf_shift),
        cmocka_unit_test(test_failure_leaves_it_as_it_was),
        cmocka_unit_test(test_against_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
