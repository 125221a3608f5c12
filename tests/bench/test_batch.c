// SPDX-License-Identifier: Apache-2.0
// bench/batch: what two stages allow a pipeline is what the recursion of Zhu et al., (20), comes to
// with many batches.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bench/batch.h"

/* Seconds of n batches, each of whose stages take so long: eq. (20). */
static double pipeline_s(int n, double draft_s, double verify_s)
{
    double drafted = 0, done = 0;
    for (int i = 0; i < n; i++) {
        drafted += draft_s;
        done = fmax(drafted, done) + verify_s;
    }
    return done;
}

static void test_bound(void **state)
{
    static const double stages[][2] = {{1, 1}, {3, 1}, {1, 4}, {2, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const double d = stages[i][0], v = stages[i][1];
        const double gain = 1 - pipeline_s(1000, d, v) / (1000 * (d + v));
        const double bound = ft_bench_batch_bound(1000 * d, 1000 * v);
        assert_true(gain <= bound && bound - gain < 2e-3);
    }
    assert_true(ft_bench_batch_bound(0, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
