// SPDX-License-Identifier: Apache-2.0
// sched/heads.c: what runs of the output head take is learnt, walks' habits too, and rows are
// chosen so that walks that behave as they did cost about as little as under the best fixed choice.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/heads.h"

#define N 32 /* nodes of a tree */

static const int32_t chain[N] = {-1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
/* two children a node, the first ones first */
static const int32_t bush[N] = {-1, -1, 0, 0, 1, 1, 2,  2,  3,  3,  4,  4,  5,  5,  6,  6,
                                7,  7,  8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14};

/* All that is known: runs of the head take so many us, and so many more a row. */
static void show(ft_heads *h, double run_us, double row_us)
{
    ft_heads_init(h);
    h->run_us = run_us;
    h->row_us = row_us;
}

/* How many rows the next run takes for so many walks at the root. */
static uint32_t rows_for(const ft_heads *h, const int32_t *tree, uint32_t n, uint32_t n_walks)
{
    ft_heads_plan plan = {0};
    float reach[N + 1];
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n_walks; i++)
        ft_heads_add(&plan, h, tree, n, -1, reach);
    float least = ft_heads_least(&plan, h);
    assert_true(least > 0 && least <= 1);
    for (uint32_t i = 0; i <= n; i++)
        rows += n_walks * (reach[i] >= least);
    return rows;
}

static void test_nothing_known(void **state)
{
    ft_heads h;
    ft_heads_init(&h);
    assert_int_equal(rows_for(&h, bush, N, 3), 3 * (N + 1));
    ft_heads_observe(&h, 0, 5);
    ft_heads_observe(&h, 5, 0);
    assert_true(h.run_us == 0 && h.row_us == 0);
    assert_int_equal(rows_for(&h, bush, N, 3), 3 * (N + 1));
    ft_heads_observe(&h, 10, 1000); /* half of it is taken to be the rows' */
    assert_true(h.run_us == 500 && h.row_us == 50);
}

static void test_extremes(void **state)
{
    ft_heads h;
    show(&h, 0, 100);
    assert_in_range(rows_for(&h, bush, N, 1), 1, 2); /* a child may be as likely as not */
    assert_in_range(rows_for(&h, chain, N, 16), 16, 2 * 16);
    show(&h, 2000, 0);
    assert_int_equal(rows_for(&h, bush, N, 1), N + 1);
    assert_int_equal(rows_for(&h, chain, N, 16), 16 * (N + 1));
    show(&h, 2000, 100);
    assert_in_range(rows_for(&h, chain, 4, 1), 4, 5);
    assert_in_range(rows_for(&h, chain, N, 1), 4, 10);
    assert_in_range(rows_for(&h, chain, N, 16), 2 * 16, 8 * 16);
    /* the text is over or the tree is empty: roots alone */
    assert_int_equal(rows_for(&h, chain, 0, 7), 7);
}

static void test_times(void **state)
{
    static const double machines[][2] = {{1000, 50}, {1000, 1}, {10, 100}};
    ft_heads h;
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        ft_heads_init(&h);
        for (int i = 0; i < 40; i++)
            for (uint32_t rows = 1; rows <= 512; rows *= 2)
                ft_heads_observe(&h, rows, (int64_t)(machines[k][0] + machines[k][1] * rows));
        for (uint32_t rows = 1; rows <= 512; rows *= 2) {
            double us = machines[k][0] + machines[k][1] * rows;
            assert_true(fabs(h.run_us + h.row_us * rows - us) < 0.15 * us);
        }
    }
    /* The machine gets slower. */
    show(&h, 1000, 50);
    for (int i = 0; i < 30; i++)
        ft_heads_observe(&h, 4, 3 * 1200);
    assert_true(fabs(h.run_us + 4 * h.row_us - 3600) < 36);
    /* One stroke of bad luck says little. */
    show(&h, 1000, 50);
    ft_heads_observe(&h, 4, 1000000000);
    assert_in_range((int)(h.run_us + 4 * h.row_us), 1300, 2400);
    /* Nothing makes a time negative. */
    for (int i = 0; i < 1000; i++)
        ft_heads_observe(&h, 4, 1);
    assert_true(h.run_us >= 0 && h.row_us >= 0);
}

static void test_habits(void **state)
{
    ft_heads h;
    show(&h, 2000, 100);
    uint32_t path[N];
    for (uint32_t i = 0; i < N; i++)
        path[i] = i;
    uint32_t usual = rows_for(&h, chain, N, 1);
    for (int i = 0; i < 500; i++)
        ft_heads_learn(&h, chain, N, path, 0);
    assert_true(h.goes_on[0] < 0.01 && h.goes_on[1] == 0.25);
    assert_int_equal(rows_for(&h, chain, N, 1), 1);
    for (int i = 0; i < 500; i++)
        ft_heads_learn(&h, chain, N, path, N); /* all accepted */
    assert_true(h.goes_on[0] > 0.99);
    assert_true(rows_for(&h, chain, N, 1) > usual);
    /* Walks that go to second children, then end. */
    path[0] = 1;
    for (int i = 0; i < 500; i++)
        ft_heads_learn(&h, bush, N, path, 1);
    assert_true(fabs(h.goes_on[0]) < 0.01 && fabs(h.goes_on[1] - 0.5) < 0.05);
}

/* ---- against fixed choices ---- */

/* One pass of walks that go on as `rates` say; a node gets logits if it is as likely as `least`
 * seen from where the walk stands. least 0: as ft_heads_least says. Returns the us of all runs. */
static double simulate(const ft_heads *h, ft_rng *rng, const int32_t *tree, uint32_t n_walks,
                       float least)
{
    static float reach[64][N + 1];
    int32_t at[64];
    uint32_t going[64], n_going = n_walks;
    double us = 0;
    for (uint32_t i = 0; i < n_walks; i++) {
        at[i] = -1;
        going[i] = i;
    }
    while (n_going > 0) {
        ft_heads_plan plan = {0};
        uint32_t rows = 0, n = n_going;
        for (uint32_t i = 0; i < n; i++)
            ft_heads_add(&plan, h, tree, N, at[going[i]], reach[going[i]]);
        float use = least > 0 ? least : ft_heads_least(&plan, h);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k <= N; k++)
                rows += reach[going[i]][k] >= use;
        us += h->run_us + h->row_us * rows;
        n_going = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t w = going[i];
            bool over = false;
            while (!over && reach[w][at[w] + 1] >= use) {
                double u = ft_rng_unit(rng);
                uint32_t rank = 0;
                over = true;
                for (uint32_t k = (uint32_t)(at[w] + 1); k < N && over; k++) {
                    if (tree[k] != at[w])
                        continue;
                    u -= h->goes_on[rank < FT_HEADS_RANKS ? rank : FT_HEADS_RANKS - 1];
                    rank++;
                    if (u < 0) {
                        at[w] = (int32_t)k;
                        over = false;
                    }
                }
            }
            if (!over)
                going[n_going++] = w;
        }
    }
    return us;
}

static double mean_us(const ft_heads *h, const int32_t *tree, uint32_t n_walks, float least)
{
    double sum = 0;
    ft_rng rng;
    ft_rng_init(&rng, 5);
    for (int i = 0; i < 300; i++)
        sum += simulate(h, &rng, tree, n_walks, least);
    return sum / 300;
}

static void test_no_fixed_choice_is_much_better(void **state)
{
    static const double heads[][2] = {{2000, 100}, {2000, 20}, {500, 200}, {100, 500}};
    static const double goes_on[FT_HEADS_RANKS] = {0.6, 0.2, 0.1, 0.05};
    static const uint32_t walks[] = {1, 4, 16, 64};
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 4; i++)
            for (int tree = 0; tree < 2; tree++) {
                ft_heads h;
                show(&h, heads[k][0], heads[k][1]);
                memcpy(h.goes_on, goes_on, sizeof h.goes_on);
                double best = 0, ours = mean_us(&h, tree ? bush : chain, walks[i], 0), all = 0;
                for (int j = 1; j <= FT_HEADS_LEVELS; j++) {
                    all = mean_us(&h, tree ? bush : chain, walks[i], ldexpf(1, -j));
                    best = j == 1 || all < best ? all : best;
                }
                print_message("%4.0f + %3.0f us, %2u %s: %6.0f, best fixed %6.0f, all %6.0f\n",
                              heads[k][0], heads[k][1], walks[i], tree ? "trees " : "chains", ours,
                              best, all);
                assert_true(ours < 1.15 * best);
            }
}

/* All nodes until something was seen; then as the last pass. */
static void test_share_of_nodes(void **state)
{
    ft_heads h;
    (void)state;
    ft_heads_init(&h);
    assert_int_equal(ft_heads_expect(&h, 40), 41);
    ft_heads_saw_pass(&h, 3, 0, 3); /* no trees: nothing to see */
    assert_int_equal(ft_heads_expect(&h, 40), 41);
    ft_heads_saw_pass(&h, 2, 80, 2); /* roots alone */
    assert_int_equal(ft_heads_expect(&h, 40), 1);
    ft_heads_saw_pass(&h, 2, 80, 22);
    assert_int_equal(ft_heads_expect(&h, 40), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_habits),
        cmocka_unit_test(test_no_fixed_choice_is_much_better),
        cmocka_unit_test(test_share_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
