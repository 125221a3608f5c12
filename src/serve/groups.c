// SPDX-License-Identifier: Apache-2.0
// What the server knows for interleaving: who drafts between two verifications, for how long, and who
// waits again at once (sched/groups.h decides). Owned by the engine thread.
#include "sched/groups.h"

#include "serve/internal.h"

#define THINK_WEIGHT 0.3 /* of a new sample in a session's think time */
#define THINK_LATE   4   /* times its think time, after which a draft is not awaited any more */

/* Of its first draft the edge's word is all there is: so two that begin together take turns at once. */
void ft_sess_thought(ft_sess *s, const ft_msg_draft *draft, int64_t at_us)
{
    int64_t us = at_us - s->verdict_at_us, said_us = (int64_t)draft->draft_us + draft->rtt_us;
    if (s->verdict_at_us == 0 && s->think_us == 0 && draft->n > 0 && said_us < FT_ACTIVE_US)
        s->think_us = (double)said_us;
    else if (s->verdict_at_us > 0 && us >= 0 && us < FT_ACTIVE_US)
        s->think_us += (s->think_us > 0 ? THINK_WEIGHT : 1) * ((double)us - s->think_us);
    s->verdict_at_us = 0;
}

void ft_sessions_rest(ft_verifier *v, int64_t now_us)
{
    for (ft_sess *s = v->sessions; s; s = s->next)
        if (s->free_us == 0)
            s->free_us = now_us;
}

uint32_t ft_sess_others_us(ft_sess *s, int64_t started_us, int64_t now_us)
{
    int64_t us = (s->free_us ? s->free_us : started_us) - s->answered_us;
    bool known = s->answered_us > 0 && us >= 0 && us <= UINT32_MAX;
    s->answered_us = now_us;
    s->free_us = 0;
    return known ? (uint32_t)us : 0;
}

/* More of its tokens can follow without a word from the edge. */
static bool is_steady(const ft_sess *s)
{
    return s->run_end > s->len + 1 || s->ahead.kept;
}

static bool is_expected(const ft_sess *s, int64_t now_us)
{
    return ft_sess_state(s) == SESS_IDLE && s->think_us > 0 &&
           now_us - s->used_at_us < FT_ACTIVE_US &&
           (double)(now_us - s->used_at_us) < THINK_LATE * s->think_us;
}

/* What is known of the sessions that the pass is for. */
typedef struct survey {
    ft_groups_in in;
    uint32_t n_waiting; /* of the thinking ones */
    uint32_t n_known;   /* think times in the sum */
    double think_us;
} survey;

static void think(survey *y, const ft_sess *s)
{
    y->in.n_thinking++;
    y->n_known += s->think_us > 0;
    y->think_us += s->think_us;
}

static void survey_work(survey *y, const batch *b)
{
    for (size_t i = 0; i < b->n_work; i++) {
        const ft_work *w = &b->work[i];
        if (w->kind != FT_WORK_VERIFY)
            continue;
        const ft_pass shape = ft_pass_plus((ft_pass){0}, w->n_past, w->n_tok, w->n_out);
        if (is_steady(b->of[i])) {
            y->in.n_steady++;
            y->in.steady = ft_pass_sum(y->in.steady, shape);
        } else {
            think(y, b->of[i]);
            y->in.thinking = ft_pass_sum(y->in.thinking, shape);
        }
    }
    y->n_waiting = y->in.n_thinking;
}

uint32_t ft_round_cap(ft_verifier *v, int64_t now_us)
{
    survey y = {.in.cost = &v->cost};
    survey_work(&y, &v->batch);
    if (y.n_waiting == 0)
        return 0;
    for (const ft_sess *s = v->sessions; s; s = s->next)
        if (is_expected(s, now_us))
            think(&y, s);
    y.in.thinking = ft_pass_share(y.in.thinking, y.in.n_thinking, y.n_waiting);
    y.in.think_us = y.n_known ? (int64_t)(y.think_us / y.n_known) : 0;
    uint32_t cap = ft_groups_cap(&y.in);
    v->stats.groups = cap ? 2 : 1;
    v->stats.passes_capped += cap > 0 && y.n_waiting + y.in.n_steady > cap;
    return cap;
}
