/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning constants of src/spec, by the file that uses them (base/tuning.h): when and how much
 * to speculate (control.h), how deep (depth.h), for how long others keep the server busy (busy.h),
 * how a tree grows (growth.h), and when early drafts are sent (early_policy.h).
 *
 * Not here: sizes of arrays, guards against a division by zero, and limits.
 *
 * Below each constant: what half and double of it do to tokens/s, in the condition where that is
 * surest. "< 1 %": surely less in all conditions that were tried. "not met": no condition depends
 * on it. "unclear": 8 to 64 pairs of lives do not tell it from nothing; of small figures some are
 * chance. By `foretoken bench ablate`, the demo's models and Spec-Bench prompts;
 * docs/BENCHMARKS.md says how to read its rows.
 */
#ifndef FT_SPEC_TUNING_H
#define FT_SPEC_TUNING_H

#include "base/tuning.h"

/* control.c: what things take. */
#define FT_SPEC_TUNING_TIMES(T, g)                                                                 \
    T(g, REAL, SCALED, smooth, 0.3, "share of a new time; half the way in two rounds")             \
    /* half -8.4 % tide, double -7.9 % small */                                                    \
    T(g, REAL, SCALED, smooth_rtt, 0.2, "share of a new round-trip time and of other slow means")  \
    /* half unclear, double -6.0 % jitter */                                                       \
    T(g, REAL, SCALED, noise, 0.15, "scatter of a measured time, relative")                        \
    /* half unclear, double -3.5 % kinds */                                                        \
    T(g, REAL, SCALED, slope_doubt, 0.05, "first doubt of a line's slope: change a unit of x / y") \
    /* half -4.1 % kinds, double +2.8 % slow */                                                    \
    T(g, REAL, SCALED, slope_drift, 0.002, "what that slope may change from one time to the next") \
    /* half unclear, double -8.0 % tide */                                                         \
    T(g, REAL, SCALED, slope_prior, 0.04, "first guess: a node, over a verification without any")  \
    /* half +2.1 % slow, double -3.7 % warm */                                                     \
    T(g, REAL, SCALED, outlier, 3,                                                                 \
      "a time counts as at most so far above its line, over the line")                             \
    /* half +1.9 % warm, double unclear */                                                         \
    T(g, REAL, SCALED, run_outlier, 4, "a run's token counts as at most so many times the usual")  \
    /* half -12.3 % tide, double < 1 % */                                                          \
    T(g, REAL, SCALED, cold, 2, "the first tree took so many times longer: its caches were cold")  \
    /* half +1.0 % warm, double < 1 % */

/* control.c: how much is accepted. */
#define FT_SPEC_TUNING_ACCEPT(T, g)                                                              \
    T(g, REAL, FROM_ONE, fade, 0.99, "share of the counts of misses kept at an observation")     \
    /* half unclear, double unclear */                                                           \
    T(g, REAL, FROM_ONE, fade_recent, 0.92, "the same of recent ones")                           \
    /* half unclear, double unclear */                                                           \
    T(g, REAL, SCALED, changed, 3, "deviations between recent and all: then recent replace all") \
    /* half -7.2 % pipeline, double unclear */                                                   \
    T(g, REAL, FROM_ONE, fade_shape, 0.995, "the same as fade, of ratios by width and level")    \
    /* half unclear, double unclear */                                                           \
    T(g, REAL, SCALED, miss_prior, 0.4, "chance of a miss before any was seen")                  \
    /* half unclear, double +3.0 % weak */                                                       \
    T(g, REAL, FROM_ONE, width_gain, 0.85, "misses with twice the nodes a level / with once")    \
    /* half -2.6 % near, double -3.9 % dear */                                                   \
    T(g, REAL, SCALED, prior_count, 3, "observations that miss_prior counts for")                \
    /* half unclear, double unclear */                                                           \
    T(g, REAL, SCALED, shape_count, 8, "expected misses that a ratio's prior counts for")        \
    /* half unclear, double -2.6 % kinds */                                                      \
    T(g, REAL, SCALED, text_count, 6, "observations that are kept of earlier texts")             \
    /* half unclear, double +2.4 % weak */

/* control.c: which tree. The slack: SpecEdge's 94.2 ms leave room for 5 forwards of 11 ms beside
 * 40 ms of network. The first tree is short, as a short one pays soonest and costs least if it does
 * not. */
#define FT_SPEC_TUNING_TREES(T, g)                                                                \
    T(g, REAL, FROM_ONE, stick, 0.97, "another tree must take less than so much of the time")     \
    /* half unclear, double +1.5 % dear */                                                        \
    T(g, COUNT, SCALED, trial_every, 20, "rounds until a neighbour of the present tree is tried") \
    /* half +2.7 % kinds, double unclear */                                                       \
    T(g, REAL, FROM_ONE, trial_worst, 1.25, "...if it looks at most so many times worse")         \
    /* half unclear, double unclear */                                                            \
    T(g, COUNT, SCALED, width_limit, 8, "nodes a level, unless the drafter says")                 \
    /* half unclear, double +3.6 % weak */                                                        \
    T(g, COUNT, SCALED, first_depth, 2, "levels of the very first tree, a chain")                 \
    /* half +3.0 % weak, double unclear */                                                        \
    T(g, REAL, SCALED, busy_on, 0.3, "share of rounds that waited for others: keep them busy...") \
    /* half not met, double not met */                                                            \
    T(g, REAL, SCALED, busy_off, 0.05, "...until the share is below this")                        \
    /* half not met, double not met */                                                            \
    T(g, REAL, SCALED, queued, 0.2, "of a verification: a shorter wait is no pass of others")     \
    /* half not met, double not met */                                                            \
    T(g, REAL, FROM_ONE, pipeline_slack, 1.02, "times a verification that drafting may take")     \
    /* half not met, double not met */

/* control.c: trees or runs. */
#define FT_SPEC_TUNING_MODES(T, g)                                                               \
    T(g, REAL, FROM_ONE, enter, 1.1, "times better than a run a tree must look to begin with")   \
    /* half +1.8 % weak, double -5.2 % kinds */                                                  \
    T(g, REAL, SCALED, loss_share, 0.02, "share of the time that may be lost with trees")        \
    /* half not met, double unclear */                                                           \
    T(g, REAL, SCALED, loss_rounds, 2, "rounds with trees that may be lost at once...")          \
    /* half unclear, double not met */                                                           \
    T(g, REAL, SCALED, loss_tokens, 8, "...and tokens of runs beside them")                      \
    /* half not met, double not met */                                                           \
    T(g, COUNT, SCALED, first_runs, 3, "runs that the first one counts for, before trees begin") \
    /* half unclear, double unclear */                                                           \
    T(g, COUNT, SCALED, runs_least, 2, "runs before trees may begin again")                      \
    /* half unclear, double unclear */                                                           \
    T(g, COUNT, SCALED, run_first, 6, "tokens of the very first run")                            \
    /* half unclear, double -1.8 % turns */                                                      \
    T(g, COUNT, SCALED, run_min, 8, "tokens of a run at least")                                  \
    /* half -1.8 % turns, double -4.9 % kinds */                                                 \
    T(g, COUNT, SCALED, run_max, 64, "tokens of a run at most")                                  \
    /* half not met, double not met */                                                           \
    T(g, REAL, SCALED, run_rtts, 2, "round-trip times that a run should last")                   \
    /* half unclear, double unclear */

/* control.c: what is tried although the estimates say no. */
#define FT_SPEC_TUNING_TRIES(T, g)                                                                \
    T(g, REAL, SCALED, hope, 0.02, "chance of a miss that the best of drafts is thought to have") \
    /* half not met, double not met */                                                            \
    T(g, REAL, SCALED, shadow_share, 0.02, "share of the time for drafts that are not sent")      \
    /* half -1.9 % ebb, double unclear */                                                         \
    T(g, COUNT, SCALED, shadow_depth, 4, "levels of such a draft")                                \
    /* half unclear, double unclear */                                                            \
    T(g, COUNT, SCALED, run_every, 256, "rounds with trees until a run is measured again...")     \
    /* half unclear, double not met */                                                            \
    T(g, COUNT, SCALED, run_often, 64, "...where trees are less than run_near times better...")   \
    /* half unclear, double +2.5 % weak */                                                        \
    T(g, COUNT, SCALED, run_soon, 16, "...where no run is known for the server's present load")   \
    /* half unclear, double unclear */                                                            \
    T(g, REAL, FROM_ONE, run_near, 1.4,                                                           \
      "times that trees are better: run_often above, else every")                                 \
    /* half unclear, double -1.5 % near */                                                        \
    T(g, REAL, FROM_ONE, run_far, 3, "times that trees are better: no run is measured above")     \
    /* half unclear, double < 1 % */                                                              \
    T(g, REAL, FROM_ONE, changed_load, 1.4, "times that verifications are slower or faster")      \
    /* half < 1 %, double < 1 % */                                                                \
    T(g, COUNT, SCALED, probe_first, 16, "runs until a tree is tried; doubles each time")         \
    /* half unclear, double unclear */                                                            \
    T(g, COUNT, SCALED, probe_last, 1024, "runs between such trees at most")                      \
    /* half not met, double not met */

/* depth.c: how deep a draft is. share_proactive is between the two best of the values tried (0.5,
 * 0.7, 1) on pairs of devices and networks. */
#define FT_SPEC_TUNING_DEPTH(T, g)                                                       \
    T(g, REAL, FROM_ONE, fade, 0.97, "share of the rounds' rate kept at a round")        \
    /* */                                                                                \
    T(g, REAL, SCALED, yield, 0.6, "tokens a forward brings / the chance of its leaves") \
    /* */                                                                                \
    T(g, REAL, SCALED, smooth, 0.3, "share of a new time")                               \
    /* */                                                                                \
    T(g, REAL, FROM_ONE, share_proactive, 0.65,                                          \
      "of a forward's gain, a level: the rest comes of proactive drafting anyway")       \
    /* */

/* busy.c: until when others keep the server busy. One round without others may come of two sessions
 * that have changed places. By off_times hardly one draft in ten comes too late. */
#define FT_SPEC_TUNING_BUSY(T, g)                                                           \
    T(g, REAL, SCALED, weight, 0.3, "share of a new time")                                  \
    /* half not met, double unclear */                                                      \
    T(g, REAL, SCALED, others, 0.2, "of a verification: shorter work is no pass of others") \
    /* half not met, double not met */                                                      \
    T(g, COUNT, SCALED, alone_most, 2, "rounds without others until nobody keeps it busy")  \
    /* half not met, double not met */                                                      \
    T(g, REAL, SCALED, margin, 0.01, "of the time: drafts are sent so much sooner...")      \
    /* half not met, double < 1 % */                                                        \
    T(g, REAL, SCALED, off_times, 1.5, "...and by so many times what the time was off")     \
    /* half not met, double < 1 % */

/* growth.c: how a tree grows. On the demo pair a ninth child is the target's token in fewer than
 * one position of a hundred. The calibration remembers a few hundred tokens; the fits of `foretoken
 * bench noise` over pairs lie between 0.9 and 2.3. */
#define FT_SPEC_TUNING_GROWTH(T, g)                                                                \
    T(g, COUNT, SCALED, branch, 8, "children considered a node")                                   \
    /* half +2.3 % turns, double +3.1 % weak */                                                    \
    T(g, SINGLE, SCALED, proactive_odds, 200,                                                      \
      "proactive drafting ends where one text in so many goes")                                    \
    /* half -3.1 % near, double unclear */                                                         \
    T(g, SINGLE, FROM_ONE, weight_fade, 0.997f, "share of what calibration has seen kept a token") \
    /* half unclear, double +1.8 % near */                                                         \
    T(g, SINGLE, SCALED, weight_prior, 3.0f, "weight of the source's own word")                    \
    /* half unclear, double -2.0 % turns */                                                        \
    T(g, SINGLE, SCALED, sharpness_min, 0.5f, "least sharpness that is learnt")                    \
    /* half < 1 %, double -3.3 % kinds */                                                          \
    T(g, SINGLE, SCALED, sharpness_max, 4.0f, "most sharpness that is learnt")                     \
    /* half not met, double not met */                                                             \
    T(g, SINGLE, SCALED, rest_most, 4.0f, "most that the rest's log chance is moved")              \
    /* half -1.1 % turns, double not met */

/* early_policy.c: when an early draft is sent. What makes good a tree's place is among its first
 * nodes, and with early drafts a round is to take at most half as many bytes again. */
#define FT_SPEC_TUNING_EARLY(T, g)                                                            \
    T(g, REAL, FROM_ONE, share_nodes, 0.75, "nodes of one, of those that a tree may have")    \
    /* half unclear, double unclear */                                                        \
    T(g, REAL, SCALED, gain_min, 0.05, "tokens that sending one should bring, for its bytes") \
    /* half unclear, double unclear */                                                        \
    T(g, REAL, SCALED, margin, 0.04, "of the time to the verdict, by which it is early...")   \
    /* half < 1 %, double unclear */                                                          \
    T(g, REAL, SCALED, late_step, 0.5, "...and of a forward, by which more after a late one") \
    /* half < 1 %, double -1.2 % ebb */                                                       \
    T(g, REAL, FROM_ONE, lead_fade, 0.9, "share of that kept when one was in time")           \
    /* half < 1 %, double < 1 % */                                                            \
    T(g, REAL, SCALED, smooth, 0.2, "share of an ordinary draft in what is known of them")    \
    /* half < 1 %, double unclear */

#define FT_SPEC_TUNING_GROUPS(G)     \
    G(times, FT_SPEC_TUNING_TIMES)   \
    G(accept, FT_SPEC_TUNING_ACCEPT) \
    G(trees, FT_SPEC_TUNING_TREES)   \
    G(modes, FT_SPEC_TUNING_MODES)   \
    G(tries, FT_SPEC_TUNING_TRIES)   \
    G(depth, FT_SPEC_TUNING_DEPTH)   \
    G(busy, FT_SPEC_TUNING_BUSY)     \
    G(growth, FT_SPEC_TUNING_GROWTH) \
    G(early, FT_SPEC_TUNING_EARLY)

typedef struct ft_spec_tuning {
    FT_SPEC_TUNING_GROUPS(FT_TUNING_STRUCT)
} ft_spec_tuning;

extern const ft_tuning_table ft_spec_tuning_table;

/* In use; the table's values unless somebody replaced them (base/tuning.h says who may). */
extern const ft_spec_tuning *ft_spec_tune;

#endif
