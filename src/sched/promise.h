/* SPDX-License-Identifier: Apache-2.0
 *
 * When a round's verdict is due, so that its text keeps the promised speed. Pure; the server and
 * the simulator call the same functions.
 */
#ifndef FT_SCHED_PROMISE_H
#define FT_SCHED_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/known.h"

#define FT_SLO_CLASSES 8              /* speeds that a server can promise */
#define FT_SLO_NONE    FT_SLO_CLASSES /* no promise */

/* The slowest of n classes that is at least as fast as `asked` tokens/s. FT_SLO_NONE: no class is,
 * or `asked` is 0. */
uint32_t ft_promise_class(const float speeds[], uint32_t n, float asked);

typedef struct ft_promise {
    double tokens_per_s; /* > 0 */
    int64_t asked_us;    /* when its request came: from here on its speed counts (eq. (20)) */
    double had_tok;      /* text since then */
} ft_promise;

/* A round of such a text: the tokens it should bring, when it came, and how long its edge took for
 * it (drafting and network). */
typedef struct ft_promise_round {
    double gain_tok; /* > 0 */
    int64_t away_us, at_us;
} ft_promise_round;

/* When the verdict is due by the round alone: WISP eq. (6) and (12). After at_us. */
int64_t ft_promise_budget(const ft_promise *promise, const ft_promise_round *round);

/* When the promised speed requires the tokens that the round is sure to bring; may be before
 * at_us. */
int64_t ft_promise_owed(const ft_promise *promise);

/* When the verdict is due: some rounds before ft_promise_owed, and never long after the budget. If
 * that is before the budget, it is due at once. */
int64_t ft_promise_due(const ft_promise *promise, const ft_promise_round *round);

/* A text, as its promise is judged. */
typedef struct ft_promise_text {
    double tokens_per_s; /* > 0 */
    int64_t asked_us;    /* when its request came that was not refused */
    ft_known_us first;   /* when its first tokens came; unknown: none has come */
    double first_tok;    /* so many */
    double had_tok;      /* all that have come */
} ft_promise_text;

/* Whether a text is as fast as promised. Server, simulator and benches count texts by this and
 * nothing else. */
typedef struct ft_promise_kept {
    bool from_request; /* the event of WISP eq. (20): all tokens, since the request */
    bool from_first;   /* the tokens behind the first ones, since these came: without the time of
                          reading the prompt. A text without tokens: as from_request */
} ft_promise_kept;

/* Judges the text as it is at now_us. */
ft_promise_kept ft_promise_judge(const ft_promise_text *text, int64_t now_us);

#endif
