// SPDX-License-Identifier: Apache-2.0
// bench/race: the fastest candidate is found, also where single laps mislead, and by far fewer
// measurements than if all ran the laps of the best.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/race.h"

/* Runs a race of candidates with these speeds; lap t of candidate i is wrong by off(i, t). Returns
 * the number of measurements. */
static uint32_t run(ft_bench_race *race, const double *speed, uint32_t n,
                    double (*off)(uint32_t i, uint32_t lap))
{
    uint32_t i, measured = 0;
    ft_bench_race_begin(race, n);
    while (ft_bench_race_next(race, &i)) {
        assert_true(i < n);
        ft_bench_race_saw(race, speed[i] + (off ? off(i, race->laps[i]) : 0));
        assert_true(++measured < 10 * FT_BENCH_RACE_MAX);
    }
    assert_int_equal(race->n_left, 1);
    return measured;
}

static void test_best_wins(void **state)
{
    double speed[FT_BENCH_RACE_MAX];
    for (uint32_t n = 1; n <= FT_BENCH_RACE_MAX; n++)
        for (uint32_t best = 0; best < n; best += 7) {
            ft_bench_race race;
            for (uint32_t i = 0; i < n; i++)
                speed[i] = i == best ? 100 : i % 13;
            const uint32_t measured = run(&race, speed, n, NULL);
            assert_int_equal(race.left[0], best);
            assert_true(measured <= 2 * n + 8);
            if (n > 1)
                assert_true(ft_bench_race_speed(&race, best) == 100);
        }
}

/* The first lap flatters candidate 0 and wrongs candidate 5, within the better half: laps add up,
 * and the sum decides. */
static double first_lap(uint32_t i, uint32_t lap)
{
    return lap > 0 ? 0 : i == 0 ? 2 : i == 5 ? -2 : 0;
}

static void test_laps_add_up(void **state)
{
    static const double speed[] = {9, 1, 2, 3, 4, 10, 5, 6};
    ft_bench_race race;
    (void)run(&race, speed, 8, first_lap);
    assert_int_equal(race.left[0], 5);
    assert_true(race.laps[5] >= 4 && race.laps[1] == 1);
    assert_true(ft_bench_race_speed(&race, 1) == 1);
}

/* In a lap everybody left is measured once, before anybody is again. */
static void test_laps_are_interleaved(void **state)
{
    ft_bench_race race;
    uint32_t i, seen[6] = {0}, lap = 0;
    ft_bench_race_begin(&race, 6);
    while (ft_bench_race_next(&race, &i)) {
        if (race.lap != lap) {
            assert_int_equal(race.lap, lap + 1);
            lap = race.lap;
        }
        assert_int_equal(seen[i], lap); /* once in each lap before this one */
        seen[i]++;
        ft_bench_race_saw(&race, i);
    }
    assert_int_equal(race.left[0], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_wins),
        cmocka_unit_test(test_laps_add_up),
        cmocka_unit_test(test_laps_are_interleaved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
