// SPDX-License-Identifier: Apache-2.0
// Files of costs: what is written comes back, every defect is named, and an estimator that starts
// from one predicts by it until its own passes tell otherwise.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sched/cost_file.h"

#define FILE_NAME "test_cost_file.json" /* in the tests' folder */

static const ft_costs costs = {
    .model = "a model", .us = {3000, 300, 100, 0.05, 1, 1500}, .error = 0.04};

static void test_round_trip(void **state)
{
    ft_error err = {0};
    ft_costs back;
    (void)state;
    json_t *root = ft_costs_json(&costs);
    json_object_set_new(root, "for_people", json_string("how it was measured"));
    assert_int_equal(json_dump_file(root, FILE_NAME, 0), 0);
    assert_int_equal(ft_costs_load(FILE_NAME, &err, &back), FT_OK);
    remove(FILE_NAME);
    assert_string_equal(back.model, costs.model);
    assert_memory_equal(back.us, costs.us, sizeof costs.us);
    assert_true(back.error == costs.error);
    json_decref(root);
}

/* Each field in turn missing, of another type, out of range: refused, and the message names it. */
static void test_defects(void **state)
{
    static const char *const fields[] = {"kind", "model", "error"};
    ft_error err = {0};
    ft_costs out;
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields + FT_COST_FACTORS; i++) {
        size_t n_fields = sizeof fields / sizeof *fields;
        const char *name = i < n_fields ? fields[i] : ft_cost_factor_name[i - n_fields];
        for (int defect = 0; defect < 4; defect++) {
            json_t *root = ft_costs_json(&costs);
            json_t *object = i < n_fields ? root : json_object_get(root, "us");
            json_t *bad = defect == 0   ? NULL
                          : defect == 1 ? json_array()
                          : defect == 2 ? json_real(-1)
                                        : json_real(1e300);
            if (bad)
                json_object_set_new(object, name, bad);
            else
                json_object_del(object, name);
            assert_int_equal(ft_costs_parse(root, &err, &out), FT_INVALID);
            assert_non_null(strstr(err.message, name));
            json_decref(root);
        }
    }
    /* What an older program wrote has no head: it is told what to do. */
    json_t *old = ft_costs_json(&costs);
    json_object_del(json_object_get(old, "us"), "head");
    assert_int_equal(ft_costs_parse(old, &err, &out), FT_INVALID);
    assert_non_null(strstr(err.message, "fit verify-time"));
    json_decref(old);
    json_t *list = json_array();
    assert_int_equal(json_dump_file(list, FILE_NAME, 0), 0);
    assert_int_equal(ft_costs_load(FILE_NAME, &err, &out), FT_INVALID);
    remove(FILE_NAME);
    json_decref(list);
    assert_int_equal(ft_costs_load("/nowhere/at/all", &err, &out), FT_IO);
}

static void test_start(void **state)
{
    const ft_pass small = ft_pass_plus((ft_pass){0}, 1000, 8, 8);
    const ft_pass large = ft_pass_plus((ft_pass){0}, 0, 500, 1);
    ft_cost cost;
    (void)state;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, costs.us, costs.error);
    double x[FT_COST_FACTORS], expected = 0;
    ft_pass_factors(&large, x);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        expected += x[i] * costs.us[i];
    assert_true(fabs((double)ft_cost_predict(&cost, &large) - expected) <= 1);
    assert_true(ft_cost_rows(&cost, &small, 0, 512, 1000000) > 16);
    /* Passes that agree change nothing of what they do not show. */
    int64_t us = ft_cost_predict(&cost, &small);
    for (int i = 0; i < 100; i++)
        ft_cost_observe(&cost, &small, us);
    assert_true(fabs((double)ft_cost_predict(&cost, &large) / expected - 1) < 0.05);
    /* The machine is twice as slow: its passes say so. */
    for (int i = 0; i < 100; i++) {
        ft_cost_observe(&cost, &small, 2 * us);
        ft_cost_observe(&cost, &large, (int64_t)(2 * expected));
    }
    assert_true(fabs((double)ft_cost_predict(&cost, &large) / (2 * expected) - 1) < 0.1);
    assert_true(fabs((double)ft_cost_predict(&cost, &small) / (2 * (double)us) - 1) < 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_defects),
        cmocka_unit_test(test_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
