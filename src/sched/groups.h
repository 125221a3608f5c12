/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaving (SpecEdge 4.3): how many verifications one pass should hold at most, so that the
 * sessions of one group draft while those of another are verified. Pure: what is known comes in, a
 * number comes out; the policy keeps to it (ft_sched_limits.max_verify), in its order of service, and
 * the groups form by themselves.
 */
#ifndef FT_SCHED_GROUPS_H
#define FT_SCHED_GROUPS_H

#include <stdint.h>

#include "sched/cost.h"

typedef struct ft_groups_in {
    uint32_t
        n_thinking;    /* sessions that draft between two verifications: waiting or about to come */
    uint32_t n_steady; /* sessions that wait again as soon as a pass is over: runs */
    ft_pass thinking, steady; /* the shape of one verification of each of them, summed */
    int64_t think_us;         /* mean time from a verdict to that session's next draft */
    const ft_cost *cost;      /* borrowed */
} ft_groups_in;

/* Verifications a pass at most; 0: no limit, one group. Two groups where the time from one of a
 * session's verdicts to the next, max(2 T, T + think) with passes of half of the thinking sessions, is
 * clearly less than T + think with all of them in one. */
uint32_t ft_groups_cap(const ft_groups_in *in);

#endif
