// SPDX-License-Identifier: Apache-2.0 Runs one simulation: sets it up, handles events in order of
// time, and counts at the end. All state belongs to the call.
#include "sim/wisp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/prompt_share.h"
#include "sim/wisp_internal.h"

#define COST_MAX_US 1e6 /* of one unit of a factor: sums stay far below the range of a clock */

static const serving *serving_of(ft_sim_mode mode)
{
    static const serving how[FT_SIM_MODES] = {
        [FT_SIM_MODE_WISP] = {&ft_sched_wisp, .drafts = true, .predicts = true, .keeps_kv = true,
                              .admits = true},
        [FT_SIM_MODE_FCFS] = {&ft_sched_fcfs, .drafts = true},
        [FT_SIM_MODE_CENTRALIZED] = {&ft_sched_fcfs, .keeps_kv = true},
    };
    return &how[mode];
}

/* Tokens of the longest text, with a draft. */
static double longest(const double *k)
{
    double text = (k[FT_SIM_PROMPT_TOK] + k[FT_SIM_RESPONSE_TOK]) * (1 + k[FT_SIM_TEXT_SPREAD]);
    return text + fmax(k[FT_SIM_DRAFT_MOST], k[FT_SIM_DRAFT_FIXED]) + 4;
}

static ft_status check(const ft_sim_opts *o, ft_error *err)
{
    const double *k = o->config->k;
    if (o->n_devices < 1 || o->n_devices > FT_SIM_DEVICES_MAX)
        return ft_error_set(err, FT_INVALID, "simulate: 1 to %u devices", FT_SIM_DEVICES_MAX);
    if (o->until_us <= o->from_us)
        return ft_error_set(err, FT_INVALID, "simulate: there is no time to be counted");
    if (longest(k) + FT_SIM_BLOCK_TOK > k[FT_SIM_KV_BLOCKS] * FT_SIM_BLOCK_TOK)
        return ft_error_set(err, FT_INVALID,
                            "simulate: a text of up to %.0f tokens does not fit kv_blocks (%.0f "
                            "tokens)",
                            longest(k), k[FT_SIM_KV_BLOCKS] * FT_SIM_BLOCK_TOK);
    if (k[FT_SIM_MAX_ROWS] < k[FT_SIM_DRAFT_MOST] + 1)
        return ft_error_set(
            err, FT_INVALID,
            "simulate: a draft of draft_most (%g) tokens does not fit max_rows (%g)",
            k[FT_SIM_DRAFT_MOST], k[FT_SIM_MAX_ROWS]);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (o->config->costs.us[i] > COST_MAX_US)
            return ft_error_set(err, FT_INVALID, "simulate: costs of %g us and more: '%s'",
                                COST_MAX_US, ft_cost_factor_name[i]);
    return FT_OK;
}

static void set_up_server(sim *s)
{
    const double *k = s->k;
    const ft_prompt_share share = {.budget_us = (int64_t)(k[FT_SIM_PREFILL_MS] * 1000),
                                   .others = true};
    double rows = k[FT_SIM_MAX_ROWS];
    if (!s->how.keeps_kv) /* a verification computes all of a text and is not split */
        rows = fmax(rows, ceil(longest(k)));
    ft_cost_init(&s->cost);
    ft_cost_prime(&s->cost, s->config->costs.us, s->config->costs.error);
    s->limits = (ft_sched_limits){.max_rows = (uint32_t)rows,
                                  .max_verify = (uint32_t)k[FT_SIM_MAX_SESSIONS],
                                  .prefill_us = ft_prompt_share_us(&share),
                                  .cost = &s->cost,
                                  .kv_blocks_free = (uint32_t)k[FT_SIM_KV_BLOCKS],
                                  .kv_block_tok = FT_SIM_BLOCK_TOK,
                                  .guard_us = (int64_t)(k[FT_SIM_GUARD_MS] * 1000),
                                  .static_batch = s->config->static_batch,
                                  .static_wait_us = s->config->static_wait_us};
    s->out->kv_blocks_least = s->limits.kv_blocks_free;
    ft_rng_init(&s->noise, s->opts->seed << 32);
}

static void set_up_devices(sim *s)
{
    const ft_sim_opts *o = s->opts;
    for (uint32_t i = 0; i < o->n_devices; i++) {
        device *d = &s->devices[i];
        d->class = o->class == FT_SIM_MIXED ? i % (uint32_t)s->config->n_classes : o->class;
        d->speed = s->config->tokens_per_s[d->class];
        ft_gain_init(&d->gain, NULL);
        ft_rng_init(&d->rng, o->seed << 32 | (i + 1));
        int64_t at_us = (int64_t)((double)o->ramp_us * ft_rng_unit(&d->rng));
        ft_sim_queue_put(&s->queue, at_us, EVENT_BEGIN, i);
    }
}

static void take(sim *s, const ft_sim_event *e)
{
    s->now_us = e->at_us;
    switch ((event_kind)e->kind) {
    case EVENT_BEGIN:
        ft_sim_device_begin(s, e->who);
        break;
    case EVENT_ASK:
        ft_sim_device_ask(s, e->who);
        break;
    case EVENT_OPEN:
        ft_sim_server_open(s, e->who);
        break;
    case EVENT_DRAFT:
        ft_sim_server_draft(s, e->who);
        break;
    case EVENT_REFUSED:
        ft_sim_device_refused(s, e->who);
        break;
    case EVENT_OPENED:
    case EVENT_VERDICT:
        ft_sim_device_draft(s, e->who);
        break;
    case EVENT_END:
        ft_sim_device_end(s, e->who);
        break;
    case EVENT_PASS:
        ft_sim_server_pass_over(s);
        break;
    case EVENT_LOOK: /* the server looks behind every event */
        break;
    }
}

/* Counts the texts that are unfinished at the end and can no longer keep their promise. Without
 * them the slowest texts would not be counted. */
static void count_late(sim *s)
{
    for (uint32_t i = 0; i < s->opts->n_devices; i++) {
        const device *d = &s->devices[i];
        const ft_promise_kept kept = ft_sim_device_kept(d, s->opts->until_us);
        if (d->running && !kept.from_request)
            ft_sim_device_count(s, d, kept);
    }
}

static void run(sim *s)
{
    ft_sim_event e;
    while (s->queue.n > 0 && s->queue.events[0].at_us < s->opts->until_us) {
        (void)ft_sim_queue_take(&s->queue, &e);
        take(s, &e);
        /* The policy chooses only after all events of this moment. */
        if (s->queue.n == 0 || s->queue.events[0].at_us > s->now_us)
            ft_sim_server_run(s);
    }
    count_late(s);
    s->out->counted_us = (uint64_t)(s->opts->until_us - s->opts->from_us);
}

ft_status ft_sim_wisp_run(const ft_sim_opts *opts, ft_error *err, ft_sim_result *out)
{
    size_t n = opts->n_devices;
    sim s = {.opts = opts, .config = opts->config, .k = opts->config->k, .out = out};
    s.how = *serving_of(opts->mode);
    if (opts->mode == FT_SIM_MODE_WISP && opts->config->policy)
        s.how.policy = opts->config->policy;
    s.how.admits = s.how.admits && s.k[FT_SIM_ADMISSION_MS] > 0;
    *out = (ft_sim_result){0};
    ft_status status = check(opts, err);
    if (status != FT_OK)
        return status;
    if (opts->tokens)
        memset(opts->tokens, 0, n * sizeof *opts->tokens);
    s.devices = calloc(n, sizeof *s.devices);
    s.ready = calloc(n, sizeof *s.ready);
    s.of = calloc(n, sizeof *s.of);
    s.work = calloc(n, sizeof *s.work);
    s.picks = calloc(n, sizeof *s.picks);
    s.pick_of = calloc(n, sizeof *s.pick_of);
    /* Events at a time, at most: of a device its prompt, its draft or verdict, and its end; of the
     * server the end of a pass and a look. */
    status = ft_sim_queue_init(&s.queue, 4 * n + 2, err);
    if (status == FT_OK && (!s.devices || !s.ready || !s.of || !s.work || !s.picks || !s.pick_of))
        status = ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    if (status == FT_OK) {
        set_up_server(&s);
        set_up_devices(&s);
        run(&s);
    }
    ft_sim_queue_deinit(&s.queue);
    free(s.devices);
    free(s.ready);
    free(s.of);
    free(s.work);
    free(s.picks);
    free(s.pick_of);
    return status;
}

void ft_sim_wisp_times(ft_sim_opts *o)
{
    const double *k = o->config->k;
    double speed = o->config->tokens_per_s[o->class == FT_SIM_MIXED ? 0 : o->class];
    double text_us = k[FT_SIM_RESPONSE_TOK] / speed * 1e6;
    o->ramp_us = (int64_t)(k[FT_SIM_RAMP_TEXTS] * text_us);
    o->from_us = o->ramp_us +
                 (int64_t)(text_us / 2); /* few of the texts that end then met a half-full server */
    o->until_us = o->from_us + (int64_t)(k[FT_SIM_MEASURE_TEXTS] * text_us);
}
