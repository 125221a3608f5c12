// SPDX-License-Identifier: Apache-2.0
// engine/pace.c against machines that are simulated: passes take a given time on one and on all
// threads, with noise and loads that come and go. Nothing here reads a clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/pace.h"

/* ---- a machine ---- */

/* What passes of a unit of work take. */
typedef struct machine {
    double alone_us, all_us;
    double noise;           /* of every time, relative */
    double spikes, spike;   /* share of passes that take so many times as long, on any threads */
    double stalls, stalled; /* the same on all threads only */
    double others,
        others_us; /* so many passes of a hundred, running, others have a core: all_us then */
} machine;

typedef struct life {
    ft_pace pace;
    ft_rng rng;
    double us, best_us; /* what passes took, and with the better choice would have */
    int passes, alone, given_up;
} life;

static double pass_us(life *l, const machine *m, bool all, bool busy)
{
    double us = all ? busy ? m->others_us : m->all_us : m->alone_us;
    us *= exp(m->noise * ft_rng_normal(&l->rng));
    if (ft_rng_unit(&l->rng) < m->spikes)
        us *= m->spike;
    if (all && ft_rng_unit(&l->rng) < m->stalls)
        us *= m->stalled;
    return us;
}

/* As the engine does it: what takes too long is given up, and done again alone. */
static void pass(life *l, const machine *m, uint32_t rows)
{
    const ft_pace_size size = {rows, rows};
    const bool busy = l->passes % 100 < m->others;
    double alone = rows * pass_us(l, m, false, busy), all = rows * pass_us(l, m, true, busy);
    int n = ft_pace_threads(&l->pace, &size);
    assert_true(n == 1 || n == l->pace.n_threads);
    double us = n == 1 ? alone : all;
    int64_t limit = ft_pace_limit_us(&l->pace, &size, n);
    assert_true(limit == 0 || n > 1);
    if (limit && us > (double)limit) {
        ft_pace_observe(&l->pace, &size, n, limit);
        ft_pace_observe(&l->pace, &size, 1, (int64_t)alone);
        us = (double)limit + alone;
        l->given_up++;
    } else {
        ft_pace_observe(&l->pace, &size, n, (int64_t)us);
    }
    l->us += us;
    l->best_us += rows * (busy ? fmin(m->alone_us, m->others_us) : fmin(m->alone_us, m->all_us));
    l->alone += n == 1;
    l->passes++;
}

static void life_init(life *l, uint64_t seed, int n_threads)
{
    *l = (life){0};
    ft_rng_init(&l->rng, seed);
    ft_pace_init(&l->pace, n_threads);
}

/* As the engine warms. */
static void warm(life *l, const machine *m)
{
    for (uint32_t rows = 1; rows <= 64; rows *= 4) {
        const ft_pace_size size = {rows, rows};
        ft_pace_prime(&l->pace, &size, l->pace.n_threads,
                      (int64_t)(rows * pass_us(l, m, true, m->others > 0)));
        ft_pace_prime(&l->pace, &size, 1, (int64_t)(rows * pass_us(l, m, false, m->others > 0)));
    }
}

static void live(life *l, const machine *m, uint32_t rows, int n)
{
    for (int i = 0; i < n; i++)
        pass(l, m, rows);
}

/* ---- what it is to do ---- */

static const machine quiet = {.alone_us = 6000, .all_us = 4000};
static const machine taken = {.alone_us = 8000, .all_us = 1e6}; /* others have a core */

static void test_begins_with_all(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= 1000; rows++) {
        life l;
        life_init(&l, rows, 4);
        warm(&l, &quiet);
        live(&l, &quiet, rows, 20);
        assert_int_equal(l.alone, 0);
    }
}

/* Unwarmed, one pass alone is what the others are compared with. */
static void test_unwarmed(void **state)
{
    life l;
    (void)state;
    life_init(&l, 1, 4);
    live(&l, &quiet, 3, 50);
    live(&l, &quiet, 100, 50);
    assert_int_equal(l.alone, 1);
}

static void test_quiet_machine_uses_all(void **state)
{
    life l;
    (void)state;
    for (int threads = 2; threads <= 64; threads *= 2) {
        machine m = {.alone_us = 6000, .all_us = 6500. / threads};
        life_init(&l, 1, threads);
        warm(&l, &m);
        live(&l, &m, 1, 5000);
        assert_true(l.us < 1.01 * l.best_us);
    }
}

static void test_busy_machine_goes_alone(void **state)
{
    life l;
    (void)state;
    life_init(&l, 1, 2);
    warm(&l, &taken);
    live(&l, &taken, 1, 4000);
    assert_true(l.us < 1.03 * l.best_us);
    assert_in_range(l.given_up, 10, 60); /* it goes on asking */
}

/* A class that was never warmed knows from its neighbours when to give up. */
static void test_busy_machine_in_a_new_class(void **state)
{
    life l;
    (void)state;
    life_init(&l, 1, 2);
    warm(&l, &quiet);
    pass(&l, &taken, 8);
    assert_int_equal(l.given_up, 1);
    assert_true(l.us < 8 * (1.5 * 4 * 6000 + 8000 + 1));
    pass(&l, &taken, 8);
    assert_int_equal(l.alone, 1);
}

/* However long a load lasted: when it ends, all threads are back within a share of the time. */
static void test_recovers_when_quiet_again(void **state)
{
    (void)state;
    for (int busy = 1; busy < 5000; busy = 2 * busy + 1) {
        life l;
        life_init(&l, 1, 2);
        warm(&l, &quiet);
        live(&l, &quiet, 1, 200);
        live(&l, &taken, 1, busy);
        live(&l, &quiet, 1, 250);
        int alone = l.alone;
        live(&l, &quiet, 1, 100);
        assert_true(l.alone <= alone + 1); /* a trial */
    }
}

/* A load that is short against the time before it: all threads are back at once. */
static void test_recovers_soon(void **state)
{
    life l;
    (void)state;
    life_init(&l, 1, 2);
    warm(&l, &quiet);
    live(&l, &quiet, 16, 20);
    live(&l, &taken, 16, 3);
    live(&l, &quiet, 16, 10);
    int alone = l.alone;
    live(&l, &quiet, 16, 20);
    assert_int_equal(l.alone, alone);
}

static void test_one_spike_is_forgiven(void **state)
{
    const ft_pace_size one = {1, 1}, many = {64, 64};
    life l;
    (void)state;
    life_init(&l, 1, 2);
    warm(&l, &quiet);
    for (int i = 0; i < 100; i++) {
        live(&l, &quiet, 1, 8);
        ft_pace_observe(&l.pace, &one, 2, 15000);
    }
    assert_true(l.alone < 10); /* trials */
    ft_pace_observe(&l.pace, &one, 2, 15000);
    ft_pace_observe(&l.pace, &one, 2, 15000);
    assert_int_equal(ft_pace_threads(&l.pace, &one), 1);
    assert_int_equal(ft_pace_threads(&l.pace, &many),
                     2); /* other sizes are judged for themselves */
}

/* Over the better choice of each moment, whatever the noise: a few per cent. */
static void test_costs_little(void **state)
{
    static const machine machines[] = {
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1},
        {.alone_us = 6000, .all_us = 5800, .noise = 0.2},
        {.alone_us = 6000, .all_us = 6600, .noise = 0.2},
        {.alone_us = 6000, .all_us = 12000, .noise = 0.3},
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1, .spikes = 0.1, .spike = 3},
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1, .stalls = 0.05, .stalled = 3},
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1, .stalls = 0.5, .stalled = 100},
        {.alone_us = 6000, .all_us = 200, .noise = 0.1},
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1, .others = 50, .others_us = 1e6},
        {.alone_us = 6000, .all_us = 3500, .noise = 0.1, .others = 20, .others_us = 9000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            machine m = machines[i];
            life l, alone, all;
            life_init(&l, seed, 2);
            alone = all = l;
            warm(&l, &m);
            live(&l, &m, 4, 4000);
            /* ...or over what one fixed choice would have taken, where stalls leave none better. */
            for (int p = 0; p < 4000; p++) {
                bool busy = p % 100 < m.others;
                alone.us += 4 * pass_us(&alone, &m, false, busy);
                all.us += 4 * pass_us(&all, &m, true, busy);
            }
            if (l.us > 1.06 * fmin(alone.us, all.us))
                fail_msg(
                    "machine %zu, seed %d: %.3f of the better one, %d of %d alone, %d given up", i,
                    (int)seed, l.us / fmin(alone.us, all.us), l.alone, l.passes, l.given_up);
        }
}

/* As many rows behind a long context cost more on any number of threads: no reason to go alone. */
static void test_more_work_may_take_longer(void **state)
{
    const ft_pace_size brief = {512, 1e9}, longer = {512, 3e9};
    ft_pace pace;
    (void)state;
    ft_pace_init(&pace, 2);
    ft_pace_observe(&pace, &brief, 1, 400000);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ft_pace_threads(&pace, &longer), 2);
        assert_true(ft_pace_limit_us(&pace, &longer, 2) >= 3 * 400000);
        ft_pace_observe(&pace, &longer, 2, 700000);
    }
}

static void test_one_thread_stays_one(void **state)
{
    const ft_pace_size huge = {UINT32_MAX, UINT32_MAX};
    life l;
    (void)state;
    life_init(&l, 1, 1);
    live(&l, &quiet, 1, 100);
    assert_int_equal(l.alone, 100);
    assert_int_equal(ft_pace_threads(&l.pace, &huge), 1);
    assert_int_equal(ft_pace_limit_us(&l.pace, &huge, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_with_all),
        cmocka_unit_test(test_unwarmed),
        cmocka_unit_test(test_quiet_machine_uses_all),
        cmocka_unit_test(test_busy_machine_goes_alone),
        cmocka_unit_test(test_busy_machine_in_a_new_class),
        cmocka_unit_test(test_recovers_when_quiet_again),
        cmocka_unit_test(test_recovers_soon),
        cmocka_unit_test(test_one_spike_is_forgiven),
        cmocka_unit_test(test_costs_little),
        cmocka_unit_test(test_more_work_may_take_longer),
        cmocka_unit_test(test_one_thread_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
