/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning constants of src/sched, by the file that uses them (base/tuning.h): what passes cost
 * (cost.h), which verifications join a pass (deadline.c, room.h), when verdicts are due
 * (promise.h), how the output head runs (heads.h), and the server's own drafts (own_draft.h).
 *
 * Not here: sizes of arrays, representations, and what only counts for statistics (spike.h).
 *
 * Below a constant: what half and double of it do to the figure of the condition where that is
 * surest (`foretoken bench ablate --config sim/wisp-paper-32b.json`). "on time": to the share of
 * texts on time. "< 1 %": surely less in all conditions. "not met": no condition depends on it.
 * "unclear": the pairs of runs do not tell it from nothing. docs/BENCHMARKS.md says more.
 */
#ifndef FT_SCHED_TUNING_H
#define FT_SCHED_TUNING_H

#include "base/tuning.h"

/* cost.c. Accuracy without huber: -26 % fit busy; without half_life: -7 % fit tide; without faded:
 * -2.7 % fit quiet. */
#define FT_SCHED_TUNING_COST(T, g)                                                      \
    T(g, REAL, SCALED, huber, 0.1, "relative error above which a pass counts linearly") \
    /* half < 1 %, double -1.1 % fit tide */                                            \
    T(g, REAL, SCALED, half_life, 64, "passes after which one counts half")             \
    /* half +3.0 % fit tide, double -2.7 % fit tide */                                  \
    T(g, REAL, SCALED, faded, 0.05,                                                     \
      "the least that an old pass counts: it is the last of its size")                  \
    /* half < 1 %, double < 1 % */                                                      \
    T(g, REAL, SCALED, error_rate, 0.2, "share of a new error in the mean of errors")   \
    /* half -2.7 % fit cold, double +1.1 % fit cold */                                  \
    T(g, REAL, SCALED, read_rate, 0.1, "share of a new pass in means about reading")    \
    /* half not met, double not met */

/* deadline.c, room.c. A round meets two passes, the one that runs when it arrives and its
 * own; a quarter of its time is left for its edge and the network: hence round_share. */
#define FT_SCHED_TUNING_BATCH(T, g)                                                           \
    T(g, REAL, SCALED, round_share, 0.375, "of a round's time a pass may take")               \
    /* half -23.6 % sim mixed on time, double -32.8 % sim mixed on time */                    \
    T(g, REAL, SCALED, fixed_times, 4.0, "times its fixed costs a pass may take in any case") \
    /* half not met, double -1.5 % sim mixed */                                               \
    T(g, REAL, SCALED, lost, 8.0, "rounds behind its promise a text is given up")             \
    /* half -4.3 % sim mixed, double -17.7 % sim mixed on time */                             \
    T(g, COUNT, SCALED, patience_us, 2000000,                                                 \
      "us after its arrival work without a deadline is due")                                  \
    /* half not met, double not met */                                                        \
    T(g, COUNT, SCALED, prompt_part, 4, "prompts have one row in so many")                    \
    /* half not met, double not met */

/* promise.c. Only one token of a round is certain. A text is kept some rounds ahead of its promise,
 * so that a few poor rounds at its end do not break the promise. In runs, where all tokens are
 * certain, the lead only covers differences between passes. A text that is further ahead may have
 * to wait, but for less time than it is ahead, so that its reader does not notice. */
#define FT_SCHED_TUNING_PROMISE(T, g)                                                           \
    T(g, REAL, SCALED, ahead, 12.0, "rounds of the expected gain a text is kept ahead at most") \
    /* half -1.7 % sim mixed, double unclear */                                                 \
    T(g, REAL, SCALED, ahead_sure, 2.0, "tokens it is, if a round brings one for certain...")   \
    /* half unclear, double unclear */                                                          \
    T(g, REAL, SCALED, ahead_more, 24.0, "...and for each that is chance")                      \
    /* half unclear, double unclear */                                                          \
    T(g, REAL, SCALED, credit, 6.0, "rounds that a text which is ahead may be made to wait")    \
    /* half unclear, double unclear */

/* price.c. */
#define FT_SCHED_TUNING_PRICE(T, g)                                                         \
    T(g, REAL, SCALED, speed_s, 1.0, "s in which an old speed of the texts counts a third") \
    /* half not met, double not met */

/* await.c. Tokens/s without waiting: -14 % sim read; if late is 0: -12 % sim read on. */
#define FT_SCHED_TUNING_AWAIT(T, g)                                                            \
    T(g, REAL, SCALED, weight, 0.2, "share of a new time in the means of how long edges take") \
    /* half < 1 %, double -2.4 % sim read */                                                   \
    T(g, REAL, SCALED, late, 4.0, "mean distances after its mean time a draft is late")        \
    /* half -3.1 % sim read, double -14 % sim read */                                          \
    T(g, REAL, FROM_ONE, least, 1.02,                                                          \
      "times as much a pass must bring to wait for one draft more")                            \
    /* half < 1 %, double < 1 % */

/* heads.c. Tokens/s without it: -4.5 % head good. */
#define FT_SCHED_TUNING_HEADS(T, g)                                                 \
    T(g, REAL, SCALED, learn, 1.0 / 64, "share of a new verdict in where walks go") \
    /* half < 1 %, double < 1 % */

/* own_draft.c. Tokens of a tree scatter as widely as their mean, so it takes many verdicts to tell
 * whether drafting pays. */
#define FT_SCHED_TUNING_OWN(T, g)                                                                 \
    T(g, COUNT, SCALED, verdicts, 64, "verdicts on trees that decide; older ones fade")           \
    /* half < 1 %, double < 1 %; no choice at all: -8.8 % own poor */                             \
    T(g, REAL, SCALED, time_rate, 0.5, "share of a new value in means of times and kept nodes")   \
    /* half -4.0 % own even, double -3.1 % own tide */                                            \
    T(g, REAL, SCALED, off_most, 3, "a pass counts as at most so many times as long as expected") \
    /* half < 1 %, double -2.5 % own load */                                                      \
    T(g, REAL, SCALED, try_share, 0.01, "share of the time that tries of drafting may cost")      \
    /* half < 1 %, double < 1 %; no tries at all: -9.3 % own tide */                              \
    T(g, COUNT, SCALED, spare_nodes, 2, "nodes asked for beyond those that are usually kept")     \
    /* half -1.3 % own row, double unclear */

/* admit.c. A round's estimated load is what it adds to a pass. It leaves out prompts and what any
 * pass costs: load_most is what remains. behind_most holds where these are more than usual. */
#define FT_SCHED_TUNING_ADMIT(T, g)                                                              \
    T(g, REAL, SCALED, load_most, 0.65, "share of the engine's time that may be promised")       \
    /* half -15.8 % asked fastest, double -42.8 % asked fastest */                               \
    T(g, REAL, SCALED, behind_most, 0.02, "share of rounds behind above which none is promised") \
    /* half +8.3 % asked cheap, double -7.9 % asked dear on time */                              \
    T(g, REAL, SCALED, behind_s, 10, "s in which that share falls to a third without rounds")    \
    /* half unclear, double unclear */                                                           \
    T(g, REAL, SCALED, behind_weight, 0.005, "share of a new round in that share")               \
    /* half -1.5 % asked small, double -1.4 % asked cheap on time */

/* gain.c. Texts change: a session's last ten rounds or so count. All sessions have many more. */
#define FT_SCHED_TUNING_GAIN(T, g)                                                              \
    T(g, REAL, SCALED, first_tree_tok, 2, "tokens of a round with a tree before any was seen")  \
    /* half unclear, double unclear */                                                          \
    T(g, REAL, SCALED, weight, 0.2, "share of a new round in its session's means")              \
    /* half +1.1 % sim mixed, double -1.3 % sim short */                                        \
    T(g, REAL, SCALED, usual_weight, 0.02, "share of a new round in the means of all sessions") \
    /* half not met, double not met */

/* prompt_share.c. A round meets two passes with prompts; what is left of its budget is for what the
 * estimate of a pass does not know. An edge drafts within a fraction of active_us. */
#define FT_SCHED_TUNING_PROMPTS(T, g)                                                        \
    T(g, COUNT, SCALED, twentieths, 9, "twentieths of a round's budget for prompts, a pass") \
    /* half -2.0 % sim mixed, double -1.8 % sim short */                                     \
    T(g, COUNT, SCALED, active_us, 2000000,                                                  \
      "us after which no draft of a quiet session is awaited")                               \
    /* half not met, double not met */

/* fair.c. About ten passes count. Of the least served tenant's rows, counting only the last pass
 * costs 13.7 % (fair rows), counting all passes alike 4.5 % (fair comes). */
#define FT_SCHED_TUNING_FAIR(T, g)                                           \
    T(g, REAL, FROM_ONE, fade, 0.9, "share kept of a tenant's rows, a pass") \
    /* half < 1 %, double < 1 % */

#define FT_SCHED_TUNING_GROUPS(G)       \
    G(cost, FT_SCHED_TUNING_COST)       \
    G(batch, FT_SCHED_TUNING_BATCH)     \
    G(promise, FT_SCHED_TUNING_PROMISE) \
    G(price, FT_SCHED_TUNING_PRICE)     \
    G(await, FT_SCHED_TUNING_AWAIT)     \
    G(heads, FT_SCHED_TUNING_HEADS)     \
    G(own, FT_SCHED_TUNING_OWN)         \
    G(admit, FT_SCHED_TUNING_ADMIT)     \
    G(gain, FT_SCHED_TUNING_GAIN)       \
    G(prompts, FT_SCHED_TUNING_PROMPTS) \
    G(fair, FT_SCHED_TUNING_FAIR)

typedef struct ft_sched_tuning {
    FT_SCHED_TUNING_GROUPS(FT_TUNING_STRUCT)
} ft_sched_tuning;

extern const ft_tuning_table ft_sched_tuning_table;

/* In use; the table's values unless somebody replaced them (base/tuning.h says who may). */
extern const ft_sched_tuning *ft_sched_tune;

#endif
