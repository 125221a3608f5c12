/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a server that has a draft model of its own should draft for the runs of its next pass, or
 * decode them a token a pass. Pure: what was measured comes in, a decision comes out; no clock. State
 * is plain data, zeroed to begin with.
 *
 *   choose -> drafting: saw_draft, and saw_verdict for each tree -> choose ...
 *          -> not -> choose ...
 */
#ifndef FT_SCHED_OWN_DRAFT_H
#define FT_SCHED_OWN_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#define FT_OWN_CLASSES 12 /* of how many sessions are drafted for: 1, 2-3, 4-7, ... */

/* What the next pass would be. The cost model's times; 0: not known. */
typedef struct ft_own_load {
    uint32_t sessions; /* to draft for, > 0 */
    int64_t plain_us;  /* of the pass with one row of each of them */
    int64_t tree_us;   /* of the pass with a tree of each of them */
} ft_own_load;

typedef struct ft_own_draft {
    double tokens;                   /* of a verdict on a tree of ours, smoothed */
    double draft_us[FT_OWN_CLASSES]; /* of drafting for so many sessions, smoothed */
    uint32_t n_verdicts, n_drafts[FT_OWN_CLASSES];
    bool on;         /* what pays by the estimates, as of the last choice */
    bool probing;    /* a draft against the estimates is under way */
    uint32_t wait;   /* choices between probes */
    uint32_t since;  /* choices since it last went against the estimates */
    double token_us; /* of a run, as of the last choice; 0: not known */
} ft_own_draft;

/* Whether to draft. Counts: call it once a pass. */
bool ft_own_draft_choose(ft_own_draft *own, const ft_own_load *load);
/* Drafting for so many sessions took `us`. */
void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us);
/* A tree brought so many tokens, the target's own included. */
void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens);

#endif
