/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads the next pass takes: all of them, or one. ggml's threads spin in a barrier behind
 * every operation, hundreds a pass; where another program has one of the cores, each barrier waits
 * for the kernel to give that core back, and a pass on all threads takes a hundred times longer than
 * one on a single thread (4.7 s against 18 ms, two busy programs on two cores). So passes are timed,
 * and one thread is taken while all of them are slower, and a pass on all threads is given up and
 * done again on one when it takes far longer than one would have. Times are compared per unit of
 * work among passes of about as many rows: two such passes differ by far where one has a long context
 * or logits. Pure functions of what was observed; the results of a pass do not depend on the number
 * of threads.
 *
 *   (nothing known of alone: one pass alone -->) all <--(slower by LATE passes in sum, or a trial was
 *   faster)--> alone
 *
 * What all threads have lost against the median of the last passes alone is summed up, gains taken off,
 * so that a spike is forgiven and nothing worse lasts. The other choice is tried when a small share of the
 * passes' time has paid for what that is likely to cost, and for what earlier trials did.
 */
#ifndef FT_ENGINE_PACE_H
#define FT_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define FT_PACE_CLASSES 12 /* of pass sizes: 1, 2, 3-4, 5-8, ... rows */
#define FT_PACE_KEPT    5  /* passes of a class and choice whose median counts */

/* The size of a pass. */
typedef struct ft_pace_size {
    uint32_t n_rows;
    double work; /* > 0, multiplications or whatever is proportional */
} ft_pace_size;

/* The last passes on so many threads: us of a unit of work each. */
typedef struct ft_pace_seen {
    double us[FT_PACE_KEPT];
    uint32_t n, next;
    bool
        primed; /* made to be timed, all of them: passes to come may differ; the first one replaces them */
} ft_pace_seen;

typedef struct ft_pace_class {
    ft_pace_seen all, alone;
    bool goes_alone;
    double late; /* what all threads have lost lately, in passes alone; never below 0 */
    double credit_all, credit_alone; /* what trials of them may cost, in passes */
    uint32_t since;                  /* passes since the choice was made or the other was tried */
} ft_pace_class;

typedef struct ft_pace {
    int n_threads;
    ft_pace_class by_size[FT_PACE_CLASSES];
} ft_pace;

/* Nothing observed yet; n_threads > 0. */
void ft_pace_init(ft_pace *pace, int n_threads);

/* Threads for a pass: 1 or n_threads. */
int ft_pace_threads(const ft_pace *pace, const ft_pace_size *size);

/* The time after which a pass on all threads is given up; 0: never. */
int64_t ft_pace_limit_us(const ft_pace *pace, const ft_pace_size *size, int n_threads);

/* A pass on n_threads threads took `us`, or was given up then. */
void ft_pace_observe(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us);

/* The same of a pass that was made only to be timed: a number of threads to begin with. */
void ft_pace_prime(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us);

#endif
