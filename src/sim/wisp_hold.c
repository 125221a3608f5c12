// SPDX-License-Identifier: Apache-2.0
// What waits although the engine is free: verifications that the policy does not start yet, all
// work while drafts are expected (sched/await.h), and half of the sessions where all wait at once
// (sched/groups.h). As in src/serve/batch.c. Its state is the simulation's.
#include <math.h>

#include "sched/groups.h"
#include "sched/prompt_share.h"
#include "sched/tuning.h"
#include "sim/wisp_internal.h"

static void look_in(sim *s, int64_t left_us)
{
    s->look = ft_known(s->now_us + left_us);
}

/* Removes the verifications from work[n] that the policy does not start yet. Returns how many works
 * are left. */
static size_t hold_verifications(sim *s, size_t n)
{
    ft_hold waiting = {0};
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (s->work[i].kind == FT_WORK_VERIFY)
            ft_hold_add(&waiting, s->work[i].arrival_us);
    const int64_t left_us = ft_hold_left_us(&waiting, s->how.policy, &s->limits, s->now_us);
    if (left_us == 0)
        return n;
    look_in(s, left_us);
    for (size_t i = 0; i < n; i++)
        if (s->work[i].kind != FT_WORK_VERIFY) {
            s->of[left] = s->of[i];
            s->work[left++] = s->work[i];
        }
    return left;
}

static ft_await_text waiting_text(const sim *s, const device *d, const ft_work *w)
{
    const uint32_t most = s->limits.max_rows / (uint32_t)ft_sched_tune->batch.prompt_part;
    const bool prompt = w->kind == FT_WORK_PREFILL;
    const uint32_t rows = prompt && w->n_tok > most ? most : w->n_tok;
    return (ft_await_text){.at_us = s->now_us,
                           .away_us = d->away.us.value,
                           .most_us = ft_away_most_us(&d->away),
                           .part = ft_pass_plus((ft_pass){0}, w->n_past, rows, w->n_out),
                           .gain_tok = w->gain_tok};
}

/* A text whose device drafts. */
static bool is_away(const device *d)
{
    return d->open && !d->here && !d->in_pass && !d->ready;
}

static ft_await_text expected_text(const sim *s, const device *d, int64_t at_us)
{
    const uint32_t rows = d->gain.rows.known ? (uint32_t)ceil(d->gain.rows.value) : 1;
    return (ft_await_text){.at_us = at_us,
                           .away_us = d->away.us.value,
                           .most_us = ft_away_most_us(&d->away),
                           .part = ft_pass_plus((ft_pass){0}, d->n_kv, rows, rows),
                           .gain_tok = ft_sim_gain(s, d)};
}

/* Holds all of work[n] while the pass should wait for drafts. Returns how many works are left. */
static size_t hold_all(sim *s, size_t n)
{
    s->n_awaited = 0;
    for (size_t i = 0; i < n; i++)
        s->awaited[s->n_awaited++] = waiting_text(s, &s->devices[s->of[i]], &s->work[i]);
    for (size_t i = 0; i < s->n_members; i++) {
        const device *d = &s->devices[s->members[i]];
        if (!is_away(d) || !d->verdict.known)
            continue;
        const ft_known_us at = ft_away_until(&d->away, d->verdict.us);
        if (at.known && at.us > s->now_us)
            s->awaited[s->n_awaited++] = expected_text(s, d, at.us);
    }
    const int64_t left_us = ft_await_us(s->awaited, s->n_awaited, s->cost, s->now_us);
    if (left_us == 0)
        return n;
    look_in(s, left_us);
    return 0;
}

size_t ft_sim_hold(sim *s, size_t n)
{
    s->look = ft_unknown();
    n = hold_verifications(s, n);
    return s->how.policy->awaits ? hold_all(s, n) : n;
}

static bool draft_expected(const sim *s)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const device *d = &s->devices[s->members[i]];
        if (is_away(d) && ft_prompt_awaits(s->now_us - d->used_us))
            return true;
    }
    return false;
}

uint32_t ft_sim_cap(const sim *s, size_t n)
{
    const bool groups = s->how.drafts && s->how.keeps_kv; /* SLED's server has none */
    bool more = !groups || s->how.policy->start_us || draft_expected(s) ||
                (s->how.policy->awaits && ft_await_one_group(s->awaited, s->n_awaited, s->cost));
    for (size_t i = 0; i < n && !more; i++)
        more = s->work[i].kind == FT_WORK_PREFILL;
    const uint32_t cap = ft_groups_cap((uint32_t)n, more),
                   most = (uint32_t)s->k[FT_SIM_MAX_SESSIONS];
    return cap > 0 && cap < most ? cap : most;
}
