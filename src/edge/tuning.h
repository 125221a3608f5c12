/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning constants of src/edge, by the file that uses them (base/tuning.h): what rounds take
 * (timing.h), and runs (steer.h, drafting.h). What drafts are decided by stands in spec/tuning.h.
 *
 * Not here: limits, polling, pauses before a new try.
 *
 * Below each constant: its effect on tokens/s, as spec/tuning.h says.
 */
#ifndef FT_EDGE_TUNING_H
#define FT_EDGE_TUNING_H

#include "base/tuning.h"

/* timing.c. */
#define FT_EDGE_TUNING_TIMING(T, g)                                             \
    T(g, REAL, SCALED, weight, 0.2, "share of a new sample in a mean of times") \
    /* half unclear, double unclear */

/* steer.c, drafting.c. */
#define FT_EDGE_TUNING_RUNS(T, g)                                                              \
    T(g, COUNT, SCALED, first_tok, 2, "tokens of the first run that tell what a token takes")  \
    /* half unclear, double -3.9 % cold */                                                     \
    T(g, COUNT, SCALED, follow_tok, 32, "tokens of a run that the draft model reads together") \
    /* half unclear, double < 1 % */

/* steer.c. */
#define FT_EDGE_TUNING_PROMISE(T, g)                                               \
    T(g, COUNT, SCALED, first_nodes, 8, "nodes of a tree whose price nobody told") \
    /* half not met, double not met */

#define FT_EDGE_TUNING_GROUPS(G)     \
    G(timing, FT_EDGE_TUNING_TIMING) \
    G(runs, FT_EDGE_TUNING_RUNS)     \
    G(promise, FT_EDGE_TUNING_PROMISE)

typedef struct ft_edge_tuning {
    FT_EDGE_TUNING_GROUPS(FT_TUNING_STRUCT)
} ft_edge_tuning;

extern const ft_tuning_table ft_edge_tuning_table;

/* In use; the table's values unless somebody replaced them (base/tuning.h says who may). */
extern const ft_edge_tuning *ft_edge_tune;

#endif
