/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how many threads the next pass uses: all of them, or one.
 *
 * ggml's threads spin in a barrier behind every operation, hundreds of times a pass. When another
 * program has one of the cores, each barrier waits until the kernel gives that core back. Then a
 * pass on all threads takes a hundred times longer than on a single thread (4.7 s against 18 ms,
 * with two busy programs on two cores). So passes are timed. One thread is used while all threads
 * are slower, and a pass on all threads is given up and repeated on one when it takes far longer
 * than one thread would.
 *
 * Times are compared per unit of work, among passes with about as many rows: the work of two such
 * passes differs a lot if one has a long context or logits. These are pure functions of the
 * observed times. The result of a pass does not depend on the number of threads.
 *
 *   (nothing known about one thread: one pass on it -->) all <--(all threads lost LATE passes in
 *   sum, or a trial was faster)--> alone
 *
 * *Alone* means on one thread. The time that all threads lose against the median of the last passes
 * alone is summed, and gains are subtracted. So a spike is forgiven, and a lasting loss is not. The
 * other choice is tried when a small share of the time of all passes has paid for the expected cost
 * of a trial and for the cost of earlier trials.
 */
#ifndef FT_ENGINE_PACE_H
#define FT_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define FT_PACE_CLASSES 12 /* classes of passes by rows: 1, 2, 3-4, 5-8, ... */
#define FT_PACE_KEPT    5  /* the last passes of a class and choice; their median counts */

/* The size of a pass. */
typedef struct ft_pace_size {
    uint32_t n_rows;
    double work; /* > 0, multiplications or something proportional */
} ft_pace_size;

/* The last passes on one number of threads: us for a unit of work, each. */
typedef struct ft_pace_seen {
    double us[FT_PACE_KEPT];
    uint32_t n, next;
    /* All of them were made only to be timed. Real passes may differ, so the first real one
     * replaces them. */
    bool primed;
} ft_pace_seen;

typedef struct ft_pace_class {
    ft_pace_seen all, alone;
    bool goes_alone;
    double late; /* what all threads have lost lately, in passes alone; never below 0 */
    double credit_all, credit_alone; /* what trials of each choice may cost, in passes */
    uint32_t since; /* passes since the choice, or since the last trial of the other */
} ft_pace_class;

typedef struct ft_pace {
    int n_threads;
    ft_pace_class by_size[FT_PACE_CLASSES];
} ft_pace;

/* Start with nothing observed; n_threads > 0. */
void ft_pace_init(ft_pace *pace, int n_threads);

/* The number of threads for a pass: 1 or n_threads. */
int ft_pace_threads(const ft_pace *pace, const ft_pace_size *size);

/* The time after which a pass on all threads is given up; 0: never. */
int64_t ft_pace_limit_us(const ft_pace *pace, const ft_pace_size *size, int n_threads);

/* What a pass on one thread is expected to take; 0: not known. */
int64_t ft_pace_alone_us(const ft_pace *pace, const ft_pace_size *size);

/* Reports that a pass on n_threads threads took `us`, or was given up after that time. */
void ft_pace_observe(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us);

/* Reports a pass that was made only to be timed. */
void ft_pace_prime(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us);

#endif
