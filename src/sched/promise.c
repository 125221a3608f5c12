// SPDX-License-Identifier: Apache-2.0
// Deadlines. Eq. (6) gives every round the same budget whatever its text has had so far, but a promise is
// kept or broken by a whole text's speed (eq. (20)): a text that was lucky runs ahead of its promise and
// still gets early deadlines, one that was not never catches up. So a round is due when its text is.
// Eq. (6) summed over a text's rounds is just that: each begins with the verdict before it, and drafting
// and network are in the time that goes by.
//
// Pure, no state.
#include "sched/promise.h"

#include <math.h>

/* What a round brings is chance, but for one token. A text is kept some rounds ahead of its promise, so
 * that a few poor rounds at its end do not break it: where all that a round brings is sure (runs), only by
 * what passes differ in. */
#define SURE_TOK   1.0
#define AHEAD      12.0 /* rounds of the expected gain */
#define AHEAD_SURE 2.0  /* tokens, if a round brings one for certain... */
#define AHEAD_MORE 24.0 /* ...and for each that is chance, until it is AHEAD rounds */
/* A text that is further ahead may be made to wait, for so many rounds' time more than eq. (6) says: less
 * than it is ahead, so that who reads along at the promised speed does not notice. */
#define CREDIT 6.0

static double round_us(const ft_promise *p, const ft_promise_round *round)
{
    return round->gain_tok / p->tokens_per_s * 1e6;
}

static double ahead_us(const ft_promise *p, const ft_promise_round *round)
{
    double tokens = AHEAD_SURE + AHEAD_MORE * (round->gain_tok - SURE_TOK);
    double most = AHEAD * round->gain_tok;
    return (tokens < most ? fmax(tokens, 0) : most) / p->tokens_per_s * 1e6;
}

static int64_t behind(const ft_promise_round *round, double due_us)
{
    return due_us > (double)round->at_us + 1 ? (int64_t)due_us : round->at_us + 1;
}

int64_t ft_promise_budget(const ft_promise *promise, const ft_promise_round *round)
{
    double us = (double)(round->at_us - round->away_us) + round_us(promise, round);
    return behind(round, us);
}

int64_t ft_promise_owed(const ft_promise *promise, const ft_promise_round *round)
{
    if (promise->since_us == 0)
        return ft_promise_budget(promise, round);
    double us = (promise->had_tok + SURE_TOK) / promise->tokens_per_s * 1e6;
    return promise->since_us + (int64_t)us;
}

int64_t ft_promise_due(const ft_promise *promise, const ft_promise_round *round)
{
    double one_us = round_us(promise, round);
    double latest_us = (double)(round->at_us - round->away_us) + (1 + CREDIT) * one_us;
    double due_us = (double)ft_promise_owed(promise, round) - ahead_us(promise, round);
    int64_t budget_us = ft_promise_budget(promise, round);
    if (promise->since_us == 0)
        return budget_us;
    /* What is owed and late is due at once, and no earlier than that: a text that was promised too much
     * must not take the server from those that can be kept. So is what would be due before a round's time
     * is over: it is kept ahead by so much that no pass need be short for its sake. */
    if (due_us < (double)budget_us)
        return round->at_us + 1;
    return behind(round, due_us < latest_us ? due_us : latest_us);
}
