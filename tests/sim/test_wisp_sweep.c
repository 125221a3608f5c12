// SPDX-License-Identifier: Apache-2.0
// Sweeps over the number of devices: which numbers, where a curve crosses epsilon, that this is
// where the search ends, and that the points of the plane are the run's rounds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/wisp_sweep.h"

static void check_numbers(uint32_t capacity, const uint32_t *expected, size_t n)
{
    uint32_t found[FT_SIM_SWEEP_MOST];
    assert_int_equal(ft_sim_sweep_numbers(capacity, found), n);
    assert_memory_equal(found, expected, n * sizeof *found);
}

static void test_numbers(void **state)
{
    static const uint32_t none[] = {1, 2, 3, 4}, two[] = {1, 2, 3, 4, 5, 6},
                          hundred[] = {12, 25,  37,  50,  62,  75,  87,  96,  97,  98,
                                       99, 100, 101, 102, 103, 104, 112, 125, 137, 150};
    uint32_t found[FT_SIM_SWEEP_MOST];
    (void)state;
    check_numbers(0, none, 4);
    check_numbers(2, two, 6);
    check_numbers(100, hundred, 20);
    for (uint32_t capacity = 0; capacity <= 500; capacity++) {
        const size_t n = ft_sim_sweep_numbers(capacity, found);
        for (size_t i = 1; i < n; i++)
            assert_true(found[i - 1] < found[i]);
        assert_true(found[n - 1] >= capacity * 3 / 2 && found[0] >= 1);
    }
    const size_t n = ft_sim_sweep_numbers(FT_SIM_DEVICES_MAX, found);
    assert_int_equal(found[n - 1], FT_SIM_DEVICES_MAX);
}

static ft_sim_crossing crossing_of(const double *slow, size_t n)
{
    ft_sim_curve c = {.n = n};
    for (size_t i = 0; i < n; i++)
        c.at[i] = (ft_sim_sweep_point){.n = 10 * (uint32_t)(i + 1), .slow = slow[i]};
    return ft_sim_curve_crossing(&c, 0.05);
}

static void test_crossing(void **state)
{
    static const double clean[] = {0, 0.04, 0.05, 0.3}, twice[] = {0, 0.06, 0.02, 0.07},
                        all[] = {0.06, 0.06}, none[] = {0, 0};
    (void)state;
    ft_sim_crossing c = crossing_of(clean, 4);
    assert_true(c.below == 30 && c.above == 40);
    c = crossing_of(twice, 4);
    assert_true(c.below == 10 && c.above == 40);
    c = crossing_of(all, 2);
    assert_true(c.below == 0 && c.above == 10);
    c = crossing_of(none, 2);
    assert_true(c.below == 20 && c.above == 0);
}

/* The shipped setting with one run of each number of devices, and the fastest of its classes: a
 * simulation lasts as long as the slowest class needs for its texts. */
static ft_sim_config paper(size_t n_fastest)
{
    char path[1024];
    ft_error err = {0};
    ft_sim_config c;
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", getenv("FT_SOURCE_DIR"));
    if (ft_sim_config_load(path, &err, &c) != FT_OK)
        fail_msg("%s", err.message);
    c.k[FT_SIM_SEEDS] = 1;
    memmove(c.tokens_per_s, &c.tokens_per_s[c.n_classes - n_fastest],
            n_fastest * sizeof *c.tokens_per_s);
    c.n_classes = n_fastest;
    return c;
}

/* The shares of slow texts of wisp cross epsilon at the capacity that the search reports, within
 * one device. The search looks at a few numbers only; the sweep at all around it. */
static void crosses_at_capacity(ft_sim_way way, size_t n_fastest)
{
    const ft_sim_config shipped = paper(n_fastest);
    ft_sim_config config;
    ft_sim_search search = ft_sim_way_search(way, &shipped, &config);
    ft_sim_capacity found;
    ft_sim_curve curve;
    search.class = n_fastest > 1 ? FT_SIM_MIXED : 0;
    search.seed = 1;
    search.guess = 16;
    assert_int_equal(ft_sim_wisp_capacity(&search, NULL, &found), FT_OK);
    assert_int_equal(ft_sim_wisp_sweep(&search, found.n, NULL, &curve), FT_OK);
    const ft_sim_crossing at = ft_sim_curve_crossing(&curve, config.k[FT_SIM_EPSILON]);
    if (at.below + 1 < found.n || at.below > found.n + 1 || at.above < found.n ||
        at.above > found.n + 2)
        fail_msg("%s: %u devices, but the sweep: %u-%u", ft_sim_way_name[way], found.n, at.below,
                 at.above);
    /* a knee: an eighth fewer devices have next to no slow text, an eighth more have many */
    for (size_t i = 0; i < curve.n; i++) {
        assert_true(curve.at[i].n > found.n * 7 / 8 || curve.at[i].slow < 0.01);
        assert_true(curve.at[i].n < found.n * 9 / 8 || curve.at[i].slow > 0.1);
    }
}

static void test_crosses_at_capacity(void **state)
{
    (void)state;
    crosses_at_capacity(FT_SIM_WAY_WISP, 1);
    crosses_at_capacity(FT_SIM_WAY_WISP, 2);
    crosses_at_capacity(FT_SIM_WAY_CENTRALIZED, 1);
}

/* WISP figure 7: with classes mixed, deadlines shift the knee of the fastest class most. */
static void test_policies_differ(void **state)
{
    enum { N = 100 };
    const ft_sim_config shipped = paper(4);
    double slow[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        ft_sim_config config;
        ft_sim_capacity tried;
        ft_sim_search search =
            ft_sim_way_search(i ? FT_SIM_WAY_FCFS : FT_SIM_WAY_WISP, &shipped, &config);
        search.class = FT_SIM_MIXED;
        search.seed = 1;
        assert_int_equal(ft_sim_wisp_try(&search, N, NULL, &tried), FT_OK);
        slow[i] = tried.slow;
    }
    assert_true(slow[0] < 0.05 && slow[1] > 0.5);
}

static void test_plane(void **state)
{
    const ft_sim_config shipped = paper(2);
    ft_sim_config config;
    ft_sim_plane *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    uint64_t all = 0, late = 0, shown = 0;
    ft_sim_search search = ft_sim_way_search(FT_SIM_WAY_WISP, &shipped, &config);
    (void)state;
    search.class = FT_SIM_MIXED;
    search.seed = 2;
    assert_int_equal(ft_sim_wisp_plane(&search, 105, NULL, a), FT_OK);
    assert_int_equal(ft_sim_wisp_plane(&search, 105, NULL, b), FT_OK);
    assert_memory_equal(a->at, b->at, sizeof a->at);
    for (uint32_t i = 0; i < 2; i++)
        for (int cause = 0; cause < FT_LATE_CAUSES; cause++) {
            all += a->result.late[i][cause];
            late += cause == FT_LATE_NONE ? 0 : a->result.late[i][cause];
        }
    assert_int_equal(all, a->result.rounds);
    assert_int_equal(all, a->n_seen);
    assert_int_equal(a->n, FT_SIM_PLANE_POINTS);
    for (size_t i = 0; i < a->n; i++) {
        const ft_sim_round *r = &a->at[i];
        shown += r->late != FT_LATE_NONE;
        assert_true(r->class < 2 && r->queue_us >= 0 && r->verify_us > 0);
    }
    /* the share of late ones among those that are kept: 0.03 is four standard deviations */
    assert_float_equal((double)shown / (double)a->n, (double)late / (double)all, 0.03);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_crosses_at_capacity),
        cmocka_unit_test(test_policies_differ),
        cmocka_unit_test(test_plane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
