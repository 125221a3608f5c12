/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission: decides whether one more text may be opened, from the engine's time that promises take
 * and from the KV pool. WISP names "SLO-aware admission" (5.5) without a method. Here it uses
 * estimated pass times (eq. (19)) and the share of late rounds. Pure; no clock.
 */
#ifndef FT_SCHED_ADMIT_H
#define FT_SCHED_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/cost.h"
#include "sched/gain.h"
#include "sched/late.h"
#include "sched/promise.h"

/* A text with a promise. */
typedef struct ft_admit_text {
    double tokens_per_s; /* promised or asked for */
    const ft_gain *gain; /* of its session, borrowed; NULL: a text that is not open yet */
    uint32_t len;        /* in tokens */
} ft_admit_text;

/* Share of the engine's time that the promise takes: rounds per second times the time that a round
 * adds to a pass. 0 while costs are not known. usual: gain over all sessions, may be all-zero. */
double ft_admit_load(const ft_cost *cost, const ft_gain *usual, const ft_admit_text *text);

/* Whether a new promise with load `asked` may be given beside promises with load `promised`.
 * behind: the share of recent rounds that were behind (ft_admit_behind_share). */
bool ft_admit_promise(double promised, double asked, double behind);

/* How many promises with load `asked` each could be given beside those with load `promised`, one
 * after another; at most `most`. */
uint32_t ft_admit_more(double promised, double asked, double behind, uint32_t most);

/* Whether the server was too slow for a round. It was if the text has fewer tokens than promised,
 * the verdict came after the round's budget (WISP eq. (6)), and that budget left the server any
 * time. No text has its first token before the pass that ran when it came is over, and one of its
 * own: so what was promised for twice the round's pass is not missed. */
bool ft_admit_is_behind(const ft_promise *promise, const ft_late_round *round);

/* The recent share of rounds with a promise that were behind, of all sessions. All-zero: none. */
typedef struct ft_admit_behind {
    double share;
    int64_t saw_us; /* the time of the last of them */
} ft_admit_behind;

/* Counts a round, of any session. */
void ft_admit_saw(ft_admit_behind *behind, bool is_behind, int64_t now_us);
/* Rounds fade with time, too. Otherwise a server with few rounds a second would go on refusing long
 * after it has become idle. So with fewer rounds a second, a larger share of them may be behind. */
double ft_admit_behind_share(const ft_admit_behind *behind, int64_t now_us);

/* KV blocks that open texts need together, the new text included. */
typedef struct ft_admit_blocks {
    uint64_t all, of_tenant; /* of all tenants; of the new text's tenant */
    uint32_t n_tenants;      /* with sessions, the new text's included; > 0 */
} ft_admit_blocks;

/* Whether one more text may be opened in a pool of that size: all texts fit into what may be
 * opened, or its tenant's texts fit into an equal part of that. So no tenant can keep others
 * out. */
bool ft_admit_kv(const ft_admit_blocks *wanted, uint32_t pool_blocks);

#endif
