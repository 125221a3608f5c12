// SPDX-License-Identifier: Apache-2.0
// edge/batch_planner: plans hold all tasks once and keep their limits; a trial where costs are not
// known; batches are changed when another plan is clearly better.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "edge/batch_planner.h"
#include "support/sanitized.h"

#define TASKS 24

typedef struct world {
    ft_task task[TASKS];
    int32_t token[TASKS];
    ft_tasks tasks;
    ft_batch_left left[TASKS];
    ft_batch_known known;
    ft_batch_planner planner;
} world;

static const ft_batch_planner_opts usual = {.context = 500, .length_most = 6, .at_once = TASKS};

/* us: of a pass and of a row, of both stations; NULL: not known. */
static void make(world *w, const ft_batch_planner_opts *opts, const double us[2][2])
{
    ft_batch_planner_opts o = *opts;
    ft_error err = {0};
    *w = (world){.tasks = {.n = TASKS, .task = w->task}};
    for (uint32_t i = 0; i < TASKS; i++) {
        w->task[i] = (ft_task){
            .id = "t", .max_tokens = 20 + 5 * i, .tokens = {.id = &w->token[i], .n = 10 + i}};
        w->left[i] = (ft_batch_left){.task = i};
    }
    o.tasks = &w->tasks;
    ft_batch_known_init(&w->known, 0.8);
    for (int i = 0; us && i < FT_STATIONS; i++) {
        const ft_costs costs = {.us = {[FT_COST_PASS] = us[i][0], [FT_COST_ROW] = us[i][1]},
                                .error = 0.1};
        ft_batch_known_costs(&w->known, (ft_station)i, &costs);
    }
    assert_int_equal(ft_batch_planner_init(&w->planner, &o, &w->known, &err), FT_OK);
}

static ft_batch_order plan(world *w, size_t n)
{
    ft_batch_order out;
    ft_error err = {0};
    if (ft_batch_planner_plan(&w->planner, w->left, n, &err, &out) != FT_OK)
        fail_msg("%s", err.message);
    return out;
}

/* The largest batch. */
static uint32_t check(const ft_batch_order *order, size_t n_tasks)
{
    bool seen[TASKS] = {false};
    size_t n = 0;
    uint32_t most = 0;
    for (size_t k = 0; k < order->n; k++) {
        assert_true(order->size[k] > 0);
        most = order->size[k] > most ? order->size[k] : most;
        for (uint32_t i = 0; i < order->size[k]; i++, n++) {
            assert_true(order->task[n] < TASKS && !seen[order->task[n]]);
            seen[order->task[n]] = true;
        }
    }
    assert_int_equal(n, n_tasks);
    return most;
}

static const double dear_rows[2][2] = {{10, 100}, {50, 2000}};    /* drafts do not pay */
static const double dear_passes[2][2] = {{500, 10}, {20000, 20}}; /* drafts pay */

static void test_lengths(void **state)
{
    world w;
    (void)state;
    make(&w, &usual, dear_rows);
    ft_batch_order order = plan(&w, TASKS);
    assert_int_equal(order.length, 0);
    assert_int_equal(order.n, 1); /* the server decodes them all in its passes */
    check(&order, TASKS);
    ft_batch_planner_deinit(&w.planner);
    make(&w, &usual, dear_passes);
    order = plan(&w, TASKS);
    assert_true(order.length > 1 && order.length <= 6 && order.left_s > 0 && !order.trial);
    check(&order, TASKS);
    ft_batch_planner_deinit(&w.planner);
}

/* A free choice of the length, from 0 on, is never worse than any length that is asked for: the
 * search that is left out could not have won. */
static void test_free_choice(void **state)
{
    uint32_t drafted = 0, worlds = 0;
    (void)state;
    for (uint32_t i = 0; i < 36; i += FT_TIMES(1, 7), worlds++) {
        const double us[2][2] = {{50 * (1 + i % 3), 5 * (1 + i / 3 % 3)},
                                 {1000 * pow(4, i / 9), 10 * pow(4, i % 4)}};
        world w;
        make(&w, &usual, us);
        const ft_batch_order free_choice = plan(&w, TASKS);
        drafted += free_choice.length > 0;
        ft_batch_planner_deinit(&w.planner);
        for (uint32_t length = 0; length <= usual.length_most; length++) {
            ft_batch_planner_opts asked = usual;
            asked.length_least = asked.length_most = length;
            make(&w, &asked, us);
            assert_true(free_choice.left_s <= plan(&w, TASKS).left_s * (1 + 1e-9));
            ft_batch_planner_deinit(&w.planner);
        }
    }
    assert_true(drafted > 0 && drafted < worlds);
}

/* The other tasks alone; memory for a part of them; the caller's limits; not all at once. */
static void test_limits(void **state)
{
    ft_batch_planner_opts opts = usual;
    world w;
    (void)state;
    opts.length_least = 2;
    opts.kv_tok[FT_STATION_DRAFT] = 600; /* 1 task with 170 tokens, or some short ones */
    make(&w, &opts, dear_passes);
    ft_batch_order order = plan(&w, TASKS);
    check(&order, TASKS);
    for (size_t k = 0, at = 0; k < order.n; k++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < order.size[k]; i++, at++)
            sum += 10 + order.task[at] + 20 + 5 * order.task[at];
        assert_true(sum <= 300);
    }
    ft_batch_planner_deinit(&w.planner);
    opts.kv_tok[FT_STATION_DRAFT] = 0;
    opts.at_once = 10;
    make(&w, &opts, dear_passes);
    order = plan(&w, TASKS);
    assert_true(check(&order, TASKS) <= 5);
    order = plan(&w, 8);
    check(&order, 8);
    ft_batch_planner_deinit(&w.planner);
    opts.algorithm = FT_BATCH_STATIC;
    opts.batch_most = 3;
    make(&w, &opts, dear_passes);
    order = plan(&w, TASKS);
    assert_int_equal(check(&order, TASKS), 3);
    assert_int_equal(order.n, 8);
    ft_batch_planner_deinit(&w.planner);
}

/* The network's part of a round wants more batches, or longer drafts. */
static void test_trip(void **state)
{
    world w;
    ft_batch_planner_opts opts = usual;
    (void)state;
    opts.length_least = opts.length_most = 4;
    make(&w, &opts, dear_passes);
    const double near_s = plan(&w, TASKS).left_s;
    ft_batch_known_saw_trip(&w.known, 0.2);
    const double far_s = plan(&w, TASKS).left_s;
    assert_true(far_s > near_s);
    opts.one_at_a_time = true; /* nothing else is done meanwhile */
    ft_batch_planner_deinit(&w.planner);
    make(&w, &opts, dear_passes);
    ft_batch_known_saw_trip(&w.known, 0.2);
    assert_true(plan(&w, TASKS).left_s > far_s);
    ft_batch_planner_deinit(&w.planner);
}

/* Reading takes what it was measured to take, for the tokens of those tasks that wait. */
static void test_reading(void **state)
{
    world w;
    ft_batch_planner_opts opts = usual;
    (void)state;
    opts.length_most = 0;
    double tok = 0, half_tok = 0;
    make(&w, &opts, dear_rows);
    for (uint32_t i = 0; i < TASKS; i++) {
        tok += (double)w.task[i].tokens.n;
        half_tok += i % 2 ? (double)w.task[i].tokens.n : 0;
    }
    ft_batch_known_saw_reading(&w.known, FT_STATION_VERIFY, 100, 100 * 1000);
    const double all_s = plan(&w, TASKS).left_s;
    for (uint32_t i = 1; i < TASKS; i += 2)
        w.left[i].open = true;
    const double half_s = plan(&w, TASKS).left_s;
    for (uint32_t i = 0; i < TASKS; i++)
        w.left[i].open = true;
    const double read_s = plan(&w, TASKS).left_s;
    assert_true(fabs(all_s - read_s - tok * 1e-3) < 1e-9);
    assert_true(fabs(all_s - half_s - half_tok * 1e-3) < 1e-9);
    ft_batch_planner_deinit(&w.planner);
}

static void test_trial(void **state)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 9};
    ft_batch_planner_opts opts = usual;
    ft_batch_plan none;
    ft_error err = {0};
    world w;
    (void)state;
    make(&w, &opts, NULL);
    assert_false(ft_batch_planner_knows(&w.planner));
    ft_batch_order order = plan(&w, TASKS);
    assert_true(order.trial);
    check(&order, TASKS);
    assert_memory_equal(order.size, sizes, sizeof sizes);
    assert_int_equal(ft_batch_planner_make(&w.planner, w.left, TASKS, &err, &none),
                     FT_PRECONDITION);
    for (uint32_t i = 0; i < 2 * FT_BATCH_TRIAL_ROUNDS; i++) {
        const uint32_t length = ft_batch_trial_length(&w.planner.how, i);
        assert_true(length >= 1 && length <= 6);
        assert_int_equal(length, ft_batch_trial_length(&w.planner.how, i + FT_BATCH_TRIAL_ROUNDS));
    }
    ft_batch_planner_deinit(&w.planner);
    opts.at_once = 5; /* the others wait for the plan */
    opts.length_most = 0;
    make(&w, &opts, NULL);
    order = plan(&w, TASKS);
    assert_true(order.trial && order.n == 1);
    check(&order, 5);
    assert_int_equal(ft_batch_trial_length(&opts, 2), 0);
    ft_batch_planner_deinit(&w.planner);
}

/* Drafts that were to be accepted are not: the rest is planned anew, without them. */
static void test_replan(void **state)
{
    static const double us[2][2] = {{500, 10}, {2000, 100}};
    uint32_t size[TASKS];
    ft_error err = {0};
    world w;
    ft_batch_order order, other;
    (void)state;
    make(&w, &usual, us);
    order = plan(&w, TASKS);
    assert_true(order.length > 0 && order.n < TASKS);
    memcpy(size, order.size, order.n * sizeof *size);
    for (uint32_t i = 0; i < TASKS; i++)
        w.left[i] = (ft_batch_left){.task = order.task[i], .tokens = 4, .open = true};
    const ft_batch_order as_is = {.length = order.length, .n = order.n, .size = size};
    assert_false(ft_batch_planner_changed(&w.planner, TASKS));
    assert_int_equal(ft_batch_planner_replan(&w.planner, w.left, TASKS, &as_is, &err, &other),
                     FT_OK);
    assert_int_equal(other.n, 0); /* it is as good as any */
    for (int i = 0; i < 500; i++)
        ft_batch_known_saw_chain(&w.known, order.length, 0);
    assert_true(ft_batch_planner_changed(&w.planner, TASKS));
    assert_int_equal(ft_batch_planner_replan(&w.planner, w.left, TASKS, &as_is, &err, &other),
                     FT_OK);
    assert_int_equal(other.length, 0);
    check(&other, TASKS);
    assert_false(ft_batch_planner_changed(&w.planner, TASKS));
    assert_true(ft_batch_planner_changed(&w.planner, TASKS / 2));
    ft_batch_planner_deinit(&w.planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_free_choice),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_trip),
        cmocka_unit_test(test_reading), cmocka_unit_test(test_trial),
        cmocka_unit_test(test_replan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
