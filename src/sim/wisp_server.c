// SPDX-License-Identifier: Apache-2.0
// The server: the work that waits, the choice of the next pass, and the pass's time and results. It
// uses the same policies, costs and deadlines as src/serve. docs/SIMULATOR.md says where it is
// simpler. Invariant: a session is in `ready` exactly while it has work and is in no pass.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/evict.h"
#include "sched/prompt_share.h"
#include "sim/wisp_internal.h"

static uint32_t committed(const device *d)
{
    return d->prompt + d->done;
}

static uint32_t blocks_for(uint32_t n_tok)
{
    return (n_tok + FT_SIM_BLOCK_TOK - 1) / FT_SIM_BLOCK_TOK;
}

/* Whether KV must be computed before a round is verified: all committed tokens but the last. */
static bool wants_prefill(const sim *s, const device *d)
{
    return s->how.keeps_kv && d->n_kv + 1 < committed(d);
}

static bool has_work(const sim *s, const device *d)
{
    /* A prompt is computed when it arrives; evicted KV is computed again when a round needs it. */
    return !d->in_pass &&
           (d->here ? d->open || !s->how.keeps_kv : d->open && d->fresh && wants_prefill(s, d));
}

static void update(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    bool wanted = has_work(s, d);
    if (wanted && !d->ready) {
        s->ready[s->n_ready++] = who;
        d->ready = (uint32_t)s->n_ready;
    } else if (!wanted && d->ready) {
        uint32_t last = s->ready[--s->n_ready];
        s->ready[d->ready - 1] = last;
        s->devices[last].ready = d->ready;
        d->ready = 0;
    }
}

static void hold(sim *s, device *d, uint32_t blocks)
{
    s->limits.kv_blocks_free += d->blocks;
    s->limits.kv_blocks_free -= blocks;
    d->blocks = blocks;
    if (s->limits.kv_blocks_free < s->out->kv_blocks_least)
        s->out->kv_blocks_least = s->limits.kv_blocks_free;
    if (s->prefixes) /* the KV of ended texts counts as free */
        ft_sim_prefixes_trim(s->prefixes, s->limits.kv_blocks_free);
}

/* ---- its life and its members ---- */

void ft_sim_server_init(sim *s, const ft_cost *cost, double longest_tok, uint64_t seed)
{
    const double *k = s->k;
    const ft_prompt_share share = {.budget_us = (int64_t)(k[FT_SIM_PREFILL_MS] * 1000),
                                   .others = true};
    double rows = k[FT_SIM_MAX_ROWS];
    if (!s->how.keeps_kv) /* a verification computes all of a text and is not split */
        rows =
            fmax(rows, ceil(longest_tok + fmax(k[FT_SIM_DRAFT_MOST], k[FT_SIM_DRAFT_FIXED]) + 4));
    s->cost = cost;
    s->limits = (ft_sched_limits){.max_rows = (uint32_t)rows,
                                  .max_verify = (uint32_t)k[FT_SIM_MAX_SESSIONS],
                                  .prefill_us = ft_prompt_share_us(&share),
                                  .cost = cost,
                                  .kv_blocks_free = (uint32_t)k[FT_SIM_KV_BLOCKS],
                                  .kv_block_tok = FT_SIM_BLOCK_TOK,
                                  .guard_us = (int64_t)(k[FT_SIM_GUARD_MS] * 1000),
                                  .static_batch = s->config->static_batch,
                                  .static_wait_us = s->config->static_wait_us};
    s->out->kv_blocks_least = s->limits.kv_blocks_free;
    ft_rng_init(&s->noise, seed);
}

/* realloc: what fails leaves *array as it was. */
static bool grow(void *array, size_t n, size_t size)
{
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, n * size);
    if (grown)
        memcpy(array, &grown, sizeof grown);
    return grown != NULL;
}

ft_status ft_sim_server_reserve(sim *s, size_t n, ft_error *err)
{
    if (n <= s->cap)
        return FT_OK;
    /* Events at a time, at most: of a device its prompt, its draft or verdict, and its end; of the
     * server the end of a pass. */
    ft_status status = ft_sim_queue_reserve(&s->queue, 4 * n + 1, err);
    if (status == FT_OK &&
        (!grow(&s->members, n, sizeof *s->members) || !grow(&s->ready, n, sizeof *s->ready) ||
         !grow(&s->of, n, sizeof *s->of) || !grow(&s->work, n, sizeof *s->work) ||
         !grow(&s->picks, n, sizeof *s->picks) || !grow(&s->pick_of, n, sizeof *s->pick_of) ||
         !grow(&s->awaited, n, sizeof *s->awaited)))
        status = ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    s->cap = status == FT_OK ? n : s->cap;
    return status;
}

void ft_sim_server_deinit(sim *s)
{
    ft_sim_queue_deinit(&s->queue);
    free(s->members);
    free(s->ready);
    free(s->of);
    free(s->work);
    free(s->picks);
    free(s->pick_of);
    free(s->awaited);
}

void ft_sim_server_join(sim *s, uint32_t who)
{
    s->members[s->n_members++] = who;
    s->devices[who].member = (uint32_t)s->n_members;
}

void ft_sim_server_leave(sim *s, uint32_t who)
{
    uint32_t last = s->members[--s->n_members], place = s->devices[who].member;
    s->members[place - 1] = last;
    s->devices[last].member = place;
    s->devices[who].member = 0;
}

size_t ft_sim_server_lose(sim *s)
{
    const size_t n = s->n_members;
    for (size_t i = 0; i < n; i++) {
        device *d = &s->devices[s->members[i]];
        hold(s, d, 0);
        d->open = d->here = d->in_pass = d->fresh = false;
        d->n_kv = d->ready = d->member = 0;
    }
    if (s->prefixes)
        ft_sim_prefixes_trim(s->prefixes, 0);
    s->queue.n = s->n_members = s->n_ready = s->n_picks = 0;
    s->busy = false;
    s->look = ft_unknown();
    return n;
}

/* ---- what arrives ---- */

/* What an earlier turn of its chat left here. */
static void find_prefix(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    uint32_t most = committed(d) - 1, found = ft_sim_prefixes_take(s->prefixes, d->kept);
    d->n_kv = found < most ? found : most;
    hold(s, d, blocks_for(d->n_kv));
}

void ft_sim_server_open(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    if (s->how.admits) {
        bool yes = ft_sim_admits(s, d);
        ft_sim_queue_put(&s->queue, s->now_us + ft_sim_delay_us(s, d),
                         yes ? EVENT_OPENED : EVENT_REFUSED, who);
        if (!yes)
            return;
        ft_gain_init(&d->gain, &s->usual_gain);
    }
    d->open = d->fresh = d->taken = true;
    d->opened_tok = d->done;
    d->away = (ft_away){0};
    d->verdict = ft_unknown();
    d->open_us = d->used_us = s->now_us;
    if (s->prefixes)
        find_prefix(s, who);
    if (!s->how.drafts) {
        d->here = true;
        d->n_draft = d->n_accept = 0;
        d->arrival_us = s->now_us;
    }
    update(s, who);
}

void ft_sim_server_draft(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    const ft_promise promise = ft_sim_promise(s, d);
    const ft_promise_round round = {.gain_tok = ft_sim_gain(s, d),
                                    .away_us = d->draft_us + ft_sim_longest_rtt_us(s),
                                    .at_us = s->now_us};
    d->here = true;
    d->arrival_us = d->used_us = s->now_us;
    if (d->verdict.known)
        ft_away_saw(&d->away, s->now_us - d->verdict.us);
    d->due_us = ft_promise_due(&promise, &round);
    d->owed_us = ft_promise_owed(&promise);
    d->budget_us = ft_promise_budget(&promise, &round);
    update(s, who);
}

/* ---- a pass begins ---- */

static ft_work work_of(const sim *s, const device *d)
{
    ft_work w = {.n_past = d->n_kv, .gain_tok = (float)ft_sim_gain(s, d)};
    if (wants_prefill(s, d)) {
        w.kind = FT_WORK_PREFILL;
        w.arrival_us = d->fresh ? d->open_us : d->arrival_us;
        w.n_tok = committed(d) - 1 - d->n_kv;
    } else {
        w.kind = FT_WORK_VERIFY;
        w.arrival_us = d->arrival_us;
        w.deadline = ft_known(d->due_us);
        w.even_us = d->budget_us;
        w.owed_us = d->owed_us;
        w.tokens_per_s = (float)d->speed;
        w.edge_drafts = s->how.drafts;
        w.n_tok = committed(d) - d->n_kv + d->n_draft;
        w.n_out = 1 + d->n_draft;
    }
    w.kv_blocks = blocks_for(w.n_past + w.n_tok) - d->blocks;
    return w;
}

/* The device to evict for the oldest work. NULL: only `oldest` holds KV. */
static device *victim(sim *s, const device *oldest)
{
    device *best = NULL;
    ft_holder of_best = {0};
    for (size_t i = 0; i < s->n_members; i++) {
        device *d = &s->devices[s->members[i]];
        const ft_holder holder = {.kind = d->ready ? FT_HOLDER_WAITING : FT_HOLDER_IDLE,
                                  .since_us = d->ready ? d->open_us : d->used_us};
        if (d->blocks == 0 || d == oldest || (best && !ft_evict_before(&holder, &of_best)))
            continue;
        best = d;
        of_best = holder;
    }
    return best;
}

/* Makes room for the oldest work. No pass is running. */
static void make_room(sim *s)
{
    device *oldest = NULL;
    ft_work need = {0};
    for (size_t i = 0; i < s->n_ready; i++) {
        device *d = &s->devices[s->ready[i]];
        const ft_work w = work_of(s, d);
        if (!oldest || w.arrival_us < need.arrival_us) {
            oldest = d;
            need = w;
        }
    }
    while (oldest && need.kv_blocks > s->limits.kv_blocks_free) {
        device *d = victim(s, oldest);
        if (!d)
            return;
        hold(s, d, 0);
        d->n_kv = 0;
        s->out->kv_released++;
        update(s, (uint32_t)(d - s->devices));
    }
}

static void add(sim *s, device *d, const ft_work *w, uint32_t n_tok)
{
    bool prompt = w->kind == FT_WORK_PREFILL;
    s->pass = ft_pass_plus(s->pass, w->n_past, n_tok, prompt ? 0 : w->n_out);
    /* A text that is new, or whose KV is computed again, is a cold start. */
    if (prompt || d->n_kv == 0)
        s->prompts = ft_pass_plus(s->prompts, w->n_past, n_tok, prompt ? 0 : w->n_out);
    hold(s, d, blocks_for(w->n_past + n_tok));
}

static void count(sim *s, ft_spike_cause *cause)
{
    *cause = ft_spike_observe(&s->spikes, s->cost, &s->pass, &s->prompts, s->pass_us);
    if (!ft_sim_counted(s))
        return;
    s->out->spike[*cause]++;
    s->out->passes++;
    s->out->rows += s->pass.rows;
    s->out->busy_us += (uint64_t)s->pass_us;
}

void ft_sim_server_run(sim *s)
{
    const bool more = s->queue.n > 0 && s->queue.events[0].at_us <= s->now_us;
    if (more || s->busy || s->n_ready == 0)
        return;
    make_room(s);
    for (size_t i = 0; i < s->n_ready; i++) {
        s->of[i] = s->ready[i];
        s->work[i] = work_of(s, &s->devices[s->of[i]]);
    }
    const size_t n = ft_sim_hold(s, s->n_ready);
    if (n == 0)
        return;
    s->limits.max_verify = ft_sim_cap(s, n);
    s->n_picks = s->how.policy->pick(s->work, n, &s->limits, s->now_us, s->picks);
    s->pass = s->prompts = (ft_pass){0};
    for (size_t i = 0; i < s->n_picks; i++) {
        uint32_t who = s->of[s->picks[i].index];
        s->pick_of[i] = who;
        add(s, &s->devices[who], &s->work[s->picks[i].index], s->picks[i].n_tok);
        s->devices[who].in_pass = true;
        update(s, who);
    }
    if (s->n_picks == 0)
        return;
    /* A mean distance of `error` is a standard deviation of sqrt(pi / 2) times that. */
    double off = 1 + s->config->costs.error * 1.2533 * ft_rng_normal(&s->noise);
    double us = (double)ft_cost_predict(s->cost, &s->pass) * fmax(off, 0.25);
    s->pass_us = us > 1 ? (int64_t)us : 1;
    if (s->pass.rows > s->out->most_rows)
        s->out->most_rows = s->pass.rows;
    s->busy = true;
    ft_sim_queue_put(&s->queue, s->now_us + s->pass_us, EVENT_PASS, 0);
}

bool ft_sim_next(sim *s, int64_t until_us, ft_sim_event *out)
{
    const int64_t at_us = s->queue.n > 0 ? s->queue.events[0].at_us : INT64_MAX;
    if (s->look.known && s->look.us < at_us && s->look.us < until_us) {
        *out = (ft_sim_event){.at_us = s->look.us, .kind = EVENT_LOOK};
        s->look = ft_unknown();
        return true;
    }
    if (at_us >= until_us)
        return false;
    return ft_sim_queue_take(&s->queue, out);
}

/* ---- a pass is over ---- */

/* Text of a round, which becomes the device's. */
static uint32_t commit(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    uint32_t left = d->response - d->done, tokens = 1 + d->n_accept;
    tokens = tokens < left ? tokens : left;
    d->done += tokens;
    const ft_gain_round round = {
        .kind = ft_sim_gain_kind(s), .rows = 1 + d->n_draft, .tok = tokens};
    ft_gain_saw(&d->gain, &round);
    ft_sim_admit_saw(s, d, &round);
    s->out->tokens_all += tokens;
    if (!d->first.known) { /* drawing its delay would change all later draws */
        d->first = ft_known(s->now_us + ft_sim_usual_delay_us(s));
        d->first_tok = tokens;
    }
    if (s->opts->tokens)
        s->opts->tokens[who] += tokens;
    return tokens;
}

/* Counts the verdict of a draft: late or in time. */
static void count_round(sim *s, const device *d, ft_spike_cause cause)
{
    ft_late_round at = ft_sim_round_times(s, d);
    at.spike = cause != FT_SPIKE_NONE;
    const ft_sim_round round = {.class = d->class,
                                .queue_us = at.pass_us - at.arrival_us,
                                .verify_us = s->pass_us,
                                .late = ft_late_cause(&at)};
    s->out->late[d->class][round.late]++;
    if (s->opts->on_round)
        s->opts->on_round(s->opts->ctx, &round);
}

static void verdict(sim *s, uint32_t who, ft_spike_cause cause)
{
    device *d = &s->devices[who];
    uint32_t tokens = commit(s, who);
    if (s->how.drafts && ft_sim_counted(s))
        count_round(s, d, cause);
    bool ended = d->done == d->response;
    d->n_kv = s->how.keeps_kv && !ended ? committed(d) - 1 : 0;
    hold(s, d, blocks_for(d->n_kv));
    if (ended && s->prefixes) {
        ft_sim_prefixes_put(s->prefixes, d->kept, committed(d) - 1);
        ft_sim_prefixes_trim(s->prefixes, s->limits.kv_blocks_free);
    }
    d->here = !s->how.drafts && !ended;
    d->open = d->open && !ended;
    d->fresh = false;
    d->used_us = d->arrival_us = s->now_us;
    d->verdict = ft_known(s->now_us);
    if (ft_sim_counted(s)) {
        s->out->tokens += tokens;
        s->out->rounds++;
        s->out->drafted += d->n_draft;
        s->out->accepted += d->n_accept;
    }
    if (ended)
        ft_sim_queue_put(&s->queue, s->now_us + ft_sim_delay_us(s, d), EVENT_END, who);
    else if (s->how.drafts)
        ft_sim_queue_put(&s->queue, s->now_us + ft_sim_delay_us(s, d), EVENT_VERDICT, who);
}

void ft_sim_server_pass_over(sim *s)
{
    ft_spike_cause cause;
    count(s, &cause);
    s->busy = false;
    for (size_t i = 0; i < s->n_picks; i++) {
        uint32_t who = s->pick_of[i];
        device *d = &s->devices[who];
        d->in_pass = false;
        if (wants_prefill(s, d))
            d->n_kv += s->picks[i].n_tok;
        else
            verdict(s, who, cause);
        update(s, who);
    }
}
