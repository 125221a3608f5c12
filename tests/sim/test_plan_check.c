// SPDX-License-Identifier: Apache-2.0
// The planner's self-test with few instances, and the simulation by events that it uses, with times
// that can be followed on paper.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/plan_check.h"
#include "sim/plan_events.h"

static void test_holds(void **state)
{
    const ft_plan_check_opts opts = {.instances = 300, .seed = 5};
    ft_plan_check a, b;
    assert_int_equal(ft_plan_check_run(&opts, NULL, &a), FT_OK);
    assert_true(ft_plan_check_holds(&a));
    assert_int_equal(a.contiguous.n, 300);
    assert_int_equal(a.paper[0].n + a.paper[1].n, 300);
    assert_true(a.paper[0].equal < a.paper[0].n); /* it is a heuristic */
    assert_true(a.all_orders[0].n > 50 && a.all_orders[1].n > 50);
    b = a;
    b.contiguous.equal = 296;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.contiguous.worst_gap = 0.011;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.too_cheap = 1;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.memory_broken = 1;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.pipeline_unequal = 1;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.worse_than_paper = 1;
    assert_false(ft_plan_check_holds(&b));
    b = a;
    b.bandwidth_error = 1e-8;
    assert_false(ft_plan_check_holds(&b));
}

static bool stopped(void)
{
    return true;
}

static void test_stopped(void **state)
{
    const ft_plan_check_opts opts = {.instances = 10, .watch = {.stop = stopped}};
    ft_plan_check check;
    assert_int_equal(ft_plan_check_run(&opts, NULL, &check), FT_CANCELLED);
}

/* A batch of n tasks drafts for 3 n us and is verified in 5 us, 2 us more in each later round. */
static void times(const void *ctx, const ft_plan_shape *batch, uint32_t length, double tokens,
                  ft_plan_time *draft, ft_plan_time *verify)
{
    *draft = (ft_plan_time){3e-6 * batch->n, 3e-6 * batch->n, 0};
    *verify = (ft_plan_time){5e-6, 7e-6, 2e-6};
}

/* Batch 1 has two tasks and two rounds, batch 2 one task and three. */
static void test_events(void **state)
{
    const ft_plan_task tasks[3] = {{.out_tok = 2}, {.out_tok = 2}, {.out_tok = 3}};
    ft_plan_problem p = {.tasks = tasks, .n = 3, .times = times};
    ft_plan_batch batches[2] = {{.shape = {.n = 2}, .rounds = 2},
                                {.first = 2, .shape = {.n = 1}, .rounds = 3}};
    const ft_batch_plan plan = {
        .length = 1, .tokens_per_round = 1, .batches = batches, .n_batches = 2};
    int64_t us;
    /* Round 1: drafts end at 6 and 9, verdicts at 11 and 16. Round 2: 22 and 25; 29 and 36.
     * Round 3: 39; 48. */
    assert_int_equal(ft_sim_plan_us(&p, &plan, NULL, &us), FT_OK);
    assert_int_equal(us, 48);
    /* Round 1 as above. Batch 1 drafts again from 11 to 17, verdict at 24; batch 2 from 17 to 20,
     * verdict at 31, and from 31 to 34, verdict at 43. */
    p.flow = FT_PLAN_ROLLING;
    assert_int_equal(ft_sim_plan_us(&p, &plan, NULL, &us), FT_OK);
    assert_int_equal(us, 43);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_holds), cmocka_unit_test(test_stopped),
                                       cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
