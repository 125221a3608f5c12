/* SPDX-License-Identifier: Apache-2.0
 *
 * Joint drafts: they left an edge together, to be verified in one pass (Draft.together). The second
 * stage of Zhu et al.'s pipeline (II-B) takes a batch as one. They come one after the other over
 * streams of their own, so the first is held for the rest, but not for long. Pure.
 */
#ifndef FT_SCHED_TOGETHER_H
#define FT_SCHED_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For so long the first draft is held. The drafts of a batch leave within about a millisecond; over
 * a network whose delay varies they come within some tens. Half as long would split batches over
 * such a network. Twice as long would make each batch that one draft is missing from wait longer
 * than a pass takes. */
#define FT_TOGETHER_HOLD_US 50000

/* A joint draft. */
typedef struct ft_together {
    uint64_t owner;     /* whose batch it is; two owners' batches are never the same */
    uint32_t batch;     /* which of the owner's */
    uint32_t expected;  /* drafts in the batch */
    uint32_t index;     /* the caller's */
    int64_t arrival_us; /* of this draft */
    bool ready;         /* its verification could be computed now */
    bool answered;      /* its verification has begun or is over */
    bool held;          /* out: it is ready, and waits for the rest */
} ft_together;

/* Decides which drafts are held at this time, and changes the order of the array. Returns in how
 * many microseconds the first of them is not held any more; < 0: none is held. */
int64_t ft_together_hold(ft_together *drafts, size_t n, int64_t now_us);

#endif
