// SPDX-License-Identifier: Apache-2.0
// Curves beside the same pipeline round by round.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/curve.h"

#define LANES  8
#define PIECES 3

typedef struct pipeline {
    ft_plan_piece pieces[LANES][PIECES];
    ft_plan_lane lanes[LANES];
    uint32_t n, rounds;
} pipeline;

static ft_plan_time random_time(ft_rng *rng)
{
    /* Small whole numbers, so that lines meet in rounds and not only between them. */
    return (ft_plan_time){ft_rng_below(rng, 50), ft_rng_below(rng, 8), ft_rng_below(rng, 3)};
}

static void make_pipeline(pipeline *p, ft_rng *rng)
{
    *p = (pipeline){.n = 1 + ft_rng_below(rng, LANES)};
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t until = 0;
        p->lanes[i] = (ft_plan_lane){.pieces = p->pieces[i], .n = 1 + ft_rng_below(rng, PIECES)};
        for (uint32_t k = 0; k < p->lanes[i].n; k++) {
            until += 1 + ft_rng_below(rng, 12);
            p->pieces[i][k] = (ft_plan_piece){until, random_time(rng), random_time(rng)};
        }
        p->rounds = until > p->rounds ? until : p->rounds;
    }
}

static void test_same_as_round_by_round(void **state)
{
    ft_plan_curve curve[2] = {{0}};
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < 3000; i++) {
        pipeline p;
        ft_plan_place places[LANES];
        int now = 0;
        make_pipeline(&p, &rng);
        assert_true(ft_plan_curve_clear(&curve[0], p.rounds));
        for (uint32_t k = 0; k < p.n; k++, now = !now) {
            const double with = ft_plan_curve_sum_with(&curve[now], &p.lanes[k]);
            const double walked = ft_plan_walk(FT_PLAN_ROUNDS, p.lanes, k + 1, places, NULL, NULL);
            assert_true(ft_plan_curve_add(&curve[now], &p.lanes[k], &curve[!now]));
            assert_true(fabs(with - ft_plan_curve_sum(&curve[!now])) <= 1e-9 * with);
            assert_true(fabs(with - walked) <= 1e-9 * walked);
            assert_true(ft_plan_curve_dominates(&curve[now], &curve[!now]));
        }
    }
    ft_plan_curve_deinit(&curve[0]);
    ft_plan_curve_deinit(&curve[1]);
}

/* One curve is earlier in one round, the other in another: neither dominates. */
static void test_dominates(void **state)
{
    const ft_plan_piece falls = {9, {5, 5, 0}, {1, 1, 0}}, rises = {9, {1, 1, 1}, {1, 1, 0}};
    const ft_plan_lane lanes[2] = {{.pieces = &falls, .n = 1}, {.pieces = &rises, .n = 1}};
    ft_plan_curve zero = {0}, curve[2] = {{0}};
    assert_true(ft_plan_curve_clear(&zero, 9));
    for (int i = 0; i < 2; i++)
        assert_true(ft_plan_curve_add(&zero, &lanes[i], &curve[i]));
    assert_false(ft_plan_curve_dominates(&curve[0], &curve[1]));
    assert_false(ft_plan_curve_dominates(&curve[1], &curve[0]));
    for (int i = 0; i < 2; i++) {
        assert_true(ft_plan_curve_dominates(&curve[i], &curve[i]));
        assert_true(ft_plan_curve_dominates(&zero, &curve[i]));
        assert_false(ft_plan_curve_dominates(&curve[i], &zero));
        ft_plan_curve_deinit(&curve[i]);
    }
    ft_plan_curve_deinit(&zero);
}

static void test_sums(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 2);
    for (int i = 0; i < 300; i++) {
        pipeline p;
        ft_plan_place places[LANES];
        double sum = 0;
        make_pipeline(&p, &rng);
        for (uint32_t k = 0; k < p.n; k++) {
            double draft_s, verify_s;
            ft_plan_lane_s(&p.lanes[k], &draft_s, &verify_s);
            sum += draft_s + verify_s;
        }
        const double sequence = ft_plan_walk(FT_PLAN_SEQUENCE, p.lanes, p.n, places, NULL, NULL);
        const double rounds = ft_plan_walk(FT_PLAN_ROUNDS, p.lanes, p.n, places, NULL, NULL);
        const double rolling = ft_plan_walk(FT_PLAN_ROLLING, p.lanes, p.n, places, NULL, NULL);
        assert_true(fabs(sequence - sum) <= 1e-9 * sum);
        assert_true(rolling <= rounds && rounds <= sequence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_round_by_round),
                                       cmocka_unit_test(test_dominates),
                                       cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
