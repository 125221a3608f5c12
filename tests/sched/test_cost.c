// SPDX-License-Identifier: Apache-2.0
// The estimator of passes: it finds a machine's factors again, through noise and outliers, follows
// a change, and is careful where it knows little.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/cost.h"

/* What a machine takes: microseconds a pass, a row, a row with logits, a token attended to, logits
 * at all. */
typedef struct machine {
    double pass, row, out, ctx, head;
} machine;

static double time_of(const machine *m, const ft_pass *p)
{
    return m->pass + m->row * p->rows + m->out * p->out + m->ctx * (double)p->ctx +
           m->head * (p->out > 0);
}

static ft_pass random_pass(ft_rng *rng)
{
    uint32_t n = 1 + ft_rng_below(rng, 1u << (1 + ft_rng_below(rng, 9)));
    uint32_t out = ft_rng_below(rng, 2) ? n : 0;
    return ft_pass_plus((ft_pass){0}, ft_rng_below(rng, 2048), n, out);
}

/* n passes with noise of a tenth; every tenth pass takes 20 times as long if there are outliers. */
static void run(ft_cost *cost, const machine *m, ft_rng *rng, int n, bool outliers)
{
    for (int i = 0; i < n; i++) {
        ft_pass p = random_pass(rng);
        double us = time_of(m, &p) * exp(0.1 * ft_rng_normal(rng));
        ft_cost_observe(cost, &p, (int64_t)(outliers && i % 10 == 0 ? 20 * us : us));
    }
}

/* The worst relative error over passes of all shapes. */
static double worst(const ft_cost *cost, const machine *m, ft_rng *rng)
{
    double most = 0;
    for (int i = 0; i < 500; i++) {
        ft_pass p = random_pass(rng);
        double us = time_of(m, &p), off = fabs((double)ft_cost_predict(cost, &p) - us) / us;
        most = off > most ? off : most;
    }
    return most;
}

static const machine machines[] = {{3000, 300, 100, 0.05, 0},
                                   {100, 1000, 0, 0.5, 0},
                                   {20000, 10, 50, 0, 0},
                                   {0, 40, 400, 0.01, 0},
                                   {600, 350, 50, 0.35, 1500}};

static void test_finds_the_machine(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        for (int outliers = 0; outliers < 2; outliers++) {
            ft_cost cost;
            ft_rng rng;
            ft_rng_init(&rng, i);
            ft_cost_init(&cost);
            run(&cost, &machines[i], &rng, 300, outliers);
            assert_true(worst(&cost, &machines[i], &rng) < (outliers ? 0.3 : 0.15));
            assert_true(outliers || cost.error < 0.25);
        }
}

/* Another program takes half the machine: the old passes must not hold it up for long. */
static void test_follows_a_change(void **state)
{
    const machine slow = {6000, 600, 200, 0.1, 0};
    ft_cost cost;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 5);
    ft_cost_init(&cost);
    run(&cost, &machines[0], &rng, 1000, false);
    assert_true(worst(&cost, &slow, &rng) > 0.4);
    run(&cost, &slow, &rng, 200, false);
    assert_true(worst(&cost, &slow, &rng) < 0.25);
}

/* A thousand passes of one shape teach nothing about others, and must not unteach it. */
static void test_steady_state_keeps_the_rest(void **state)
{
    ft_cost cost;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 6);
    ft_cost_init(&cost);
    run(&cost, &machines[0], &rng, 300, false);
    for (int i = 0; i < 5000; i++) {
        const ft_pass p = ft_pass_plus((ft_pass){0}, 500, 8, 8);
        ft_cost_observe(&cost, &p,
                        (int64_t)(time_of(&machines[0], &p) * exp(0.1 * ft_rng_normal(&rng))));
    }
    assert_true(worst(&cost, &machines[0], &rng) < 0.3);
}

static void test_careful_at_first(void **state)
{
    const ft_pass none = {0}, eight = ft_pass_plus(none, 100, 8, 8);
    ft_cost cost;
    (void)state;
    ft_cost_init(&cost);
    assert_int_equal(ft_cost_predict(&cost, &eight), 0);
    assert_int_equal(ft_cost_rows(&cost, &none, 0, 512, 1), 512);
    assert_int_equal(ft_cost_rows(&cost, &none, 0, 5, 1), 5);
    ft_cost_observe(&cost, &none, 100); /* no pass */
    ft_cost_observe(&cost, &eight, 0);  /* a clock that stands still */
    ft_cost_observe(&cost, &eight, -5);
    assert_int_equal(cost.n_seen, 0);
    ft_cost_observe(&cost, &eight, 8000);
    assert_in_range(ft_cost_predict(&cost, &eight), 7900, 8100);
    /* All that a pass does is blamed alike, and the error of a first guess counts double. */
    assert_in_range(ft_cost_rows(&cost, &none, 0, 512, 10000), 8, 64);
    assert_int_equal(ft_cost_rows(&cost, &none, 0, 512, INT64_MAX / 4), 512);
    assert_int_equal(ft_cost_rows(&cost, &none, 0, 512, 0), 0);
}

/* Over random knowledge: chunks fit their budget, one more row would not, and more time, less text
 * in front or a smaller limit never turn the answer round. */
static void test_rows_fit_the_budget(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 7);
    for (int i = 0; i < 300; i++) {
        ft_cost cost;
        ft_cost_init(&cost);
        run(&cost, &machines[i % 5], &rng, (int)ft_rng_below(&rng, 60), i % 3 == 0);
        for (int j = 0; j < 20; j++) {
            ft_pass beside = ft_rng_below(&rng, 3) ? random_pass(&rng) : (ft_pass){0};
            uint32_t n_past = ft_rng_below(&rng, 4000), most = 1 + ft_rng_below(&rng, 512);
            int64_t budget_us = ft_rng_below(&rng, 100000);
            uint32_t n = ft_cost_rows(&cost, &beside, n_past, most, budget_us);
            ft_pass with = ft_pass_plus(beside, n_past, n, 0);
            assert_true(n <= most);
            assert_true(ft_cost_predict(&cost, &with) - ft_cost_predict(&cost, &beside) <=
                        budget_us);
            assert_true(ft_cost_rows(&cost, &beside, n_past, most, 2 * budget_us) >= n);
            assert_true(ft_cost_rows(&cost, &beside, n_past / 2, most, budget_us) >= n);
            assert_true(ft_cost_rows(&cost, &beside, n_past, (most + 1) / 2, budget_us) <= n);
        }
    }
}

/* What a machine's parts cost together, apart, and beside others: fixed costs are paid once. */
static void test_fixed_costs_are_paid_once(void **state)
{
    const double us[FT_COST_FACTORS] = {[FT_COST_PASS] = 600,
                                        [FT_COST_ROW] = 350,
                                        [FT_COST_HEAD] = 1500,
                                        [FT_COST_LOGITS_ROW] = 50,
                                        [FT_COST_CACHED_TOK] = 1};
    const ft_pass none = {0}, prompt = ft_pass_plus(none, 0, 10, 0);
    const ft_pass verify = ft_pass_plus(none, 100, 2, 2), both = ft_pass_sum(prompt, verify);
    ft_cost cost;
    (void)state;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, us, 0);
    assert_int_equal(ft_cost_predict(&cost, &none), 0);
    assert_int_equal(ft_cost_predict(&cost, &prompt), 600 + 3500);
    assert_int_equal(ft_cost_predict(&cost, &verify), 600 + 1500 + 700 + 100 + 100);
    assert_int_equal(ft_cost_predict(&cost, &both), 600 + 1500 + 4200 + 100 + 100);
    assert_true(fabs(ft_cost_added_us(&cost, &verify) - 900) < 1e-6);
    assert_true(fabs(ft_cost_added_us(&cost, &prompt) - 3500) < 1e-6);
}

/* Passes a quarter dearer than believed, then as believed, seen by a model that may not learn from
 * them. */
static void test_error_and_bias(void **state)
{
    const double us[FT_COST_FACTORS] = {[FT_COST_ROW] = 100};
    const ft_pass pass = {.rows = 8};
    ft_cost cost;
    (void)state;
    ft_cost_init(&cost);
    for (int i = 0; i < 100; i++) {
        double error = cost.error, bias = cost.bias;
        ft_cost_prime(&cost, us, error);
        assert_true(cost.bias == 0); /* what was off before says nothing of these costs */
        cost.bias = bias;
        ft_cost_observe(&cost, &pass, 1000);
    }
    assert_float_equal(cost.error, 0.2, 0.001);
    assert_float_equal(cost.bias, -0.2, 0.001);
    ft_cost_prime(&cost, us, cost.error);
    ft_cost_observe(&cost, &pass, 640);
    assert_float_equal(cost.error, 0.2 + 0.2 * (0.25 - 0.2), 0.001);
    assert_float_equal(cost.bias, 0.05, 0.001);
}

/* Whatever was observed, no factor is negative: a pass that grows in anything takes no less. */
static void test_never_falls(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 8);
    for (int i = 0; i < 200; i++) {
        ft_cost cost;
        ft_cost_init(&cost);
        for (int n = (int)ft_rng_below(&rng, 40); n > 0; n--) {
            const ft_pass p = random_pass(&rng);
            ft_cost_observe(&cost, &p, 1 + ft_rng_below(&rng, 1000000)); /* nothing fits */
        }
        for (int j = 0; j < 50; j++) {
            const ft_pass p = random_pass(&rng), more = ft_pass_sum(p, random_pass(&rng));
            assert_true(ft_cost_predict(&cost, &more) >= ft_cost_predict(&cost, &p));
        }
        for (int k = 0; k < FT_COST_FACTORS; k++)
            assert_true(cost.us[k] >= 0);
    }
}

/* ---- weights that are read in every pass ---- */

static double together_us(double computed_us, double read_us)
{
    return cbrt(pow(computed_us, 3) + pow(read_us, 3));
}

/* A pass of n rows that computes for 4 ms and 1 ms a row, while reading takes read_us. */
static void observe_read(ft_cost *cost, uint32_t n, double read_us, ft_rng *rng)
{
    const ft_pass pass = ft_pass_plus((ft_pass){0}, 100, n, n);
    const double computed_us = (4000 + 1000. * n) * exp(0.03 * ft_rng_normal(rng));
    const double us = together_us(computed_us, read_us);
    ft_cost_observe_read(cost, &pass, (int64_t)us, (int64_t)(us - computed_us));
}

static int64_t predict(const ft_cost *cost, uint32_t n)
{
    const ft_pass pass = ft_pass_plus((ft_pass){0}, 100, n, n);
    return ft_cost_predict(cost, &pass);
}

/* Rows are nearly free while reading takes longer, and cost what computing them takes where that
 * takes longer. Seen passes of some sizes tell that of all. */
static void test_reading_hides_rows(void **state)
{
    const ft_pass rows = ft_pass_plus((ft_pass){0}, 0, 10, 10);
    ft_cost cost;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 5);
    ft_cost_init(&cost);
    for (int i = 0; i < 100; i++)
        observe_read(&cost, 5 + ft_rng_below(&rng, 40), 70000, &rng);
    assert_true(fabs(cost.read_us - 70000) < 2000);
    for (uint32_t n = 1; n < 100; n += 10) {
        const double us = together_us(4000 + 1000. * n, 70000);
        assert_true(fabs((double)predict(&cost, n) - us) < 0.05 * us);
    }
    assert_true(predict(&cost, 11) - predict(&cost, 10) < 100);
    assert_true(predict(&cost, 201) - predict(&cost, 200) > 900);
    assert_true(fabs(ft_cost_fixed_us(&cost) - cost.read_us) < 1000);
    assert_true(ft_cost_added_us(&cost, &rows) < 3000);
    for (int i = 0; i < 60; i++) /* the same rows, more of them in a pass */
        observe_read(&cost, 150, 70000, &rng);
    assert_true(ft_cost_added_us(&cost, &rows) > 8000);
}

/* A disk that becomes slower, then faster: passes of computing alone say nothing of it. */
static void test_reading_changes(void **state)
{
    ft_cost cost;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 6);
    ft_cost_init(&cost);
    for (int i = 0; i < 100; i++)
        observe_read(&cost, 10, i < 50 ? 40000 : 90000, &rng);
    assert_true(fabs(cost.read_us - 90000) < 2000);
    observe_read(&cost, 10, 5e6, &rng); /* a disk that did not answer for seconds */
    assert_true(cost.read_us < 100000);
    for (int i = 0; i < 50; i++)
        observe_read(&cost, 10, 90000, &rng);
    assert_true(fabs(cost.read_us - 90000) < 2000);
    for (int i = 0; i < 10; i++)
        observe_read(&cost, 400, 30000, &rng);
    assert_true(fabs(cost.read_us - 90000) < 2000);
    for (int i = 0; i < 100; i++)
        observe_read(&cost, 10, 30000, &rng);
    assert_true(fabs(cost.read_us - 30000) < 2000);
}

/* Where nothing is read, the two ways to observe are one. */
static void test_nothing_is_read(void **state)
{
    ft_cost cost, same;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 7);
    ft_cost_init(&cost);
    ft_cost_init(&same);
    for (int i = 0; i < 50; i++) {
        const ft_pass p = random_pass(&rng);
        ft_cost_observe(&cost, &p, 1000 + 10 * p.rows);
        ft_cost_observe_read(&same, &p, 1000 + 10 * p.rows, 0);
    }
    assert_memory_equal(cost.us, same.us, sizeof cost.us);
    assert_true(cost.read_us == 0 && cost.hidden == 0 && same.read_us == 0 && same.hidden == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_machine),
        cmocka_unit_test(test_follows_a_change),
        cmocka_unit_test(test_steady_state_keeps_the_rest),
        cmocka_unit_test(test_careful_at_first),
        cmocka_unit_test(test_rows_fit_the_budget),
        cmocka_unit_test(test_fixed_costs_are_paid_once),
        cmocka_unit_test(test_error_and_bias),
        cmocka_unit_test(test_reading_hides_rows),
        cmocka_unit_test(test_reading_changes),
        cmocka_unit_test(test_nothing_is_read),
        cmocka_unit_test(test_never_falls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
