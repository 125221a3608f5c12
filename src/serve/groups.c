// SPDX-License-Identifier: Apache-2.0
// Gathers what sched/groups.h needs to decide about interleaving: which sessions draft between two
// verifications, for how long, and which wait again at once. Owned by the engine thread.
#include "serve/groups.h"

#include "sched/groups.h"

/* The first draft has no verdict before it: its think time is what the edge says. So two sessions
 * that begin together can alternate from the start. */
void ft_sess_thought(ft_sess *s, const ft_msg_draft *draft, int64_t at_us)
{
    if (s->edge.drafting)
        ft_think_saw(&s->edge.think, at_us - s->edge.verdict_us);
    else if (draft->n > 0)
        ft_think_said(&s->edge.think, (int64_t)draft->draft_us + draft->rtt_us);
    s->edge.drafting = false;
}

void ft_sessions_rest(ft_verifier *v, int64_t now_us)
{
    for (ft_sess *s = v->sessions.first; s; s = s->next)
        if (!s->edge.engine_rested) {
            s->edge.engine_rested = true;
            s->edge.rested_us = now_us;
        }
}

uint32_t ft_sess_others_us(ft_sess *s, int64_t started_us, int64_t now_us)
{
    ft_sess_edge *e = &s->edge;
    int64_t us = (e->engine_rested ? e->rested_us : started_us) - e->answered_us;
    bool known = e->answered && us >= 0 && us <= UINT32_MAX;
    e->answered = true;
    e->answered_us = now_us;
    e->engine_rested = false;
    return known ? (uint32_t)us : 0;
}

/* Whether the session has more work after this pass without a message from the edge. */
static bool is_steady(const ft_sess *s)
{
    return s->round.state == FT_ROUND_RUN_NEXT ||
           (ft_round_is_run(&s->round) && s->round.end > s->text.len + 1);
}

static void survey_work(ft_groups_survey *survey, const ft_sess_batch *b)
{
    for (size_t i = 0; i < b->n_work; i++) {
        const ft_work *w = &b->work[i];
        if (w->kind != FT_WORK_VERIFY)
            continue;
        const ft_pass shape = ft_pass_plus((ft_pass){0}, w->n_past, w->n_tok, w->n_out);
        if (is_steady(b->of[i]))
            ft_groups_steady(survey, &shape);
        else
            ft_groups_waits(survey, &shape, &b->of[i]->edge.think);
    }
}

uint32_t ft_round_cap(ft_verifier *v, int64_t now_us)
{
    ft_groups_survey survey = {0};
    survey_work(&survey, &v->batch);
    if (survey.n_waiting == 0)
        return 0;
    for (const ft_sess *s = v->sessions.first; s; s = s->next)
        if (ft_sess_state_of(s) == FT_SESS_IDLE &&
            ft_think_expects(&s->edge.think, now_us - s->times.used_us))
            ft_groups_expects(&survey, &s->edge.think);
    const ft_groups_in in = ft_groups_of(&survey, &v->cost);
    uint32_t cap = ft_groups_cap(&in);
    v->stats.groups = cap ? 2 : 1;
    v->stats.passes_capped += cap > 0 && survey.n_waiting + survey.n_steady > cap;
    return cap;
}
