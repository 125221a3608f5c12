/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench uplink tells the simulator (sim/qsv.h): the times and bytes that edges have measured.
 * Pure; any thread. */
#ifndef FT_BENCH_UPLINK_SIM_H
#define FT_BENCH_UPLINK_SIM_H

#include "bench/uplink.h"
#include "bench/uplink_edge.h"
#include "learn/positions.h"

/* Means over all rounds of the run; where it says so, of a method, over all uplinks. */
typedef struct ft_bench_uplink_times {
    double draft_ms[FT_QSV_METHODS];    /* a token of a chain, a level of a tree; of the method */
    double rest_ms[FT_QSV_METHODS];     /* of a round: all but draft, bytes and verification */
    double node_bits[FT_QSV_METHODS];   /* that a node adds to a Draft besides its point */
    double message_bits;                /* of a Draft without nodes */
    double verify_ms[FT_TREE_MAX + 1];  /* a verification, by nodes of the draft */
    uint64_t verified[FT_TREE_MAX + 1]; /* how many; 0: the time is taken from its neighbours' */
} ft_bench_uplink_times;

/* A way on an uplink, and what was measured of it. */
typedef struct ft_bench_uplink_total {
    ft_bench_uplink_way way;
    ft_bench_uplink_part part;           /* of each text its median round */
    double slowest_per_s, fastest_per_s; /* tokens/s of whole rounds */
} ft_bench_uplink_total;

/* From parts[n_texts, rounds], the median round of each text by its time a token. */
void ft_bench_uplink_total_of(const ft_bench_uplink_part *parts, size_t n_texts, uint32_t rounds,
                              ft_bench_uplink_total *out);
/* Tokens per second; 0: there is no token. */
double ft_bench_uplink_speed(const ft_bench_uplink_sum *sum);

/* The share of drafts that a policy chose; 0: there are none. */
double ft_bench_uplink_policy_share(const ft_bench_uplink_sum *sum);

/* Of totals[n]. What was not measured is 0. */
ft_bench_uplink_times ft_bench_uplink_times_of(const ft_bench_uplink_total *totals, uint32_t n);

typedef struct ft_bench_uplink_sim_opts {
    const ft_bench_uplink_times *times;
    const ft_positions *positions; /* replayed, all texts */
    const ft_policy *policy;       /* of POLICY */
    uint64_t seed;
} ft_bench_uplink_sim_opts;

typedef struct ft_bench_uplink_simulated {
    double tokens_per_s, bytes_per_round;
} ft_bench_uplink_simulated;

/* Simulates the way on the uplink. policy_share: of POLICY, the share of drafts that the policy
 * chose; the others had the way's length and l. FT_INVALID: the positions lack an l; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_uplink_simulate(const ft_bench_uplink_sim_opts *opts,
                                                  const ft_bench_uplink_way *way,
                                                  const ft_qsv_link *link, double policy_share,
                                                  ft_error *err, ft_bench_uplink_simulated *out);

#endif
