/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the fastest of some candidates on a noisy machine, in short laps: in a lap each candidate
 * that is left is measured once; then the slower half goes (successive halving: Jamieson and
 * Talwalkar, 2016). The last few have two laps before that. Pure; the state is plain data.
 *
 *   begin -> next -> (measure) -> saw -> next ... -> next says no: the first one left is the best
 */
#ifndef FT_BENCH_RACE_H
#define FT_BENCH_RACE_H

#include <stdbool.h>
#include <stdint.h>

#define FT_BENCH_RACE_MAX 64

typedef struct ft_bench_race {
    uint32_t n;                       /* candidates */
    uint32_t left[FT_BENCH_RACE_MAX]; /* [n_left] their numbers; at the end the best is first */
    uint32_t n_left;
    uint32_t at;                      /* of `left`: which is next */
    uint32_t lap;                     /* from 0 */
    uint32_t since;                   /* laps since candidates went */
    double speed[FT_BENCH_RACE_MAX];  /* the sum over laps */
    uint32_t laps[FT_BENCH_RACE_MAX]; /* that a candidate ran */
} ft_bench_race;

/* n: 1 to FT_BENCH_RACE_MAX. */
void ft_bench_race_begin(ft_bench_race *race, uint32_t n);
/* The candidate to measure now. False: one is left, and all that it takes is known. */
bool ft_bench_race_next(ft_bench_race *race, uint32_t *candidate);
/* The candidate that `next` named has this speed in this lap. */
void ft_bench_race_saw(ft_bench_race *race, double speed);
/* A candidate's mean speed; 0: it ran none. */
double ft_bench_race_speed(const ft_bench_race *race, uint32_t candidate);

#endif
