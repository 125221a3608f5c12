// SPDX-License-Identifier: Apache-2.0
// Promises of token speeds (WISP 3.1). This file measures what admission, due times and shares need
// (sched/admit.h, promise.h, gain.h, fair.h), and counts kept promises. The engine thread owns its
// state. It does not choose which session runs (sched).
#include "serve/slo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "sched/admit.h"
#include "sched/fair.h"
#include "sched/late.h"

struct ft_tenant {
    ft_tenant *next;
    uint32_t n_sessions;
    double rows;     /* rows computed recently */
    int64_t turn_us; /* ft_slo_tenant_us */
    char credential[];
};

/* ---- tenants ---- */

/* NULL: it has no sessions. */
static ft_tenant *find(const ft_verifier *v, const char *credential)
{
    ft_tenant *t = v->tenants.first;
    while (t && !ft_secret_equal_str(t->credential, credential))
        t = t->next;
    return t;
}

ft_status ft_slo_join(ft_sess *s, const char *credential, ft_error *err)
{
    ft_verifier *v = s->verifier;
    ft_tenant *t = find(v, credential);
    if (!t) {
        size_t n = strlen(credential) + 1;
        t = calloc(1, sizeof *t + n);
        if (!t)
            return ft_error_set(err, FT_NOMEM, "serve: no room for a session");
        memcpy(t->credential, credential, n);
        t->turn_us = ft_clock_now_us(&v->opts.clock);
        t->next = v->tenants.first;
        v->tenants.first = t;
    }
    t->n_sessions++;
    s->who.tenant = t;
    return FT_OK;
}

uint32_t ft_slo_tenants(const ft_verifier *v, const char *credential)
{
    uint32_t n = find(v, credential) ? 0 : 1;
    for (const ft_tenant *t = v->tenants.first; t; t = t->next)
        n++;
    return n;
}

const char *ft_slo_credential(const ft_sess *s)
{
    return s->who.tenant->credential;
}

int64_t ft_slo_tenant_us(const ft_sess *s)
{
    return s->who.tenant->turn_us;
}

void ft_slo_turn(ft_sess *s, int64_t now_us)
{
    s->who.tenant->turn_us = now_us;
}

void ft_slo_leave(ft_sess *s)
{
    ft_tenant *t = s->who.tenant, **link = &s->verifier->tenants.first;
    s->who.tenant = NULL;
    if (!t || --t->n_sessions > 0)
        return;
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    free(t);
}

void ft_slo_served(ft_verifier *v)
{
    const ft_sess_batch *b = &v->batch;
    for (ft_tenant *t = v->tenants.first; t; t = t->next)
        t->rows = ft_fair_faded(t->rows);
    v->tenants.served_rows = ft_fair_faded(v->tenants.served_rows);
    for (size_t i = 0; i < b->segments.n; i++) {
        b->segments.of[i]->who.tenant->rows += b->segments.segment[i].n;
        v->tenants.served_rows += b->segments.segment[i].n;
    }
}

/* ---- classes ---- */

float ft_slo_speed(const ft_verifier *v, float tokens_per_s)
{
    uint32_t class = ft_promise_class(v->opts.slo_tokens_per_s, v->opts.n_slo, tokens_per_s);
    return class == FT_SLO_NONE ? 0 : v->opts.slo_tokens_per_s[class];
}

static float fastest(const ft_verifier_opts *o)
{
    float most = 0;
    for (uint32_t i = 0; i < o->n_slo; i++)
        most = fmaxf(most, o->slo_tokens_per_s[i]);
    return most;
}

static float speed_of(const ft_sess *s)
{
    return s->slo.class == FT_SLO_NONE ? 0 : s->verifier->opts.slo_tokens_per_s[s->slo.class];
}

ft_status ft_slo_admit(const ft_verifier *v, float tokens_per_s, uint32_t n_prompt, int64_t now_us,
                       ft_error *err)
{
    const ft_admit_text new = {.tokens_per_s = (double)ft_slo_speed(v, tokens_per_s),
                               .len = n_prompt};
    if (tokens_per_s == 0)
        return FT_OK;
    if (new.tokens_per_s == 0)
        return ft_error_set(err, FT_INVALID,
                            "serve: %g tokens/s cannot be promised: ask for %g at most",
                            (double)tokens_per_s, (double)fastest(&v->opts));
    double promised = 0;
    for (const ft_sess *s = v->sessions.first; s; s = s->next)
        if (s->slo.class != FT_SLO_NONE && s->handle && s->text.finish == FT_FINISH_NONE) {
            const ft_admit_text text = {
                .tokens_per_s = (double)speed_of(s), .gain = &s->slo.gain, .len = s->text.len};
            promised += ft_admit_load(&v->cost, &v->usual_gain, &text);
        }
    double asked = ft_admit_load(&v->cost, &v->usual_gain, &new);
    if (!ft_admit_promise(promised, asked, ft_admit_behind_share(&v->behind, now_us)))
        return ft_error_set(err, FT_EXHAUSTED,
                            "serve: %g tokens/s cannot be promised now, beside the promises of "
                            "open sessions: try again later, or ask for less",
                            (double)tokens_per_s);
    return FT_OK;
}

void ft_slo_init(ft_sess *s, float tokens_per_s, int64_t asked_us)
{
    const ft_verifier_opts *o = &s->verifier->opts;
    ft_gain_init(&s->slo.gain, &s->verifier->usual_gain);
    s->slo.class = ft_promise_class(o->slo_tokens_per_s, o->n_slo, tokens_per_s);
    s->slo.asked_us = asked_us;
    s->slo.open_len = s->text.len;
}

/* ---- rounds ---- */

static ft_gain_kind kind_of(const ft_sess *s)
{
    return ft_round_is_run(&s->round) ? FT_GAIN_RUN : FT_GAIN_TREE;
}

double ft_slo_gain(const ft_sess *s)
{
    return ft_gain_expected(&s->slo.gain, kind_of(s));
}

static ft_promise promise_of(const ft_sess *s)
{
    return (ft_promise){.tokens_per_s = (double)speed_of(s),
                        .asked_us = s->slo.asked_us,
                        .had_tok = (double)(s->text.len - s->slo.open_len)};
}

void ft_slo_due(ft_sess *s, uint32_t draft_us, uint32_t rtt_us, int64_t at_us)
{
    const ft_promise promise = promise_of(s);
    const ft_promise_round round = {
        .gain_tok = ft_slo_gain(s), .away_us = (int64_t)draft_us + rtt_us, .at_us = at_us};
    if (s->slo.class == FT_SLO_NONE)
        return;
    s->slo.due_us = ft_promise_due(&promise, &round);
    s->slo.owed_us = ft_promise_owed(&promise);
    s->slo.budget_us = ft_promise_budget(&promise, &round);
}

void ft_slo_describe(const ft_sess *s, ft_work *work)
{
    if (s->slo.class != FT_SLO_NONE) {
        work->deadline = ft_known(s->slo.due_us);
        work->even_us = s->slo.budget_us;
        work->owed_us = s->slo.owed_us;
        work->tokens_per_s = speed_of(s);
    }
    work->edge_drafts = !ft_round_is_run(&s->round);
    work->gain_tok = (float)ft_slo_gain(s);
    work->share = (float)ft_fair_share(s->who.tenant->rows, s->verifier->tenants.served_rows);
}

/* The text has ended: whether its promise was kept. */
static void count_text(const ft_sess *s, int64_t now_us)
{
    const ft_promise_text text = {.tokens_per_s = (double)speed_of(s),
                                  .asked_us = s->slo.asked_us,
                                  .first = s->slo.first,
                                  .first_tok = (double)(s->slo.first_len - s->slo.open_len),
                                  .had_tok = (double)(s->text.len - s->slo.open_len)};
    const ft_promise_kept kept = ft_promise_judge(&text, now_us);
    ft_verifier_stats *stats = &s->verifier->stats;
    stats->slo_texts[s->slo.class]++;
    stats->slo_texts_met[s->slo.class] += kept.from_request;
    stats->slo_texts_met_from_first[s->slo.class] += kept.from_first;
}

void ft_slo_answered(ft_sess *s, const ft_msg_verdict *verdict, int64_t now_us)
{
    ft_verifier *v = s->verifier;
    ft_verifier_stats *stats = &v->stats;
    const ft_gain_round round = {
        .kind = kind_of(s), .rows = 1 + s->round.nodes.n, .tok = verdict->n_path + verdict->n_next};
    const ft_late_round times = {.arrival_us = s->times.draft_us,
                                 .pass_us = s->times.draft_us + verdict->queue_us,
                                 .verdict_us = now_us,
                                 .budget_us = s->slo.budget_us,
                                 .spike = v->batch.spike};
    const ft_promise promise = promise_of(s);
    ft_gain_saw(&s->slo.gain, &round);
    if (s->slo.class == FT_SLO_NONE)
        return;
    ft_gain_saw_usual(&v->usual_gain, &round);
    ft_admit_saw(&v->behind, ft_admit_is_behind(&promise, &times), now_us);
    stats->slo_rounds[s->slo.class]++;
    const ft_late late = ft_late_cause(&times);
    stats->slo_rounds_met[s->slo.class] += late == FT_LATE_NONE;
    stats->slo_rounds_late[s->slo.class * FT_LATE_CAUSES + late]++;
    if (!s->slo.first.known) {
        s->slo.first = ft_known(now_us);
        s->slo.first_len = s->text.len;
    }
    if (s->text.finish != FT_FINISH_NONE)
        count_text(s, now_us);
}
