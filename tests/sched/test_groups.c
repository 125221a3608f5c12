// SPDX-License-Identifier: Apache-2.0
// Two groups or one: the rule by itself, then in simulated servers, where sessions think and the
// engine runs what the policy picks, with the cap and without.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/groups.h"
#include "sched/sched.h"

#define ROWS 9  /* of a verification */
#define MOST 32 /* sessions */
#define KV   64 /* blocks: enough */

static double pass_us(double fixed_us, double row_us, double rows)
{
    return fixed_us + row_us * rows;
}

/* An estimator that has seen passes of such a machine. */
static void learn(ft_cost *cost, double fixed_us, double row_us)
{
    ft_cost_init(cost);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t n = 1 + i % MOST;
        const ft_pass pass = {.rows = n * ROWS, .out = n * ROWS, .ctx = 100 * n * ROWS};
        ft_cost_observe(cost, &pass, (int64_t)pass_us(fixed_us, row_us, pass.rows));
    }
}

static ft_pass shape(uint32_t n, uint32_t rows)
{
    return (ft_pass){.rows = n * rows, .out = n * rows, .ctx = 100 * n * rows};
}

static uint32_t cap(double fixed_us, double row_us, uint32_t thinking, uint32_t steady,
                    int64_t think_us)
{
    ft_cost cost;
    learn(&cost, fixed_us, row_us);
    const ft_groups_in in = {.n_thinking = thinking,
                             .n_steady = steady,
                             .thinking = shape(thinking, ROWS),
                             .steady = shape(steady, 1),
                             .think_us = think_us,
                             .cost = &cost};
    return ft_groups_cap(&in);
}

static void test_cases(void **state)
{
    (void)state;
    /* Passes cost by the row: any think time is filled with the other group's pass. */
    assert_int_equal(cap(0, 1000, 8, 0, 36000), 4);
    assert_int_equal(cap(0, 1000, 7, 0, 36000), 4);
    assert_int_equal(cap(0, 1000, 8, 2, 36000), 6);
    assert_int_equal(cap(0, 1000, 2, 0, 9000), 1);
    /* Passes cost the same at any size: half of them are no sooner over. */
    assert_int_equal(cap(50000, 0.1, 8, 0, 20000), 0);
    assert_int_equal(cap(50000, 0.1, 8, 0, 200000), 0);
    /* The paper's: as long in the one as in the other, and half the pass is paid at any size. */
    assert_int_equal(cap(36000, 1000, 8, 0, 72000), 4);
    /* Nobody to take turns with, nothing to fill, nothing known. */
    assert_int_equal(cap(0, 1000, 1, 0, 36000), 0);
    assert_int_equal(cap(0, 1000, 1, 5, 36000), 0);
    assert_int_equal(cap(0, 1000, 8, 0, 0), 0);
    assert_int_equal(cap(0, 1000, 0, 8, 0), 0);
    ft_cost nothing;
    ft_cost_init(&nothing);
    const ft_groups_in in = {
        .n_thinking = 8, .thinking = shape(8, ROWS), .think_us = 1000, .cost = &nothing};
    assert_int_equal(ft_groups_cap(&in), 0);
}

/* Two wait, one is expected, one is in a run; of two it is known how long they think. */
static void test_survey(void **state)
{
    const ft_think known = {.known = true, .us = 30000}, slow = {.known = true, .us = 50000},
                   unknown = {0};
    const ft_pass wide = shape(1, 9), narrow = shape(1, 5), one = shape(1, 1);
    ft_groups_survey survey = {0};
    ft_cost cost;
    (void)state;
    ft_cost_init(&cost);
    ft_groups_in in = ft_groups_of(&survey, &cost);
    assert_int_equal(in.n_thinking + in.n_steady, 0);
    assert_int_equal(in.think_us, 0);
    ft_groups_waits(&survey, &wide, &known);
    ft_groups_waits(&survey, &narrow, &unknown);
    ft_groups_expects(&survey, &slow);
    ft_groups_steady(&survey, &one);
    in = ft_groups_of(&survey, &cost);
    assert_int_equal(in.n_thinking, 3);
    assert_int_equal(in.n_steady, 1);
    assert_int_equal(in.think_us, 40000);
    assert_int_equal(in.thinking.rows, 21); /* a third one like the two */
    assert_int_equal(in.steady.rows, 1);
    assert_ptr_equal(in.cost, &cost);
}

/* ---- a server ---- */

typedef struct server {
    double fixed_us, row_us;
    uint32_t n;              /* sessions */
    double think_us, spread; /* mean, and relative deviation */
    bool capped;
} server;

/* Sets picks[], returns how many. */
static size_t compose(const server *v, const ft_cost *cost, const double *ready_us, double now_us,
                      ft_pick *picks, uint32_t *of)
{
    ft_work work[MOST];
    size_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (ready_us[i] > now_us)
            continue;
        of[n] = i;
        work[n++] = (ft_work){.kind = FT_WORK_VERIFY,
                              .arrival_us = (int64_t)ready_us[i],
                              .n_tok = ROWS,
                              .n_out = ROWS,
                              .n_past = 100};
    }
    const ft_groups_in in = {.n_thinking = v->n,
                             .thinking = shape(v->n, ROWS),
                             .think_us = (int64_t)v->think_us,
                             .cost = cost};
    const ft_sched_limits limits = {.max_rows = MOST * ROWS,
                                    .max_verify = v->capped ? ft_groups_cap(&in) : 0,
                                    .cost = cost,
                                    .kv_blocks_free = KV,
                                    .kv_block_tok = 16};
    return n ? ft_sched_fcfs.pick(work, n, &limits, (int64_t)now_us, picks) : 0;
}

/* Verifications a second. All sessions come at once at first, which is what one group is. */
static double throughput(const server *v, uint64_t seed)
{
    double ready_us[MOST] = {0}, now_us = 0;
    uint64_t done = 0;
    ft_cost cost;
    ft_rng rng;
    learn(&cost, v->fixed_us, v->row_us);
    ft_rng_init(&rng, seed);
    for (uint32_t pass = 0; pass < 2000; pass++) {
        ft_pick picks[MOST];
        uint32_t of[MOST];
        size_t n;
        while ((n = compose(v, &cost, ready_us, now_us, picks, of)) == 0) {
            double next_us = INFINITY;
            for (uint32_t i = 0; i < v->n; i++)
                next_us = fmin(next_us, ready_us[i]);
            now_us = next_us;
        }
        now_us += pass_us(v->fixed_us, v->row_us, (double)n * ROWS);
        for (size_t i = 0; i < n; i++) {
            double think_us = v->think_us * exp(v->spread * ft_rng_normal(&rng));
            ready_us[of[picks[i].index]] = now_us + think_us;
        }
        done += n;
    }
    return (double)done / now_us * 1e6;
}

/* Over one group of all sessions that keep together. */
static double one_group(const server *v)
{
    return v->n / (pass_us(v->fixed_us, v->row_us, v->n * ROWS) + v->think_us) * 1e6;
}

static void test_never_below(void **state)
{
    static const double fixed[] = {0, 10000, 50000}, row[] = {1, 200, 2000},
                        thinks[] = {1000, 10000, 50000, 200000}, spreads[] = {0, 0.1, 0.4};
    static const uint32_t sessions[] = {1, 2, 3, 8, 32};
    uint32_t pays = 0;
    (void)state;
    for (int f = 0; f < 3; f++)
        for (int r = 0; r < 3; r++)
            for (int t = 0; t < 4; t++)
                for (int s = 0; s < 3; s++)
                    for (int n = 0; n < 5; n++) {
                        server v = {fixed[f], row[r], sessions[n], thinks[t], spreads[s], false};
                        double free = throughput(&v, 1);
                        v.capped = true;
                        double with = throughput(&v, 1);
                        if (with < 0.98 * free)
                            fail_msg("fixed %.0f row %.0f think %.0f spread %.1f sessions %u: %.2f "
                                     "a second with the cap, %.2f without",
                                     v.fixed_us, v.row_us, v.think_us, v.spread, v.n, with, free);
                        pays += with > 1.1 * free;
                    }
    assert_true(pays >= 20);
}

/* Sessions in step: where think time is one half's pass, two groups bring half as much again, and
 * twice what a group of that size alone brings, which the paper compares with. */
static void test_where_it_pays(void **state)
{
    server v = {.fixed_us = 0, .row_us = 1000, .n = 8, .think_us = 36000, .capped = true};
    server half = v;
    (void)state;
    half.n = 4;
    assert_true(throughput(&v, 1) > 1.45 * one_group(&v));
    assert_true(throughput(&v, 1) > 1.95 * one_group(&half));
    v.spread = 0.1;
    assert_true(throughput(&v, 1) > 1.4 * one_group(&v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_survey),
        cmocka_unit_test(test_never_below),
        cmocka_unit_test(test_where_it_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
