/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a pass waits for drafts that are expected soon. Two rhythms are possible. In two groups
 * that take turns, each text waits for the passes of both, and each pass has its fixed cost. In one
 * group, one pass has all texts, and the engine rests while their edges draft. One group is better
 * where the fixed cost of a pass is longer than that rest: for instance, if the weights are read
 * from disk in each pass. Two groups are better where rows are what costs (sched/groups.h). Pure;
 * the server and the simulator call the same functions.
 */
#ifndef FT_SCHED_AWAIT_H
#define FT_SCHED_AWAIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/known.h"
#include "sched/cost.h"

/* How long an edge takes from a verdict to its next draft. All-zero: not known. */
typedef struct ft_away {
    ft_mean us;
    double off_us; /* mean distance from that mean */
} ft_away;

/* One more time. */
void ft_away_saw(ft_away *away, int64_t us);
/* How long the next draft should take at most. 0: not known. */
double ft_away_most_us(const ft_away *away);
/* When a draft should be here at the latest after a verdict at verdict_us. Unknown if `away`
 * is. */
ft_known_us ft_away_until(const ft_away *away, int64_t verdict_us);

/* A text whose work waits, or whose draft is expected. */
typedef struct ft_await_text {
    int64_t at_us;   /* when the draft is expected; now or before: it waits */
    double away_us;  /* mean time from a verdict to the next draft; 0: none comes between */
    double most_us;  /* the same, at most */
    ft_pass part;    /* of a pass */
    double gain_tok; /* text that its verification brings, > 0 */
    double rest_us;  /* set by ft_await_us: the longest most_us from this text on */
} ft_await_text;

/* For how long from now the pass should wait; 0: not at all. Some text must wait already. Brings
 * the texts into the order of at_us. */
int64_t ft_await_us(ft_await_text *texts, size_t n, const ft_cost *cost, int64_t now_us);
/* All n texts wait: whether they bring more in one group than in two halves. */
bool ft_await_one_group(const ft_await_text *texts, size_t n, const ft_cost *cost);

#endif
