/* SPDX-License-Identifier: Apache-2.0
 *
 * When a round's verdict is due for its text to be as fast as was promised. Pure; the server and the
 * simulator call the same functions.
 */
#ifndef FT_SCHED_PROMISE_H
#define FT_SCHED_PROMISE_H

#include <stdint.h>

typedef struct ft_promise {
    double tokens_per_s; /* > 0 */
    int64_t
        since_us; /* from here on the text's speed counts; 0: from its first verdict, not out yet */
    double had_tok; /* text since then */
} ft_promise;

/* A round of such a text: what it should bring, when it came, and for how long its edge was away before
 * (drafting and network). */
typedef struct ft_promise_round {
    double gain_tok; /* > 0 */
    int64_t away_us, at_us;
} ft_promise_round;

/* By the round alone: WISP eq. (6) and (12). Behind at_us. */
int64_t ft_promise_budget(const ft_promise *promise, const ft_promise_round *round);

/* When the text, with what the round brings for certain, must be there: may be before at_us. */
int64_t ft_promise_owed(const ft_promise *promise, const ft_promise_round *round);

/* By what the text is owed, and some rounds earlier: at once where that is before the budget, never much
 * behind it. */
int64_t ft_promise_due(const ft_promise *promise, const ft_promise_round *round);

#endif
