/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts spikes by their cause: passes that took much longer than those before them (WISP 5.3,
 * eq. (21); 3.4 calls this interference). All sessions in such a pass wait for it. Only statistics:
 * no decision depends on it. Pure; no clock; the caller owns the state.
 */
#ifndef FT_SCHED_SPIKE_H
#define FT_SCHED_SPIKE_H

#include <stdint.h>

#include "sched/cost.h"

#define FT_SPIKE_RHO    1.5 /* times the moving average: the paper's threshold */
#define FT_SPIKE_WINDOW 32  /* passes of the moving average; the paper leaves its W open */

/* F(NAME, "label") */
#define FT_SPIKE_LIST(F)                                                               \
    F(NONE, "none")                 /* no spike */                                     \
    F(COLD_START, "cold_start")     /* prompts, or texts whose KV is computed again */ \
    F(LONG_CONTEXT, "long_context") /* what verifications attend to and read */        \
    F(LARGE_BATCH, "large_batch")   /* the rows of verifications */                    \
    F(OTHER, "other")               /* nothing in the pass: the machine was busy, say */
typedef enum ft_spike_cause {
#define F(name, text) FT_SPIKE_##name,
    FT_SPIKE_LIST(F)
#undef F
        FT_SPIKE_CAUSES
} ft_spike_cause;
extern const char *const ft_spike_name[FT_SPIKE_CAUSES];

typedef struct ft_spike_seen {
    double us;                    /* measured */
    double part[FT_SPIKE_CAUSES]; /* of it, by cause, as the costs predict */
} ft_spike_seen;

/* All-zero: no pass was seen. */
typedef struct ft_spikes {
    ft_spike_seen seen[FT_SPIKE_WINDOW]; /* the last passes */
    uint64_t n_seen;
    uint64_t count[FT_SPIKE_CAUSES]; /* of passes; NONE has those that were no spikes */
} ft_spikes;

/* A pass took `us`; `prompts` is the part of it that was prompt chunks. Counts the pass and returns
 * its cause.
 *
 * The pass is a spike if it took more than FT_SPIKE_RHO times the mean of the passes before it; the
 * first pass is none. The cause is the part that grew most over its own mean. If no part grew by a
 * tenth of the time above the mean, the cause is OTHER. A `us` of 0 or less is ignored: NONE. */
ft_spike_cause ft_spike_observe(ft_spikes *spikes, const ft_cost *cost, const ft_pass *pass,
                                const ft_pass *prompts, int64_t us);

#endif
