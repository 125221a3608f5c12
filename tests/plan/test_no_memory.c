// SPDX-License-Identifier: Apache-2.0
// Each allocation of plans and baselines fails in turn: an error, nothing left behind, and the same
// plans as before when there is memory again. (Not those of reading: jansson asserts some of its.)
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/baselines.h"
#include "plan/exhaustive.h"
#include "plan/scenario.h"
#include "support/fail_allocs.h"

static const char text[] =
    "{\"kind\": \"foretoken plan\", \"acceptance\": 0.8, \"lengths\": [0, 1],\n"
    "\"draft\": {\"layers\": 22, \"hidden\": 2048, \"ffn\": 5632, \"c1\": 4e-13, \"c2\": 5e-4,\n"
    "            \"memory_gb\": 2},\n"
    "\"verify\": {\"layers\": 32, \"hidden\": 4096, \"ffn\": 11008, \"c1\": 2e-14, \"c2\": 1e-2},\n"
    "\"uplink\": {\"rate_mbit_s\": 3},\n"
    "\"tasks\": [{\"id\": \"a\", \"input\": 100, \"output\": 9},\n"
    "            {\"id\": \"b\", \"input\": 300, \"output\": 30},\n"
    "            {\"id\": \"c\", \"input\": 20, \"output\": 70},\n"
    "            {\"id\": \"d\", \"input\": 500, \"output\": 50},\n"
    "            {\"id\": \"e\", \"input\": 40, \"output\": 20}]}";

/* Everything once; the sum of all latencies. */
static ft_status run_all(ft_error *err, double *sum)
{
    ft_plan_scenario s;
    ft_batch_plan plan = {0}, other;
    *sum = 0;
    fail_allocs_not_here = true;
    ft_status status = ft_plan_scenario_parse(text, sizeof text - 1, err, &s);
    fail_allocs_not_here = false;
    assert_int_equal(status, FT_OK);
    ft_plan_problem p = ft_plan_scenario_problem(&s);
    for (int leave = 0; leave < 2 && status == FT_OK; leave++) {
        ft_batch_plan_deinit(&plan);
        p.leave = leave;
        status = ft_batch_plan_make(&p, FT_PLAN_BEST, NULL, err, &plan);
        assert_true((status == FT_OK) == (plan.batches != NULL));
        *sum += plan.total_s;
    }
    p.leave = false;
    for (int i = 0; i < FT_PLAN_BASELINES && status == FT_OK; i++) {
        const ft_plan_baseline_opts opts = {&plan, FT_PLAN_PAPER, 2};
        status = ft_plan_baseline_make(&p, (ft_plan_baseline)i, &opts, err, &other);
        *sum += other.total_s;
        ft_batch_plan_deinit(&other);
    }
    double least = 0;
    if (status == FT_OK)
        status = ft_plan_exhaustive(&p, FT_PLAN_CONTIGUOUS, err, &least);
    *sum += least;
    ft_batch_plan_deinit(&plan);
    ft_plan_scenario_deinit(&s);
    return status;
}

static void test_each(void **state)
{
    static const char *const modules[] = {"", NULL};
    double wanted, sum;
    long n = 0;
    ft_error err = {0};
    if (!FAILS_ALLOCS) {
        print_message("SKIPPED: allocations cannot fail in this build\n");
        skip();
    }
    fail_allocs_init(modules);
    if (run_all(&err, &wanted) != FT_OK)
        fail_msg("%s", err.message);
    for (bool failed = true; failed; n++) {
        fail_allocs_arm(n + 1);
        const ft_status status = run_all(&err, &sum);
        failed = fail_allocs_disarm() != NULL;
        assert_int_equal(status, failed ? FT_NOMEM : FT_OK);
    }
    assert_true(n > 100);
    assert_int_equal(run_all(&err, &sum), FT_OK);
    assert_true(sum == wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
