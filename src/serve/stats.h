/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier's statistics: one entry for each metric. These lists generate the struct, the
 * Prometheus page, the page's reader (base/stats.h) and docs/METRICS.md (tools/metrics-doc).
 */
#ifndef FT_SERVE_STATS_H
#define FT_SERVE_STATS_H

#include "base/stats.h"
#include "sched/late.h"
#include "sched/promise.h"
#include "sched/spike.h"

/* F(KIND, field, "name", "help"). The kinds are those of base/stats.h. */
#define FT_VERIFIER_STATS(F)                                                                       \
    F(GAUGE, sessions, "sessions", "Sessions now, detached ones included.")                        \
    F(GAUGE, sessions_detached, "sessions_detached",                                               \
      "Sessions now that have lost their stream and wait for a resume.")                           \
    F(COUNTER, sessions_opened, "sessions_opened_total", "Sessions opened.")                       \
    F(COUNTER, sessions_gone, "sessions_ended_total", "Sessions that have ended.")                 \
    F(COUNTER, sessions_refused, "sessions_refused_total",                                         \
      "Opens refused for lack of room. The client was told to try again later.")                   \
    F(GAUGE, rounds_waiting, "rounds_waiting",                                                     \
      "Rounds and prompts that the last pass left to later ones.")                                 \
    F(GAUGE, texts_running, "texts_running", "Sessions now with a stream and an unfinished text.") \
    F(COUNTER, rounds, "rounds_total", "Verdicts. A run has one for each of its passes.")          \
    F(COUNTER, tokens, "tokens_total", "Tokens of text that the verdicts made.")                   \
    F(COUNTER, run_tokens, "run_tokens_total",                                                     \
      "Tokens of text that the server made by itself, in rounds without an edge's draft.")         \
    F(COUNTER, drafted, "drafted_tokens_total", "Tokens in edges' drafts.")                        \
    F(COUNTER, accepted, "accepted_tokens_total",                                                  \
      "Tokens in edges' drafts that became text. Divided by drafted tokens: acceptance rate.")     \
    F(COUNTER, early_taken, "early_taken_total",                                                   \
      "Early drafts of which a part became the next round's tree.")                                \
    F(COUNTER, early_missed, "early_missed_total", "Early drafts that did not fit their verdict.") \
    F(COUNTER, early_late, "early_late_total", "Early drafts that came after their verdict.")      \
    F(COUNTER, own_drafted, "own_drafted_tokens_total",                                            \
      "Tokens in trees that the server drafted itself (serve -md).")                               \
    F(COUNTER, own_accepted, "own_accepted_tokens_total",                                          \
      "Tokens in these trees that became text.")                                                   \
    F(COUNTER, own_forwards, "own_draft_passes_total", "Passes of the server's draft model.")      \
    F(COUNTER, own_rows, "own_draft_rows_total", "Rows in passes of the server's draft model.")    \
    F(COUNTER, own_failures, "own_draft_failures_total",                                           \
      "Failures of the server's drafting. It pauses and tries again; texts go on without.")        \
    F(COUNTER, failures, "pass_failures_total",                                                    \
      "Passes that failed. The work of a failed pass is computed again, by halves.")               \
    F(SIZES, passes, "pass_rows", "Rows of a forward pass.")                                       \
    F(SIZES, chunks, "prefill_chunk_rows", "Rows of a prompt's chunk.")                            \
    F(COUNTER, passes_alone, "passes_alone_total",                                                 \
      "Passes on one thread where there are several, as one was faster.")                          \
    F(COUNTER, heads, "head_runs_total", "Runs of the output head.")                               \
    F(COUNTER, head_rows, "head_rows_total", "Rows whose logits were computed.")                   \
    F(WORK, forward_us, "pass_seconds_total",                                                      \
      "Time in forward passes up to the output head, making the batch included. Where weights "    \
      "are on devices the head is part of the pass.")                                              \
    F(WORK, head_us, "head_seconds_total", "Time in runs of the output head.")                     \
    F(WORK, judge_us, "judge_seconds_total",                                                       \
      "Time in drawing tokens and walking trees. Passes and head are not in it.")                  \
    F(WORK, own_us, "own_draft_seconds_total",                                                     \
      "Time that the server drafted itself. No pass of the target runs meanwhile.")                \
    F(WORK, rest_us, "engine_rest_seconds_total",                                                  \
      "Time that the engine spent on everything else: messages, verdicts, callbacks.")             \
    F(WAIT, idle_us, "engine_idle_seconds_total",                                                  \
      "Time that the engine waited although some client had a stream and an unfinished text: all " \
      "of them were drafting, or their messages were on the way.")                                 \
    F(WAIT, vacant_us, "engine_vacant_seconds_total",                                              \
      "Time that the engine waited while no client had an unfinished text.")                       \
    F(SECONDS, predicted_us, "pass_predicted_seconds_total",                                       \
      "Time that passes and head were expected to take.")                                          \
    F(SECONDS, predict_miss_us, "pass_prediction_error_seconds_total",                             \
      "Sum over passes of the absolute difference between expected and measured time.")            \
    F(RATIO, cost_error, "pass_prediction_error_ratio",                                            \
      "Recent mean of the absolute difference between expected and measured time, over measured. " \
      "The last pass weighs a tenth. The estimator learns from each pass: an error that stays is " \
      "noise of the machine.")                                                                     \
    F(RATIO, cost_bias, "pass_prediction_bias_ratio",                                              \
      "The same mean of signed differences: above 0 where passes are faster than expected. A "     \
      "bias that stays has a cause that the estimator does not know.")                             \
    F(SECONDS, queue_us, "round_queue_seconds_total",                                              \
      "Sum over rounds of the time from a draft's arrival to its pass.")                           \
    F(SECONDS, verify_us, "round_verify_seconds_total",                                            \
      "Sum over rounds of the time from the pass to the verdict.")                                 \
    F(COUNTER, passes_split, "passes_split_total",                                                 \
      "Passes that left half of the waiting verifications to the next pass, because otherwise "    \
      "the engine would have had nothing to do after them.")                                       \
    F(COUNTER, streamed_bytes, "streamed_bytes_total",                                             \
      "Bytes of the target's weights that were read from its file (serve --memory).")              \
    F(SECONDS, streamed_wait_us, "streamed_wait_seconds_total",                                    \
      "Time that passes waited for these reads.")                                                  \
    F(GAUGE, kv_blocks, "kv_blocks", "Blocks of 16 tokens in the KV pool.")                        \
    F(GAUGE, kv_blocks_free, "kv_free_blocks",                                                     \
      "Blocks that no session holds, those with cached text included.")                            \
    F(GAUGE, kv_blocks_cached, "kv_cached_blocks", "Free blocks that hold cached text.")           \
    F(RATIO, kv_used, "kv_used_ratio", "Share of the KV pool that sessions hold, 0 to 1.")         \
    F(COUNTER, kv_released, "kv_released_total",                                                   \
      "Times that a session lost its KV to another. It must be computed again.")                   \
    F(COUNTER, prefix_lookup_tok, "prefix_lookup_tokens_total",                                    \
      "Tokens looked up in the prefix cache: a whole text each time that its KV is empty.")        \
    F(COUNTER, prefix_hit_tok, "prefix_hit_tokens_total",                                          \
      "Tokens that were looked up and found in the prefix cache.")                                 \
    F(COUNTER, prefix_evicted, "prefix_evicted_blocks_total", "Cached blocks that were evicted.")

/* F(field, n, label, "name", "help"): a counter with n values. `label` names the function in
 * stats.c that writes their labels. */
#define FT_VERIFIER_STATS_LABELLED(F)                                                            \
    F(spikes, FT_SPIKE_CAUSES, label_cause, "pass_spikes_total",                                 \
      "Passes that took more than 1.5 times the mean of the 32 before them (WISP eq. (21)), by " \
      "cause: cold_start (prompts, or texts whose KV is computed again), long_context, "         \
      "large_batch (rows of verifications), other (nothing in the pass explains it).")           \
    F(slo_rounds, FT_SLO_CLASSES, label_class, "slo_rounds_total",                               \
      "Verdicts on texts with a promised token speed, by that speed.")                           \
    F(slo_rounds_met, FT_SLO_CLASSES, label_class, "slo_rounds_met_total",                       \
      "Those of these verdicts that came within their time budget (WISP eq. (6)).")              \
    F(slo_rounds_late, FT_SLO_CLASSES *FT_LATE_CAUSES, label_late, "slo_rounds_late_total",      \
      "The other ones of these verdicts, by speed and cause. network: drafting and the network " \
      "had used up the budget before the draft came. spike: the pass was one. long_pass: it "    \
      "took longer than what was left of the budget then. waiting: the verdict would have been " \
      "in time if the pass had begun at once. The first cause that fits counts.")                \
    F(slo_texts, FT_SLO_CLASSES, label_class, "slo_texts_total",                                 \
      "Finished texts with a promised token speed, by that speed.")                              \
    F(slo_texts_met, FT_SLO_CLASSES, label_class, "slo_texts_met_total",                         \
      "Those of these texts that were as fast as promised from their Open on (WISP eq. (20)).")  \
    F(slo_texts_met_from_first, FT_SLO_CLASSES, label_class, "slo_texts_met_from_first_total",   \
      "Those of these texts whose tokens behind the first verdict came as fast as promised: "    \
      "reading the prompt does not count.")

/* The same, a gauge. */
#define FT_VERIFIER_GAUGES_LABELLED(F)                                                       \
    F(class_sessions, FT_SLO_CLASSES + 1, label_class_or_none, "class_sessions",             \
      "Sessions now, detached ones included, by the token speed that they were promised; 0:" \
      " best effort.")                                                                       \
    F(class_waiting, FT_SLO_CLASSES + 1, label_class_or_none, "class_rounds_waiting",        \
      "Rounds and prompts that the last pass left to later ones, by the token speed that"    \
      " their texts were promised; 0: best effort.")                                         \
    F(class_possible, FT_SLO_CLASSES, label_class, "promises_possible",                      \
      "Texts that could be promised a token speed now, by that speed: so many of that speed" \
      " alone, beside the open texts. The server's time and its places for sessions limit"   \
      " them; the KV pool may allow fewer.")

typedef struct ft_verifier_stats {
#define F(field, n, label, name, help) uint64_t field[n];
    FT_VERIFIER_STATS(FT_STAT_FIELD)
    FT_VERIFIER_STATS_LABELLED(F)
    FT_VERIFIER_GAUGES_LABELLED(F)
#undef F
    float slo_tokens_per_s[FT_SLO_CLASSES]; /* [n_slo] the speed of each class */
    uint32_t n_slo;
} ft_verifier_stats;

extern const ft_stat_list ft_verifier_stat_list;

/* Time that the engine spent on verification: passes, head and walks. */
uint64_t ft_verifier_stats_verify_us(const ft_verifier_stats *stats);
/* Time that the engine worked. Time that it waited is not in it. */
uint64_t ft_verifier_stats_busy_us(const ft_verifier_stats *stats);

/* The counts of a key (serve --keys). F(KIND, field, labels, "name", "help"): a field's sample has
 * the label `key` and `labels`. help NULL: one more sample of the metric above. */
#define FT_KEY_STATS(F)                                                                            \
    F(GAUGE, sessions, "", "key_sessions", "Sessions of a key now, detached ones included.")       \
    F(COUNTER, opened, "", "key_sessions_opened_total", "Sessions that a key opened.")             \
    F(COUNTER, forbidden, ",status=\"forbidden\"", "key_opens_refused_total",                      \
      "Opens of a key that were refused, by status: forbidden (a faster promise than the key may " \
      "ask for), exhausted (all of its sessions or the server's room in use; told to try again "   \
      "later).")                                                                                   \
    F(COUNTER, exhausted, ",status=\"exhausted\"", "key_opens_refused_total", NULL)

#endif
