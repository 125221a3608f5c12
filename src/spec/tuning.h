/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning constants of src/spec, by the file that uses them (base/tuning.h): when and how much
 * to speculate (control.h), how deep (depth.h), how a tree grows (growth.h), and when early drafts
 * are sent (early_policy.h).
 *
 * Not here: sizes of arrays, guards against a division by zero, and limits.
 *
 * Below each constant: what half and double of it do to tokens/s, in the condition where that is
 * surest. "< 1 %": surely less in all conditions. "not met": no condition depends on it. "unclear":
 * up to 48 pairs of lives do not tell it from nothing. Of small figures some are chance: each is
 * the surest of 17. By `foretoken bench ablate`, the demo's models and Spec-Bench prompts;
 * docs/BENCHMARKS.md says how to read its rows.
 */
#ifndef FT_SPEC_TUNING_H
#define FT_SPEC_TUNING_H

#include "base/tuning.h"

/* control_model.c: what things take. */
#define FT_SPEC_TUNING_TIMES(T, g)                                                                 \
    T(g, REAL, SCALED, smooth, 0.3, "share of a new time; half the way in two rounds")             \
    /* half -12.2 % tide, double -5.1 % dear */                                                    \
    T(g, REAL, SCALED, smooth_rtt, 0.2, "share of a new round-trip time and of other slow means")  \
    /* half unclear, double -3.5 % jitter */                                                       \
    T(g, REAL, SCALED, noise, 0.15, "scatter of a measured time, relative")                        \
    /* half unclear, double -1.2 % warm */                                                         \
    T(g, REAL, SCALED, slope_doubt, 0.05, "first doubt of a line's slope: change a unit of x / y") \
    /* half unclear, double +1.8 % relay */                                                        \
    T(g, REAL, SCALED, slope_drift, 0.002, "what that slope may change from one time to the next") \
    /* half -2.0 % dear, double unclear */                                                         \
    T(g, REAL, SCALED, slope_prior, 0.04, "first guess: a node, over a verification without any")  \
    /* half +1.2 % far, double -10.2 % weak */                                                     \
    T(g, REAL, SCALED, others, 0.2, "of a verification: shorter work of others is none")           \
    /* half not met, double < 1 % */                                                               \
    T(g, COUNT, SCALED, alone_most, 2, "rounds without others until nobody keeps the server busy") \
    /* half unclear, double unclear */                                                             \
    T(g, REAL, SCALED, others_margin, 0.01, "of the time: drafts are sent so much sooner...")      \
    /* half unclear, double -1.7 % relay */                                                        \
    T(g, REAL, SCALED, others_off, 1.5, "...and by so many times its mean deviation")              \
    /* half unclear, double -4.0 % relay */                                                        \
    T(g, REAL, SCALED, gate, 3, "a time so many standard deviations off is chance, once")          \
    /* half -1.4 % disk, double unclear */                                                         \
    T(g, REAL, SCALED, cold, 2, "the first tree took so many times longer: its caches were cold")  \
    /* half unclear, double not met */

/* control_model.c: how much is accepted. */
#define FT_SPEC_TUNING_ACCEPT(T, g)                                                         \
    T(g, REAL, FROM_ONE, fade, 0.97, "share of the counts of misses kept at a level")       \
    /* half -3.7 % dear, double -2.4 % pipeline */                                          \
    T(g, REAL, SCALED, miss_prior, 0.4, "chance of a miss before any was seen")             \
    /* half unclear, double -10.2 % weak */                                                 \
    T(g, REAL, SCALED, prior_count, 3, "levels that miss_prior counts for")                 \
    /* half -1.2 % dear, double unclear */                                                  \
    T(g, REAL, FROM_ONE, trees_fade, 0.9, "share of the sums of past trees kept at a tree") \
    /* half unclear, double unclear */                                                      \
    T(g, REAL, SCALED, width_gain, 0.34, "what wider levels gain, see control_model.c")     \
    /* as a factor of 0.85 it was half -5.2 % cold, double +5.3 % weak */

/* control.c: which tree. The slack: SpecEdge's 94.2 ms leave room for 5 forwards of 11 ms beside
 * 40 ms of network. The first tree is short, because its caches may be cold. */
#define FT_SPEC_TUNING_TREES(T, g)                                                            \
    T(g, COUNT, SCALED, first_depth, 2, "levels of the very first tree, a chain")             \
    /* half -4.9 % relay, double +1.2 % cold */                                               \
    T(g, REAL, FROM_ONE, pipeline_slack, 1.02, "times a verification that drafting may take") \
    /* half < 1 %, double unclear */

/* control.c: trees or runs. */
#define FT_SPEC_TUNING_MODES(T, g)                                                              \
    T(g, REAL, FROM_ONE, enter, 1.1, "times better than a run a tree must look to begin with")  \
    /* half < 1 %, double -2.1 % even (of six conditions) */                                    \
    T(g, REAL, SCALED, enter_tok, 100, "tokens' time until this margin begins to fall...")      \
    /* half < 1 %, double < 1 % (of six conditions) */                                          \
    T(g, REAL, SCALED, enter_least, 0.4, "...down to this share of it")                         \
    /* half < 1 %, double < 1 % (of six conditions) */                                          \
    T(g, COUNT, SCALED, run_first, 6, "tokens of the very first run")                           \
    /* half unclear, double -2.6 % dear */                                                      \
    T(g, COUNT, SCALED, run_tell, 4, "tokens of a run between trees that tells what one takes") \
    /* half unclear, double -19.4 % tide */                                                     \
    T(g, COUNT, SCALED, run_min, 8, "tokens of a run at least")                                 \
    /* half -4.1 % ebb, double -21.7 % tide */                                                  \
    T(g, COUNT, SCALED, run_max, 64, "tokens of a run at most")                                 \
    /* half not met, double not met */                                                          \
    T(g, REAL, SCALED, run_rtts, 2, "round-trip times that a run should last")                  \
    /* half unclear, double unclear */                                                          \
    T(g, REAL, SCALED, keeps, 0.8, "share of a token's promised time that a run may take")      \
    /* half not met, double not met */                                                          \
    T(g, REAL, SCALED, must, 1.5, "times slower than a run a tree may look that must be tried") \
    /* half not met, double not met */                                                          \
    T(g, COUNT, SCALED, must_trees, 4, "trees tried until it is believed how slow they look")   \
    /* half not met, double not met */

/* control.c: what is tried although the estimates say no. */
#define FT_SPEC_TUNING_TRIES(T, g)                                                              \
    T(g, REAL, SCALED, shadow_share, 0.02, "share of the time for drafts that are not sent")    \
    /* half -2.0 % jitter, double +2.7 % far */                                                 \
    T(g, COUNT, SCALED, shadow_depth, 4, "levels of such a draft")                              \
    /* half +1.6 % relay, double unclear */                                                     \
    T(g, REAL, SCALED, probe_first, 0.2, "that share at first; it falls with the root of time") \
    /* half unclear, double unclear */                                                          \
    T(g, REAL, SCALED, probe_share, 0.02, "share of the time that tried trees may lose")        \
    /* half +1.3 % weak, double -1.1 % dear */                                                  \
    T(g, REAL, SCALED, probe_grow, 2, "times the rows of past trees that a tried one may have") \
    /* half unclear, double unclear; tries of any size -3.3 % kink */                           \
    T(g, REAL, FROM_ONE, kept, 0.5, "share of an earlier process's counts that counts")         \
    /* half not met, double not met */

/* depth.c: how deep a draft is. */
#define FT_SPEC_TUNING_DEPTH(T, g)                                                        \
    T(g, REAL, FROM_ONE, fade, 0.97, "share of the rounds' rate kept at a round")         \
    /* half unclear, double unclear */                                                    \
    T(g, REAL, SCALED, yield, 0.6, "tokens a forward brings / the chance of its leaves")  \
    /* half +1.0 % weak, double -1.3 % weak */                                            \
    T(g, REAL, SCALED, yield_count, 10, "levels that this first guess counts for")        \
    /* half unclear, double unclear */                                                    \
    T(g, REAL, SCALED, sure_tok, 8, "tokens by trees until their worth alone sizes them") \
    /* half unclear, double unclear */                                                    \
    T(g, REAL, SCALED, spare, 1.4, "times what is promised a round should bring")         \
    /* half not met, double not met */                                                    \
    T(g, REAL, SCALED, catch_up, 4, "rounds over which a text gets what it lacks")        \
    /* half not met, double not met */                                                    \
    T(g, REAL, SCALED, surplus, 3, "times the chance that a node beyond that needs")      \
    /* half not met, double not met */

/* growth.c: how a tree grows. On the demo pair a ninth child is the target's token in fewer than
 * one position of a hundred. The calibration remembers a few hundred tokens; the fits of `foretoken
 * bench noise` over pairs lie between 0.9 and 2.3. */
#define FT_SPEC_TUNING_GROWTH(T, g)                                                                \
    T(g, COUNT, SCALED, branch, 8, "children considered a node")                                   \
    /* half -3.7 % weak, double -4.4 % warm */                                                     \
    T(g, SINGLE, SCALED, proactive_odds, 200,                                                      \
      "proactive drafting ends where one text in so many goes")                                    \
    /* half -1.9 % near, double +1.4 % cold */                                                     \
    T(g, SINGLE, FROM_ONE, weight_fade, 0.997f, "share of what calibration has seen kept a token") \
    /* half -1.1 % relay, double +1.6 % near */                                                    \
    T(g, SINGLE, SCALED, weight_prior, 3.0f, "weight of the source's own word")                    \
    /* half -9.6 % tide, double -1.6 % small */

/* early_policy.c: when an early draft is sent. What makes good a tree's place is among its first
 * nodes, and with early drafts a round is to take at most half as many bytes again. */
#define FT_SPEC_TUNING_EARLY(T, g)                                                            \
    T(g, REAL, FROM_ONE, share_nodes, 0.75, "nodes of one, of those that a tree may have")    \
    /* half unclear, double -1.5 % dear */                                                    \
    T(g, REAL, SCALED, gain_min, 0.05, "tokens that sending one should bring, for its bytes") \
    /* half unclear, double -1.4 % pipeline */                                                \
    T(g, REAL, SCALED, margin, 0.04, "of the time to the verdict, by which it is early")      \
    /* half < 1 %, double unclear */                                                          \
    T(g, REAL, SCALED, smooth, 0.2, "share of an ordinary draft in what is known of them")    \
    /* half +2.8 % tide, double unclear */

/* lookup.c: how far matches are trusted. */
#define FT_SPEC_TUNING_LOOKUP(T, g)                                                            \
    T(g, SINGLE, SCALED, prior, 2.0f, "tokens that the first guess at a match counts for")     \
    /* half not met, double not met */                                                         \
    T(g, SINGLE, SCALED, prompt, 4.0f, "tokens that the prompt's matches count for behind it") \
    /* half not met, double not met */                                                         \
    T(g, SINGLE, FROM_ONE, fade, 0.97f, "share of what was seen of matches kept at the next")  \
    /* half not met, double not met */

#define FT_SPEC_TUNING_GROUPS(G)     \
    G(times, FT_SPEC_TUNING_TIMES)   \
    G(accept, FT_SPEC_TUNING_ACCEPT) \
    G(trees, FT_SPEC_TUNING_TREES)   \
    G(modes, FT_SPEC_TUNING_MODES)   \
    G(tries, FT_SPEC_TUNING_TRIES)   \
    G(depth, FT_SPEC_TUNING_DEPTH)   \
    G(growth, FT_SPEC_TUNING_GROWTH) \
    G(early, FT_SPEC_TUNING_EARLY)   \
    G(lookup, FT_SPEC_TUNING_LOOKUP)

typedef struct ft_spec_tuning {
    FT_SPEC_TUNING_GROUPS(FT_TUNING_STRUCT)
} ft_spec_tuning;

extern const ft_tuning_table ft_spec_tuning_table;

/* In use; the table's values unless somebody replaced them (base/tuning.h says who may). */
extern const ft_spec_tuning *ft_spec_tune;

#endif
