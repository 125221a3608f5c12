/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads the next pass takes: all of them, or one. ggml's threads spin in a barrier behind
 * every operation, hundreds a pass; where another program has one of the cores, each barrier waits
 * for the kernel to give that core back, and a pass on all threads takes a hundred times longer than
 * one on a single thread (4.7 s against 18 ms, two busy programs on two cores). So passes are timed,
 * and one thread is taken where all of them were slower, and a pass on all threads is given up and
 * done again on one when it takes far longer than one would have. Times are compared per unit of
 * work among passes of about as many rows: two such passes differ by far where one has a long context
 * or logits. Pure functions of what was observed; the results of a pass do not depend on the number
 * of threads.
 *
 *   (first pass of a size) alone --> all --(slower than alone: twice running, or once by far)-->
 *   alone for `backoff` passes --> all, once; slower again: backoff doubles; faster: stay
 */
#ifndef FT_ENGINE_PACE_H
#define FT_ENGINE_PACE_H

#include <stdint.h>

#define FT_PACE_CLASSES 12 /* of pass sizes: 1, 2, 3-4, 5-8, ... rows */

/* The size of a pass. */
typedef struct ft_pace_size {
    uint32_t n_rows;
    double work; /* > 0, multiplications or whatever is proportional */
} ft_pace_size;

typedef struct ft_pace_class {
    double alone_us; /* recent time of a unit of work on one thread; 0: none seen */
    uint32_t slow;   /* passes on all threads, running, that were slower than alone */
    uint32_t alone_left;
    uint32_t backoff;
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

#endif
