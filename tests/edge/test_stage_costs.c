// SPDX-License-Identifier: Apache-2.0
// edge/stage_costs: times of stages are the sums of the costs of their passes.
// tests/cmd/test_plan.c has all six factors, for one task.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/stage_costs.h"

#define PASS_US  1000.0
#define ROW_US   10.0
#define CACHE_US 1.0
#define OUT_US   4.0

static const double us[FT_COST_FACTORS] = {
    [FT_COST_PASS] = PASS_US, [FT_COST_ROW] = ROW_US, [FT_COST_CACHED_TOK] = CACHE_US};

/* Three tasks with inputs of 5, 6 and 9 tokens; 2 are drafted a round, which brings 2. */
static const ft_plan_shape batch = {
    .n = 3, .in_max = 9, .out_max = 50, .in_sum = 20, .in_squares = 25 + 36 + 81};

static void near(double s, double expected_us)
{
    assert_true(fabs(s * 1e6 - expected_us) < 1e-6);
}

/* Before round n > 1 the KV have 20 + 3 (2 (n - 1) - 1) tokens. */
static void check_later(const ft_plan_time *draft, const ft_plan_time *verify)
{
    near(draft->second_s, 2 * (PASS_US + 3 * ROW_US) + (23 + 26) * CACHE_US);
    near(draft->more_s, 2 * 6 * CACHE_US);
    near(verify->second_s, PASS_US + 9 * ROW_US + 23 * CACHE_US);
    near(verify->more_s, 6 * CACHE_US);
}

static void test_inputs(void **state)
{
    const ft_stage_costs costs = {.draft = us, .verify = us};
    ft_plan_time draft, verify;
    (void)state;
    ft_stage_costs_times(&costs, &batch, 2, 2, &draft, &verify);
    /* The draft model reads two inputs by themselves, and the third with the first draft. */
    near(draft.first_s,
         2 * PASS_US + (PASS_US + 20 * ROW_US) + (PASS_US + 3 * ROW_US + 20 * CACHE_US));
    near(verify.first_s, PASS_US + 26 * ROW_US);
    check_later(&draft, &verify);
}

static void test_read(void **state)
{
    const ft_stage_costs costs = {.draft = us, .verify = us, .read = 1};
    ft_plan_time draft, verify;
    (void)state;
    ft_stage_costs_times(&costs, &batch, 2, 2, &draft, &verify);
    near(draft.first_s, 2 * (PASS_US + 3 * ROW_US) + (17 + 20) * CACHE_US);
    near(verify.first_s, PASS_US + 9 * ROW_US + 17 * CACHE_US);
    check_later(&draft, &verify);
}

/* A part of the inputs has been read, and the rest takes what reading was measured to take. */
static void test_measured(void **state)
{
    ft_stage_costs costs = {
        .draft = us, .verify = us, .draft_read_us = 30, .verify_read_us = 50, .read = 0.25};
    ft_plan_time draft, verify;
    (void)state;
    ft_stage_costs_times(&costs, &batch, 2, 2, &draft, &verify);
    near(draft.first_s, 2 * (PASS_US + 3 * ROW_US) + (17 + 20) * CACHE_US + 15 * 30);
    near(verify.first_s, PASS_US + 9 * ROW_US + 17 * CACHE_US + 15 * 50);
    check_later(&draft, &verify);
    ft_stage_costs_times(&costs, &batch, 0, 1, &draft, &verify);
    assert_true(draft.first_s == 0);
    near(verify.first_s, PASS_US + 3 * ROW_US + 17 * CACHE_US + 15 * 50);
    costs.verify_read_us = 0; /* not measured: of the pass that reads them all, the same part */
    ft_stage_costs_times(&costs, &batch, 0, 1, &draft, &verify);
    near(verify.first_s, PASS_US + (0.75 * 20 + 0.25 * 3) * ROW_US + 0.25 * 17 * CACHE_US);
}

/* Of a draft's rows those have logits to which a walk comes: one for each token that it brings. */
static void test_logits(void **state)
{
    static const double with[FT_COST_FACTORS] = {
        [FT_COST_PASS] = PASS_US, [FT_COST_LOGITS_ROW] = OUT_US};
    const ft_stage_costs costs = {.draft = with, .verify = with};
    ft_plan_time draft, verify;
    (void)state;
    ft_stage_costs_times(&costs, &batch, 4, 2.5, &draft, &verify);
    near(draft.second_s, 4 * (PASS_US + 3 * OUT_US));
    near(verify.first_s, PASS_US + 3 * 2.5 * OUT_US);
    near(verify.second_s, PASS_US + 3 * 2.5 * OUT_US);
}

static void test_no_drafts(void **state)
{
    const ft_stage_costs costs = {.draft = us, .verify = us};
    ft_plan_time draft, verify;
    (void)state;
    ft_stage_costs_times(&costs, &batch, 0, 1, &draft, &verify);
    assert_true(draft.first_s == 0 && draft.second_s == 0 && draft.more_s == 0);
    near(verify.first_s, PASS_US + 20 * ROW_US);
    near(verify.second_s, PASS_US + 3 * ROW_US + 20 * CACHE_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs), cmocka_unit_test(test_read), cmocka_unit_test(test_measured),
        cmocka_unit_test(test_logits), cmocka_unit_test(test_no_drafts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
