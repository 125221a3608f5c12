// SPDX-License-Identifier: Apache-2.0
// The gauges of load. They are set once a pass, in one walk over the sessions. This file has no
// state.
#include "serve/load.h"

#include <string.h>

#include "sched/admit.h"

static double load_of(const ft_verifier *v, uint32_t class, const ft_gain *gain, uint32_t len)
{
    const ft_admit_text text = {
        .tokens_per_s = (double)v->opts.slo_tokens_per_s[class], .gain = gain, .len = len};
    return ft_admit_load(&v->cost, &v->usual_gain, &text);
}

void ft_load_look(ft_verifier *v, int64_t now_us)
{
    uint64_t waiting = 0, running = 0, len = 0, of_class[FT_SLO_CLASSES + 1] = {0};
    double promised = 0;
    for (const ft_sess *s = v->sessions.first; s; s = s->next) {
        const ft_sess_state state = ft_sess_state_of(s);
        if (!s->handle || s->text.finish != FT_FINISH_NONE)
            continue;
        const bool waits = state == FT_SESS_WAITING || state == FT_SESS_PREFILL;
        waiting += waits;
        of_class[s->slo.class] += waits;
        running++;
        len += s->text.len;
        if (s->slo.class != FT_SLO_NONE)
            promised += load_of(v, s->slo.class, &s->slo.gain, s->text.len);
    }
    const uint64_t places = v->opts.max_sessions;
    const uint32_t free_places =
        v->stats.sessions < places ? (uint32_t)(places - v->stats.sessions) : 0;
    const double behind = ft_admit_behind_share(&v->behind, now_us);
    const uint32_t mean_len = running > 0 ? (uint32_t)(len / running) : 0;
    v->stats.rounds_waiting = waiting;
    v->stats.texts_running = running;
    memcpy(v->stats.class_waiting, of_class, sizeof of_class);
    for (uint32_t i = 0; i < v->opts.n_slo; i++)
        v->stats.class_possible[i] =
            ft_admit_more(promised, load_of(v, i, NULL, mean_len), behind, free_places);
}
