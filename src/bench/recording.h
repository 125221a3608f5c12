/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded drafts: a table of what a draft model said, from a hash of a text to the ranked children
 * behind its last token. Sources over a recording look there first. What is missing the draft model
 * computes, if the recording has one, and the table learns it; so a recording is filled by
 * drafting, and a drafter over a full one drafts what it would over the engine: the same trees by
 * the same forwards, at any depth, budget and amount of drafting ahead. (But for the KV pool: a
 * recording is never full.) Without a model a missing node has no children.
 *
 * The children depend on the rule and on the sampling, which are the hash's key, and under some
 * rules on the round; their evidence is kept with them. A recording holds texts of any number of
 * prompts, samplings and rules, of one draft model. 64 bits of hash: of a
 * million nodes two are confused with probability 3e-8, and a draft never decides what text comes
 * out.
 *
 * Memory: 8 bytes a child, and 32 bytes a slot of a table of which three eighths to three quarters
 * are in use: with 8 children a node some 120 bytes.
 *
 * Threads: a recording is shared by any number of threads. A source is one thread's at a time.
 * Locks, in this order: the model's (a source's model is used under it alone), then the table's.
 */
#ifndef FT_BENCH_RECORDING_H
#define FT_BENCH_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "spec/draft_source.h"

typedef struct ft_recording ft_recording;

/* An empty recording of `model`'s sources, which from now on are used under the recording's lock
 * alone: nobody else may use their engine (until ft_recording_drop_model). `most`: children kept of
 * a node; drafts must not ask for more (ft_draft_params.branch); 0: FT_DRAFT_RANKED. Asks the model
 * for one source, to learn its limits. FT_NOMEM and the model's errors leave *out NULL. */
FT_WARN_UNUSED ft_status ft_recording_create(const ft_draft_source_factory *model, uint32_t most,
                                             ft_error *err, ft_recording **out);
/* All sources must have been destroyed, but not the model's engine. NULL is legal. */
void ft_recording_destroy(ft_recording *recording);

/* From now on it only replays: what is missing stays missing. The model is not used again, once
 * sources made before are destroyed. */
void ft_recording_drop_model(ft_recording *recording);

/* An empty text for a drafter that draws by `rule` (borrowed) and as `s` says (copied). Its model's
 * source is made when something is missing for the first time, or one goes on that an earlier text
 * with the same beginning has left. Any thread. FT_INVALID (sampling),
 * FT_NOMEM leave *out NULL. */
FT_WARN_UNUSED ft_status ft_recording_source(ft_recording *recording, const ft_rule *rule,
                                             const ft_sampling *s, ft_error *err,
                                             ft_draft_source **out);

typedef struct ft_recording_stats {
    uint64_t nodes; /* in the table */
    uint64_t hits, misses;
    uint64_t lost; /* nodes for which there was no memory */
    size_t bytes;
} ft_recording_stats;
/* Sums since creation; any thread. */
void ft_recording_get_stats(ft_recording *recording, ft_recording_stats *out);

#endif
