// SPDX-License-Identifier: Apache-2.0 Runs one simulation: sets it up, handles events in order of
// time, and counts at the end. All state belongs to the call.
#include "sim/wisp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/wisp_internal.h"

#define COST_MAX_US 1e6 /* of one unit of a factor: sums stay far below the range of a clock */

serving ft_sim_serving(const ft_sim_config *config, ft_sim_mode mode)
{
    static const serving how[FT_SIM_MODES] = {
        [FT_SIM_MODE_WISP] = {&ft_sched_wisp, .drafts = true, .predicts = true, .keeps_kv = true,
                              .admits = true},
        [FT_SIM_MODE_FCFS] = {&ft_sched_fcfs, .drafts = true},
        [FT_SIM_MODE_CENTRALIZED] = {&ft_sched_fcfs, .keeps_kv = true},
    };
    serving out = how[mode];
    if (mode == FT_SIM_MODE_WISP && config->policy)
        out.policy = config->policy;
    out.admits = out.admits && config->k[FT_SIM_ADMISSION_MS] > 0;
    return out;
}

double ft_sim_longest_tok(const double *k)
{
    return (k[FT_SIM_PROMPT_TOK] + k[FT_SIM_RESPONSE_TOK]) * (1 + k[FT_SIM_TEXT_SPREAD]);
}

ft_status ft_sim_check(const ft_sim_config *config, double longest_tok, ft_error *err)
{
    const double *k = config->k;
    double longest = longest_tok + fmax(k[FT_SIM_DRAFT_MOST], k[FT_SIM_DRAFT_FIXED]) + 4;
    if (longest + FT_SIM_BLOCK_TOK > k[FT_SIM_KV_BLOCKS] * FT_SIM_BLOCK_TOK)
        return ft_error_set(err, FT_INVALID,
                            "simulate: a text of up to %.0f tokens does not fit kv_blocks (%.0f "
                            "tokens)",
                            longest, k[FT_SIM_KV_BLOCKS] * FT_SIM_BLOCK_TOK);
    if (k[FT_SIM_MAX_ROWS] < k[FT_SIM_DRAFT_MOST] + 1)
        return ft_error_set(
            err, FT_INVALID,
            "simulate: a draft of draft_most (%g) tokens does not fit max_rows (%g)",
            k[FT_SIM_DRAFT_MOST], k[FT_SIM_MAX_ROWS]);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (config->costs.us[i] > COST_MAX_US)
            return ft_error_set(err, FT_INVALID, "simulate: costs of %g us and more: '%s'",
                                COST_MAX_US, ft_cost_factor_name[i]);
    return FT_OK;
}

static ft_status check(const ft_sim_opts *o, ft_error *err)
{
    if (o->n_devices < 1 || o->n_devices > FT_SIM_DEVICES_MAX)
        return ft_error_set(err, FT_INVALID, "simulate: 1 to %u devices", FT_SIM_DEVICES_MAX);
    if (o->until_us <= o->from_us)
        return ft_error_set(err, FT_INVALID, "simulate: there is no time to be counted");
    return ft_sim_check(o->config, ft_sim_longest_tok(o->config->k), err);
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
        ft_sim_server_join(s, i);
        int64_t at_us = (int64_t)((double)o->ramp_us * ft_rng_unit(&d->rng));
        ft_sim_queue_put(&s->queue, at_us, EVENT_BEGIN, i);
    }
}

static void begin(sim *s, uint32_t who)
{
    ft_sim_device_text(s, who);
    ft_sim_device_ask(s, who);
}

static void refused(sim *s, uint32_t who)
{
    bool again;
    int64_t wait_us = ft_sim_device_refused(s, who, &again);
    ft_sim_queue_put(&s->queue, s->now_us + wait_us, again ? EVENT_ASK : EVENT_BEGIN, who);
}

static void take(sim *s, const ft_sim_event *e)
{
    s->now_us = e->at_us;
    switch ((event_kind)e->kind) {
    case EVENT_BEGIN:
        begin(s, e->who);
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
        refused(s, e->who);
        break;
    case EVENT_OPENED:
    case EVENT_VERDICT:
        ft_sim_device_draft(s, e->who);
        break;
    case EVENT_END:
        ft_sim_device_end(s, e->who);
        begin(s, e->who);
        break;
    case EVENT_PASS:
        ft_sim_server_pass_over(s);
        break;
    case EVENT_LOOK: /* the server looks behind every event */
        break;
    }
}

static void run(sim *s)
{
    ft_sim_event e;
    while (ft_sim_next(s, s->opts->until_us, &e)) {
        take(s, &e);
        ft_sim_server_run(s);
    }
    for (uint32_t i = 0; i < s->opts->n_devices; i++)
        ft_sim_device_count_late(s, &s->devices[i]);
    s->out->counted_us = (uint64_t)(s->opts->until_us - s->opts->from_us);
}

ft_status ft_sim_wisp_run(const ft_sim_opts *opts, ft_error *err, ft_sim_result *out)
{
    size_t n = opts->n_devices;
    sim s = {.opts = opts, .config = opts->config, .k = opts->config->k, .out = out};
    ft_cost cost;
    s.how = ft_sim_serving(opts->config, opts->mode);
    *out = (ft_sim_result){0};
    ft_status status = check(opts, err);
    if (status != FT_OK)
        return status;
    if (opts->tokens)
        memset(opts->tokens, 0, n * sizeof *opts->tokens);
    s.devices = calloc(n, sizeof *s.devices);
    if (!s.devices)
        status = ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    if (status == FT_OK)
        status = ft_sim_server_reserve(&s, n, err);
    if (status == FT_OK) {
        ft_cost_init(&cost);
        ft_cost_prime(&cost, s.config->costs.us, s.config->costs.error);
        ft_sim_server_init(&s, &cost, ft_sim_longest_tok(s.k), opts->seed << 32);
        set_up_devices(&s);
        run(&s);
    }
    ft_sim_server_deinit(&s);
    free(s.devices);
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
