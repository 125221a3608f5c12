/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaving (SpecEdge 4.3): limits the verifications in a pass, so that one group of sessions
 * drafts while the other is verified. Pure: it returns only the limit. The policy obeys it in its
 * order of service (ft_sched_limits.max_verify), and so the groups form by themselves.
 */
#ifndef FT_SCHED_GROUPS_H
#define FT_SCHED_GROUPS_H

#include <stdint.h>

#include "sched/cost.h"
#include "sched/think.h"

typedef struct ft_groups_in {
    uint32_t
        n_thinking;    /* sessions that draft between two verifications: waiting or about to come */
    uint32_t n_steady; /* sessions that wait again as soon as a pass is over: runs */
    ft_pass thinking, steady; /* the shape of one verification of each of them, summed */
    int64_t think_us;         /* mean time from a verdict to that session's next draft */
    const ft_cost *cost;      /* borrowed */
} ft_groups_in;

/* The most verifications of a pass; 0: no limit, one group. There are two groups if that clearly
 * shortens the time between a session's verdicts. This time is max(2 T, T + think) with two groups,
 * where T is a pass of half the thinking sessions, and T + think with one group. */
uint32_t ft_groups_cap(const ft_groups_in *in);

/* Sums over the sessions that the next pass may serve. All-zero: none. */
typedef struct ft_groups_survey {
    uint32_t n_waiting, n_expected, n_steady, n_known; /* n_known: with a think time */
    ft_pass waiting, steady;                           /* their verifications, summed */
    double think_us;                                   /* sum */
} ft_groups_survey;

/* Adds a session that waits for a verification of that shape, and drafts after it. */
void ft_groups_waits(ft_groups_survey *survey, const ft_pass *shape, const ft_think *think);
/* Adds a session that waits, and will wait again as soon as the pass is over. */
void ft_groups_steady(ft_groups_survey *survey, const ft_pass *shape);
/* Adds a session whose draft is expected soon. */
void ft_groups_expects(ft_groups_survey *survey, const ft_think *think);
/* The input of ft_groups_cap. Expected verifications are taken to be like the waiting ones. */
ft_groups_in ft_groups_of(const ft_groups_survey *survey, const ft_cost *cost);

#endif
