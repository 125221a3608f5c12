/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's passes, as the verdicts of many texts tell of them. Each verdict says how long its
 * pass took. Verdicts of one pass say the same and come together, also if they are of several
 * batches: the server took those in one pass. Pure; the caller owns the state.
 */
#ifndef FT_EDGE_BATCH_PASSES_H
#define FT_EDGE_BATCH_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/cost.h"

/* Passes whose verdicts may still come. A batch's verdicts are all heard before its next draft
 * leaves, so only as many are open as the server makes for one turn of all batches. */
#define FT_BATCH_PASSES_OPEN 16

typedef struct ft_batch_pass {
    int64_t us;      /* that it took */
    int64_t came_us; /* when its first verdict came that was heard */
    ft_pass pass;    /* the rows of those verdicts */
    bool mixed;      /* it may have had other rows */
    bool grew;       /* since the last turn */
} ft_batch_pass;

typedef struct ft_batch_passes {
    ft_batch_pass open[FT_BATCH_PASSES_OPEN];
    size_t n;
    uint64_t n_seen;
    double sum_s; /* of all that were seen, each once */
} ft_batch_passes;

/* A verdict came: its pass took `us`, and had these rows for it. mixed: and may have had rows that
 * no verdict tells of, as of a prompt. us > 0. Returns whether it was the first of its pass. */
bool ft_batch_passes_heard(ft_batch_passes *p, const ft_batch_pass *verdict);

/* A turn of all batches is over: takes out a pass no verdict of which came in it; false: there is
 * none, and a new turn begins. */
bool ft_batch_passes_take(ft_batch_passes *p, ft_batch_pass *out);

#endif
