/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the largest number of devices that a server holds (WISP eq. (20)), one probe at a
 * time: next() returns how many devices to try, and saw() takes the result. So several searches can
 * alternate. Pure: no clock, no server. */
#ifndef FT_BENCH_CAPACITY_SEARCH_H
#define FT_BENCH_CAPACITY_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_capacity_search {
    double epsilon;   /* share of texts that may be slower than promised */
    double precision; /* the search ends when high is within this share of low */
    uint32_t most;    /* the most devices to try */

    uint32_t low, high;   /* low is held, high is not; 0: not known */
    uint32_t next;        /* to try; 0: it is over */
    uint64_t texts, slow; /* at next, so far */
    uint32_t n_at;        /* probes there */
} ft_capacity_search;

/* guess: where to begin, from 1 to most. */
void ft_capacity_search_init(ft_capacity_search *search, uint32_t guess, uint32_t most,
                             double epsilon, double precision);

/* How many devices to try now; 0: search->low is the answer, 0 devices where not even one is
 * held. */
uint32_t ft_capacity_search_next(const ft_capacity_search *search);

/* What came of next() devices: texts, those of them that were slower than promised, and for how
 * many devices the tokens would have been enough (0: not known). Where the share of slow texts is
 * near epsilon the same number is tried once more and both count. Where texts is 0, nobody was
 * served. */
void ft_capacity_search_saw(ft_capacity_search *search, uint64_t texts, uint64_t slow,
                            uint32_t enough_for);

#endif
