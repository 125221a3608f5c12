/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge's statistics: one line a metric. The struct, its sums, the Prometheus page, JSON
 * (base/stats.h) and docs/METRICS.md (tools/metrics-doc) are all generated from these lists.
 */
#ifndef FT_EDGE_STATS_H
#define FT_EDGE_STATS_H

#include "base/stats.h"
#include "spec/rule.h"
#include "wire/messages.h"

/* Why a text has its verification rule. F(NAME, "name"). */
#define FT_WHYS(F)                                                                         \
    F(ASKED, "asked")             /* the edge was told to take this rule */                \
    F(NOT_OFFERED, "not_offered") /* the server does not offer the one that was wanted */  \
    F(GREEDY, "greedy")           /* at temperature 0 all rules are `exact` */             \
    F(UNKNOWN, "unknown")         /* too little is known to choose (spec/rule_choice.h) */ \
    F(TRY, "try")                 /* to learn what is not known */                         \
    F(FASTER, "faster")           /* more tokens a second are expected */                  \
    F(REFUSED, "refused")         /* Open was refused: the text went on with this rule */

#define F(why, name) FT_WHY_##why,
typedef enum ft_why { FT_WHYS(F) FT_WHY_N } ft_why;
#undef F

extern const char *const ft_why_name[FT_WHY_N];

/* Of one generation, or sums over generations. F(KIND, field, "name", "help"). The kinds are those
 * of base/stats.h. The first list is what an answer of the HTTP API has in usage.foretoken. */
#define FT_GEN_USAGE_STATS(F)                                                               \
    F(COUNTER, rounds, "edge_rounds_total", "Drafts that were verified.")                   \
    F(COUNTER, drafted, "edge_drafted_total", "Tokens in these drafts.")                    \
    F(COUNTER, accepted, "edge_accepted_total", "Tokens in these drafts that became text.") \
    F(SECONDS, useful_draft_us, "edge_useful_draft_seconds_total",                          \
      "Time of drafting these drafts that went into tokens that became text.")              \
    F(SECONDS, wasted_draft_us, "edge_wasted_draft_seconds_total",                          \
      "Time of drafting these drafts that went into other tokens (WISP eq. (8)).")          \
    F(COUNTER, l_sum, "edge_lattice_l_total",                                               \
      "Sum of the l of the lattice points of these tokens, with rule ratio.")               \
    F(COUNTER, policy_rounds, "edge_policy_rounds_total",                                   \
      "Drafts whose length and l a draft policy chose.")                                    \
    F(COUNTER, predictor_rounds, "edge_predictor_rounds_total",                             \
      "Drafts that a predictor of rejections could end.")                                   \
    F(COUNTER, runs, "edge_runs_total", "Runs, in which the server decodes by itself.")     \
    F(COUNTER, run_tokens, "edge_run_tokens_total", "Tokens of these runs.")                \
    F(COUNTER, bytes_sent, "edge_sent_bytes_total", "Bytes to the server.")                 \
    F(COUNTER, bytes_received, "edge_received_bytes_total", "Bytes from the server.")       \
    F(COUNTER, point_bytes, "edge_point_bytes_total",                                       \
      "Bytes of lattice points in these drafts (rule ratio).")                              \
    F(GAUGE, uplink_bits_per_s, "edge_uplink_bits_per_second",                              \
      "Rate of the uplink, estimated from round trips; 0: not known.")                      \
    F(SECONDS, total_us, "edge_generation_seconds_total", "Time of generations.")           \
    F(SUMMARY, ttft, "edge_ttft_seconds", "Time to the first token.")                       \
    F(COUNTER, target_changed, "edge_target_changed_total",                                 \
      "Texts that went on with another target, each time.")                                 \
    F(COUNTER, fallback_tokens, "edge_fallback_tokens_total",                               \
      "Tokens that the fallback target in this process verified.")                          \
    F(COUNTER, switches, "edge_switches_total",                                             \
      "Texts that went from a server to the fallback target, or back, each time.")

#define FT_GEN_STATS(F)                                                                           \
    FT_GEN_USAGE_STATS(F)                                                                         \
    F(COUNTER, prompt_tokens, "edge_prompt_tokens_total", "Prompt tokens.")                       \
    F(COUNTER, cached_tokens, "edge_cached_tokens_total",                                         \
      "Prompt tokens that the server had in its prefix cache.")                                   \
    F(COUNTER, tokens, "edge_tokens_total",                                                       \
      "Generated tokens. End-of-text tokens are not counted.")                                    \
    F(COUNTER, prediction_accepted, "edge_prediction_accepted_total",                             \
      "Tokens of requests' predictions that are in the answers.")                                 \
    F(COUNTER, prediction_rejected, "edge_prediction_rejected_total",                             \
      "Tokens of requests' predictions that are not.")                                            \
    F(COUNTER, reconnects, "edge_reconnects_total", "Streams that were opened again.")            \
    F(SECONDS, draft_us, "edge_draft_seconds_total", "Time of drafting before drafts were sent.") \
    F(SECONDS, wait_us, "edge_wait_seconds_total",                                                \
      "Time of waiting for verdicts, proactive drafting included.")                               \
    F(COUNTER, depth_sum, "edge_draft_levels_total", "Levels of the drafts that were verified.")  \
    F(COUNTER, forwards, "edge_draft_forwards_total", "Passes of the draft model.")               \
    F(COUNTER, proactive_forwards, "edge_proactive_forwards_total",                               \
      "Passes of the draft model in proactive drafting.")                                         \
    F(COUNTER, proactive_nodes, "edge_proactive_nodes_total",                                     \
      "Tokens that proactive drafting computed.")                                                 \
    F(COUNTER, proactive_kept, "edge_proactive_kept_total",                                       \
      "Tokens that proactive drafting computed and that were kept after the verdict.")            \
    F(COUNTER, leaves, "edge_proactive_leaves_total",                                             \
      "Verdicts on trees with an expansion leaf (SpecEdge: head).")                               \
    F(COUNTER, aligned, "edge_proactive_aligned_total",                                           \
      "Verdicts whose accepted path ended in the expansion leaf.")                                \
    F(COUNTER, matched, "edge_proactive_matched_total",                                           \
      "Verdicts whose accepted path ended in the expansion leaf, and whose next token was "       \
      "drafted below it.")                                                                        \
    F(COUNTER, early_sent, "edge_early_sent_total", "Early drafts that were sent.")               \
    F(COUNTER, early_taken, "edge_early_taken_total",                                             \
      "Early drafts of which a part became the next round's tree.")

/* F(field, n, label, "name", "help"): as in serve/stats.h. */
#define FT_GEN_STATS_LABELLED(F)                                                              \
    F(texts, FT_RULES_MAX *FT_WHY_N, label_text, "edge_texts_total",                          \
      "Texts by their rule at their end, and by why they had it: asked, not_offered (by the " \
      "server), greedy, unknown (too little to choose), try, faster, refused (by the server).")

typedef struct ft_gen_stats {
#define F(field, n, label, name, help) uint64_t field[n];
    FT_GEN_STATS(FT_STAT_FIELD)
    FT_GEN_STATS_LABELLED(F)
#undef F
    /* Not in the list, as these are no sums: */
    ft_finish finish; /* STOP also for a stop string */
    const char *rule; /* of the text, at its end */
    ft_why rule_why;
    bool same_tokens; /* prompt, sampling and seed always give this text, even if it was opened
                         anew; false: only its distribution is the target's, or, with
                         target_changed, several targets made it */
    uint32_t retry_after_ms; /* with an error: the server's advice; 0: none */
} ft_gen_stats;

/* Counts a text that ended with this rule. One that is not in ft_rules_all is not counted. */
void ft_gen_count_text(ft_gen_stats *stats, const ft_rule *rule, ft_why why);

/* Ratios of the sums above. F(function, "name", "help"). */
#define FT_GEN_RATIOS(F)                                                           \
    F(ft_gen_wasted_share, "edge_wasted_draft_ratio",                              \
      "Share of the time of drafting that went into tokens that did not become"    \
      " text (WISP eq. (9)).")                                                     \
    F(ft_gen_align_ratio, "edge_proactive_align_ratio",                            \
      "P_align of SpecEdge's equation (1): aligned / expansion leaves.")           \
    F(ft_gen_match_ratio, "edge_proactive_match_ratio",                            \
      "P_match|align of SpecEdge's equation (1): matched / aligned.")              \
    F(ft_gen_proactive_gain, "edge_proactive_gain_tokens",                         \
      "Tokens that proactive drafting is expected to bring a round, by SpecEdge's" \
      " equation (1) with one expansion leaf.")

/* 0 without verdicts to count from. */
double ft_gen_wasted_share(const ft_gen_stats *stats);
double ft_gen_align_ratio(const ft_gen_stats *stats);
double ft_gen_match_ratio(const ft_gen_stats *stats);
/* SpecEdge eq. (1), P_align * P_match|align * (T_draft / H_expan - 1): the expected tokens a round
 * that need no more drafting. H_expan is 1; T_draft is the mean of proactive nodes an expansion
 * leaf. 0 without proactive drafting. */
double ft_gen_proactive_gain(const ft_gen_stats *stats);

/* Of an edge's API. */
#define FT_EDGE_STATS(F)                                                             \
    F(GAUGE, running, "edge_running", "Generations now.")                            \
    F(COUNTER, generations, "edge_generations_total", "Generations that ended.")     \
    F(COUNTER, failed, "edge_failed_total", "Generations that ended with an error.") \
    F(COUNTER, cancelled, "edge_cancelled_total", "Generations that were cancelled.")

typedef struct ft_edge_stats {
    FT_EDGE_STATS(FT_STAT_FIELD)
} ft_edge_stats;

/* Of the trace store; fields of ft_trace_stats. */
#define FT_EDGE_TRACE_STATS(F)                                                                 \
    F(COUNTER, rounds, "edge_trace_rounds_total", "With --trace: drafts written to the file.") \
    F(COUNTER, dropped, "edge_trace_dropped_total",                                            \
      "With --trace: drafts that were not written, because memory or disk was full.")

extern const ft_stat_list ft_gen_stat_list;        /* of ft_gen_stats */
extern const ft_stat_list ft_gen_usage_stat_list;  /* of ft_gen_stats */
extern const ft_stat_list ft_edge_stat_list;       /* of ft_edge_stats */
extern const ft_stat_list ft_edge_trace_stat_list; /* of ft_trace_stats */

/* Appends the ratios to the Prometheus page. FT_NOMEM. */
ft_status ft_gen_ratios_append(const ft_gen_stats *stats, ft_buf *out);

#endif
