// SPDX-License-Identifier: Apache-2.0
// Successive halving. Candidates that are left ran the same laps, so their sums compare. Pure.
#include "bench/race.h"

#include <assert.h>

#define FEW      4 /* the last so many... */
#define FEW_LAPS 2 /* ...run so many laps before half of them go: 1: noise decides more often */

void ft_bench_race_begin(ft_bench_race *race, uint32_t n)
{
    assert(n > 0 && n <= FT_BENCH_RACE_MAX);
    *race = (ft_bench_race){.n = n, .n_left = n};
    for (uint32_t i = 0; i < n; i++)
        race->left[i] = i;
}

double ft_bench_race_speed(const ft_bench_race *race, uint32_t i)
{
    return race->laps[i] ? race->speed[i] / race->laps[i] : 0;
}

/* The fastest first; of equal ones the lower number. */
static void sort(ft_bench_race *race)
{
    for (uint32_t i = 1; i < race->n_left; i++) {
        const uint32_t it = race->left[i];
        uint32_t at = i;
        for (; at > 0 &&
               ft_bench_race_speed(race, it) > ft_bench_race_speed(race, race->left[at - 1]);
             at--)
            race->left[at] = race->left[at - 1];
        race->left[at] = it;
    }
}

bool ft_bench_race_next(ft_bench_race *race, uint32_t *candidate)
{
    if (race->at == race->n_left) {
        race->at = 0;
        race->lap++;
        race->since++;
        sort(race);
        if (race->n_left > FEW || race->since >= FEW_LAPS) {
            race->n_left = (race->n_left + 1) / 2;
            race->since = 0;
        }
    }
    *candidate = race->left[race->at];
    return race->n_left > 1;
}

void ft_bench_race_saw(ft_bench_race *race, double speed)
{
    const uint32_t i = race->left[race->at++];
    race->speed[i] += speed;
    race->laps[i]++;
}
