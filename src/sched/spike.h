/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes that took much longer than those before them, by what made them so (WISP 5.3, eq. (21), on
 * the interference of 3.4): everybody in such a pass waits for it. Pure: passes in, counts out; no
 * clock. Owned by whoever feeds it.
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

/* A pass, of which `prompts` were prompt chunks, took `us` > 0. A spike, unless it is the first
 * pass, if it took more than FT_SPIKE_RHO times the mean of the passes before it; its cause is the
 * part that grew most over its own mean, by as much as a tenth of what the pass took too long; else
 * OTHER. Counts the pass and returns the cause. A `us` of 0 or less is ignored, NONE. */
ft_spike_cause ft_spike_observe(ft_spikes *spikes, const ft_cost *cost, const ft_pass *pass,
                                const ft_pass *prompts, int64_t us);

#endif
