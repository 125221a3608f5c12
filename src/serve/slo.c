// SPDX-License-Identifier: Apache-2.0
// What sessions were promised, by token speed (WISP 3.1): classes, each pending verification's time
// budget and deadline, whether it was kept, whether one more promise can be; and what each credential
// has had of the server lately, so that equals are served alike. Owned by the engine thread. Does not
// choose who runs (sched).
//
// Eq. (5) estimates a round's text as acceptance rate times drafted tokens. Of a tree most nodes are
// there to be rejected, so here it is what the session's rounds brought lately.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "sched/promise.h"
#include "serve/internal.h"

#define GAIN_FIRST   2.0  /* tokens of a round with a tree of which nothing is known */
#define GAIN_WEIGHT  0.2  /* of a new round */
#define USUAL_WEIGHT 0.02 /* of a new round in what all sessions' rounds are like */
#define SERVED_FADE  0.99 /* a pass: some hundred passes count */
#define LOAD_MOST    0.9  /* of the engine's time may be promised... */
#define LOAD_TRIED   1.5 /* ...and so much, by estimates that may be wrong, while nobody is behind */
/* Rounds that the server kept for too long, of texts that lack so many tokens of their promise: these are
 * behind for its sake, not for their edges'. Shares of rounds, and the weight of a new one. */
#define BEHIND_TOK    2
#define BEHIND_ANY    0.01
#define BEHIND_MOST   0.25 /* more would be missed by everyone */
#define BEHIND_WEIGHT 0.05
#define LOAD_ROWS     16  /* of a session's rounds, before the first */
#define LOAD_CONTEXT  512 /* and their context */

struct ft_tenant {
    ft_tenant *next;
    uint32_t n_sessions;
    double rows; /* computed lately */
    char credential[];
};

/* ---- tenants ---- */

ft_status ft_slo_join(ft_sess *s, ft_error *err)
{
    ft_verifier *v = s->verifier;
    ft_tenant *t = v->tenants;
    while (t && !ft_secret_equal_str(t->credential, s->credential))
        t = t->next;
    if (!t) {
        size_t n = strlen(s->credential) + 1;
        t = calloc(1, sizeof *t + n);
        if (!t)
            return ft_error_set(err, FT_NOMEM, "serve: no room for a session");
        memcpy(t->credential, s->credential, n);
        t->next = v->tenants;
        v->tenants = t;
    }
    t->n_sessions++;
    s->tenant = t;
    return FT_OK;
}

void ft_slo_leave(ft_sess *s)
{
    ft_tenant *t = s->tenant, **link = &s->verifier->tenants;
    s->tenant = NULL;
    if (!t || --t->n_sessions > 0)
        return;
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    free(t);
}

void ft_slo_served(ft_verifier *v)
{
    const batch *b = &v->batch;
    for (ft_tenant *t = v->tenants; t; t = t->next)
        t->rows *= SERVED_FADE;
    v->served_rows *= SERVED_FADE;
    for (size_t i = 0; i < b->n_segments; i++) {
        b->seg_of[i]->tenant->rows += b->segments[i].n;
        v->served_rows += b->segments[i].n;
    }
}

/* ---- classes ---- */

/* Text that the present round, or the next pass of the present run, should bring: eq. (5). */
static double gain_of(const ft_sess *s)
{
    return s->slo.gain_tok[s->run_end > 0];
}

/* The slowest class that is as fast as asked for; FT_SLO_NONE: none is, or no speed was asked for. */
static uint32_t class_of(const ft_verifier_opts *o, float tokens_per_s)
{
    uint32_t found = FT_SLO_NONE;
    for (uint32_t i = 0; i < o->n_slo && tokens_per_s > 0; i++)
        if (o->slo_tokens_per_s[i] >= tokens_per_s &&
            (found == FT_SLO_NONE || o->slo_tokens_per_s[i] < o->slo_tokens_per_s[found]))
            found = i;
    return found;
}

float ft_slo_speed(const ft_verifier *v, float tokens_per_s)
{
    uint32_t class = class_of(&v->opts, tokens_per_s);
    return class == FT_SLO_NONE ? 0 : v->opts.slo_tokens_per_s[class];
}

static float fastest(const ft_verifier_opts *o)
{
    float most = 0;
    for (uint32_t i = 0; i < o->n_slo; i++)
        most = fmaxf(most, o->slo_tokens_per_s[i]);
    return most;
}

static double or_else(double known, double first)
{
    return known > 0 ? known : first;
}

/* Share of the engine's time that a promise takes: its rounds a second, times what one adds to a pass. Rounds
 * as the session had them lately, trees and runs alike; without any yet, as rounds usually are here. */
static double load_of(const ft_verifier *v, float tokens_per_s, const ft_sess *s)
{
    const bool known = s && s->slo.rows > 0;
    double gain = known ? s->slo.tok : or_else(v->usual.gain_tok, GAIN_FIRST);
    double mean = known ? s->slo.rows : or_else(v->usual.rows, LOAD_ROWS);
    uint32_t rows = (uint32_t)ceil(mean);
    const ft_pass round = ft_pass_plus((ft_pass){0}, s ? s->len : LOAD_CONTEXT, rows, rows);
    return (double)tokens_per_s / gain * ft_cost_added_us(&v->cost, &round) * (mean / rows) / 1e6;
}

ft_status ft_slo_admit(const ft_verifier *v, float tokens_per_s, ft_error *err)
{
    const ft_verifier_opts *o = &v->opts;
    if (tokens_per_s == 0)
        return FT_OK;
    uint32_t class = class_of(o, tokens_per_s);
    if (class == FT_SLO_NONE)
        return ft_error_set(err, FT_INVALID,
                            "serve: %g tokens/s were asked for, %g are the most that is promised",
                            (double)tokens_per_s, (double)fastest(o));
    double load = 0;
    for (const ft_sess *s = v->sessions; s; s = s->next)
        if (s->slo.class != FT_SLO_NONE && s->handle && s->finish == FT_FINISH_NONE)
            load += load_of(v, o->slo_tokens_per_s[s->slo.class], s);
    if (load == 0) /* where estimates are wrong, somebody's rounds must put them right */
        return FT_OK;
    load += load_of(v, o->slo_tokens_per_s[class], NULL);
    if (load > (v->usual.behind > BEHIND_ANY ? LOAD_MOST : LOAD_TRIED) ||
        v->usual.behind > BEHIND_MOST)
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: %g tokens/s cannot be promised beside what is: try again "
                            "later, or slower",
                            (double)tokens_per_s);
    return FT_OK;
}

void ft_slo_init(ft_sess *s, float tokens_per_s)
{
    s->slo.rows = s->verifier->usual.rows;
    s->slo.tok = s->verifier->usual.gain_tok;
    s->slo.class = class_of(&s->verifier->opts, tokens_per_s);
    s->slo.gain_tok[0] = or_else(s->verifier->usual.tree_gain_tok, GAIN_FIRST);
    s->slo.gain_tok[1] = 1;
}

/* ---- rounds ---- */

static float speed_of(const ft_sess *s)
{
    return s->slo.class == FT_SLO_NONE ? 0 : s->verifier->opts.slo_tokens_per_s[s->slo.class];
}

void ft_slo_due(ft_sess *s, uint32_t draft_us, uint32_t rtt_us, int64_t at_us)
{
    const ft_promise promise = {.tokens_per_s = (double)speed_of(s),
                                .since_us = s->slo.first_us,
                                .had_tok = (double)s->len - s->slo.first_len};
    const ft_promise_round round = {
        .gain_tok = gain_of(s), .away_us = (int64_t)draft_us + rtt_us, .at_us = at_us};
    s->slo.due_us = s->slo.owed_us = s->slo.budget_us = 0;
    if (promise.tokens_per_s == 0)
        return;
    s->slo.due_us = ft_promise_due(&promise, &round);
    s->slo.owed_us = ft_promise_owed(&promise, &round);
    s->slo.budget_us = ft_promise_budget(&promise, &round);
}

void ft_slo_describe(const ft_sess *s, ft_work *work)
{
    double served = s->verifier->served_rows;
    work->deadline_us = s->slo.due_us;
    work->even_us = s->slo.budget_us;
    work->owed_us = s->slo.owed_us;
    work->tokens_per_s = speed_of(s);
    work->edge_drafts = s->run_end == 0;
    work->gain_tok = (float)gain_of(s);
    work->share = served > 0 ? (float)fmin(s->tenant->rows / served, 1) : 0;
}

/* A text is as fast as its tokens behind the first verdict. */
static bool text_met(const ft_sess *s, int64_t now_us)
{
    double tokens = (double)s->len - s->slo.first_len, us = (double)(now_us - s->slo.first_us);
    return tokens * 1e6 >= (double)speed_of(s) * us;
}

static bool is_behind(const ft_sess *s, int64_t now_us)
{
    double owed_tok = (double)speed_of(s) * (double)(now_us - s->slo.first_us) / 1e6;
    return s->slo.first_us > 0 && now_us > s->slo.budget_us &&
           s->slo.budget_us > s->draft_at_us + 1 && /* else its edge had all the time */
           (double)(s->len - s->slo.first_len) + BEHIND_TOK < owed_tok;
}

/* value > 0 */
static void average(double *mean, double value, double weight)
{
    *mean = *mean > 0 ? *mean + weight * (value - *mean) : value;
}

void ft_slo_answered(ft_sess *s, int64_t now_us)
{
    ft_slo_count *count = &s->verifier->stats.slo[s->slo.class];
    uint32_t tokens = s->last.n_path + s->last.n_next;
    double *gain_tok = &s->slo.gain_tok[s->run_end > 0];
    *gain_tok += GAIN_WEIGHT * (fmax(tokens, 1) - *gain_tok);
    if (s->slo.class == FT_SLO_NONE)
        return;
    average(&s->slo.rows, 1 + s->tree.n, GAIN_WEIGHT);
    average(&s->slo.tok, fmax(tokens, 1), GAIN_WEIGHT);
    average(&s->verifier->usual.rows, 1 + s->tree.n, USUAL_WEIGHT);
    average(&s->verifier->usual.gain_tok, fmax(tokens, 1), USUAL_WEIGHT);
    if (s->run_end == 0)
        average(&s->verifier->usual.tree_gain_tok, fmax(tokens, 1), USUAL_WEIGHT);
    s->verifier->usual.behind += BEHIND_WEIGHT * (is_behind(s, now_us) - s->verifier->usual.behind);
    count->rounds++;
    count->rounds_met += now_us <= s->slo.budget_us;
    if (s->slo.first_us == 0) {
        s->slo.first_us = now_us;
        s->slo.first_len = s->len;
    }
    if (s->finish != FT_FINISH_NONE) {
        count->texts++;
        count->texts_met += text_met(s, now_us);
    }
}
