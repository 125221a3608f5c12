// SPDX-License-Identifier: Apache-2.0
// plot: which paths are refused before gnuplot is asked for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/plot.h"

static void test_paths(void **state)
{
    static const char *const bad[] = {"plot", "plot.pdf", "it's.svg", "two\nlines.png"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ft_plot p = {.command = "test", .path = bad[i], .width = 100, .height = 100};
        ft_error err = {0};
        assert_int_equal(ft_plot_open(&p, &err), FT_INVALID);
        assert_non_null(strstr(err.message, "test: --plot"));
        assert_null(p.gnuplot);
        assert_int_equal(ft_plot_check("test", bad[i], &err), FT_INVALID);
    }
}

static void test_without_gnuplot(void **state)
{
    ft_error err = {0};
    (void)state;
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(ft_plot_check("test", "plot.svg", &err), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "test: gnuplot"));
    assert_int_equal(access("plot.svg", F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths),
                                       cmocka_unit_test(test_without_gnuplot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
