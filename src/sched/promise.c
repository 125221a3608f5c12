// SPDX-License-Identifier: Apache-2.0
// Deadlines. Eq. (6) gives every round the same budget, whatever its text has had so far. But a
// promise is about the speed of a whole text (eq. (20)). With eq. (6) a text with a lead on its
// promise would still get early deadlines, and a late text would never catch up. So a round is due
// when its text is. This is eq. (6) summed over the text's rounds: each begins with the verdict
// before it, and the time includes drafting and network. As in eq. (20) the speed counts from the
// request on, so a text whose prompt took long is behind until it has caught up.
//
// Pure, no state.
#include "sched/promise.h"

#include <math.h>

#include "sched/tuning.h"

#define TUNE     (ft_sched_tune->promise)
#define SURE_TOK 1.0 /* of what a round brings: the target's own token */

uint32_t ft_promise_class(const float speeds[], uint32_t n, float asked)
{
    uint32_t found = FT_SLO_NONE;
    for (uint32_t i = 0; i < n && asked > 0; i++)
        if (speeds[i] >= asked && (found == FT_SLO_NONE || speeds[i] < speeds[found]))
            found = i;
    return found;
}

static double round_us(const ft_promise *p, const ft_promise_round *round)
{
    return round->gain_tok / p->tokens_per_s * 1e6;
}

/* How long before it is owed the verdict is due: the lead that a text should have. */
static double lead_us(const ft_promise *p, const ft_promise_round *round)
{
    double tokens = TUNE.ahead_sure + TUNE.ahead_more * (round->gain_tok - SURE_TOK);
    double most = TUNE.ahead * round->gain_tok;
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

int64_t ft_promise_owed(const ft_promise *promise)
{
    double us = (promise->had_tok + SURE_TOK) / promise->tokens_per_s * 1e6;
    return promise->asked_us + (int64_t)us;
}

int64_t ft_promise_due(const ft_promise *promise, const ft_promise_round *round)
{
    double one_us = round_us(promise, round);
    double latest_us = (double)(round->at_us - round->away_us) + (1 + TUNE.credit) * one_us;
    double due_us = (double)ft_promise_owed(promise) - lead_us(promise, round);
    int64_t budget_us = ft_promise_budget(promise, round);
    /* A round that is due before its own budget is over is due at once, and not earlier: a text
     * that was promised too much must not take the server from texts whose promises can be kept. If
     * the text is not late, its lead is larger than a pass, so no pass need be short for it. */
    if (due_us < (double)budget_us)
        return round->at_us + 1;
    return behind(round, due_us < latest_us ? due_us : latest_us);
}

static bool is_as_fast(double tok, double tokens_per_s, int64_t us)
{
    return tok * 1e6 >= tokens_per_s * (double)us;
}

ft_promise_kept ft_promise_judge(const ft_promise_text *t, int64_t now_us)
{
    const bool from_request = is_as_fast(t->had_tok, t->tokens_per_s, now_us - t->asked_us);
    const bool from_first = t->first.known ? is_as_fast(t->had_tok - t->first_tok, t->tokens_per_s,
                                                        now_us - t->first.us)
                                           : from_request;
    return (ft_promise_kept){.from_request = from_request, .from_first = from_first};
}
