// SPDX-License-Identifier: Apache-2.0
// Tenants' shares of recent service.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/fair.h"

static void test_share(void **state)
{
    (void)state;
    assert_float_equal(ft_fair_share(30, 120), 0.25, 1e-9);
    assert_float_equal(ft_fair_share(121, 120), 1, 1e-9); /* sums in another order */
    assert_float_equal(ft_fair_share(0, 0), 0, 1e-9);
}

/* Half is forgotten after about 7 passes. */
static void test_fades(void **state)
{
    double rows = 1000;
    int n = 0;
    (void)state;
    for (; n < 1000 && rows > 500; n++)
        rows = ft_fair_faded(rows);
    assert_int_equal(n, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_fades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
