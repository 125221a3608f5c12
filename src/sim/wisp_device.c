// SPDX-License-Identifier: Apache-2.0 Devices: their texts, their drafts, and whether their
// promises were kept. Every device has its own sequence of random numbers. So the draws of one
// device do not depend on the others.
#include <math.h>

#include "sim/wisp_internal.h"

#define AGAIN_US 1000000 /* after a refusal: the pause that a server advises (serve/lifecycle.c) */

int64_t ft_sim_delay_us(sim *s, device *d)
{
    double ms = s->k[FT_SIM_RTT_MS] / 2 + s->k[FT_SIM_JITTER_MS] * ft_rng_unit(&d->rng);
    return (int64_t)(ms * 1000);
}

int64_t ft_sim_usual_delay_us(const sim *s)
{
    return (int64_t)(1000 * (s->k[FT_SIM_RTT_MS] / 2 + s->k[FT_SIM_JITTER_MS] / 2));
}

ft_gain_kind ft_sim_gain_kind(const sim *s)
{
    return s->how.drafts ? FT_GAIN_TREE : FT_GAIN_RUN;
}

double ft_sim_gain(const sim *s, const device *d)
{
    return ft_gain_expected(&d->gain, ft_sim_gain_kind(s));
}

int64_t ft_sim_longest_rtt_us(const sim *s)
{
    return (int64_t)(1000 * (s->k[FT_SIM_RTT_MS] + s->k[FT_SIM_JITTER_MS]));
}

bool ft_sim_counted(const sim *s)
{
    return s->now_us >= s->opts->from_us;
}

static uint32_t length(const sim *s, device *d, double mean)
{
    double around = 1 + s->k[FT_SIM_TEXT_SPREAD] * (2 * ft_rng_unit(&d->rng) - 1);
    double n = round(mean * around);
    return n > 2 ? (uint32_t)n : 2;
}

/* Drafts tokens one after another until the predictor stops (4.1) or there are enough. The token at
 * which the predictor stops is drafted but not sent (eq. (25)). The accepted tokens are those
 * before the first one that the target rejects. */
void ft_sim_device_draft(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    uint32_t most = (uint32_t)s->k[s->how.predicts ? FT_SIM_DRAFT_MOST : FT_SIM_DRAFT_FIXED];
    double token_us = 1e6 / s->k[FT_SIM_DRAFT_PER_S];
    uint32_t drafted = 0;
    bool all = true;
    token_us += s->how.predicts ? s->k[FT_SIM_PREDICTOR_US] : 0;
    d->n_draft = d->n_accept = 0;
    while (d->n_draft < most) {
        bool good = ft_rng_unit(&d->rng) < s->k[FT_SIM_ACCEPT];
        double keep = s->k[good ? FT_SIM_PREDICTOR_KEEPS : FT_SIM_PREDICTOR_MISSES];
        drafted++;
        if (s->how.predicts && ft_rng_unit(&d->rng) >= keep)
            break;
        all = all && good;
        d->n_accept += all;
        d->n_draft++;
    }
    d->draft_us = (int64_t)(drafted * token_us);
    ft_sim_queue_put(&s->queue, s->now_us + d->draft_us + ft_sim_delay_us(s, d), EVENT_DRAFT, who);
}

void ft_sim_device_text(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    d->patience_us = s->now_us + (int64_t)(s->k[FT_SIM_ADMISSION_MS] * 1000);
    d->moved = d->taken = false;
    d->prompt = length(s, d, s->k[FT_SIM_PROMPT_TOK]);
    d->response = length(s, d, s->k[FT_SIM_RESPONSE_TOK]);
    d->done = 0;
    d->first = ft_unknown();
    s->out->asked += s->how.admits && ft_sim_counted(s);
}

void ft_sim_device_ask(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    if (!d->moved) /* else its user asked only once */
        d->begun_us = s->now_us;
    d->running = true;
    if (s->how.keeps_kv)
        ft_sim_queue_put(&s->queue, s->now_us + ft_sim_delay_us(s, d), EVENT_OPEN, who);
    if (s->how.drafts && !s->how.admits) /* else once the text is open */
        ft_sim_device_draft(s, who);
}

/* The edge asks again for a while. A text that a server had opened is asked for once more when that
 * time is over (edge/stream.c). Then the request fails, and the user comes back when the text would
 * have been finished. A moved text is late from its first request on, also while it waits. */
int64_t ft_sim_device_refused(sim *s, uint32_t who, bool *again)
{
    device *d = &s->devices[who];
    const int64_t left_us = d->patience_us - s->now_us;
    *again = left_us >= (d->taken ? 1 : AGAIN_US);
    d->running = *again && d->moved;
    s->out->refused += !*again && ft_sim_counted(s);
    if (!*again)
        return (int64_t)(d->response / d->speed * 1e6);
    return left_us < AGAIN_US ? left_us : AGAIN_US;
}

ft_promise_kept ft_sim_device_kept(const device *d, int64_t now_us)
{
    const ft_promise_text text = {.tokens_per_s = d->speed,
                                  .asked_us = d->begun_us,
                                  .first = d->first,
                                  .first_tok = d->first_tok,
                                  .had_tok = d->response};
    return ft_promise_judge(&text, now_us);
}

void ft_sim_device_count(sim *s, const device *d, ft_promise_kept kept)
{
    s->out->texts[d->class]++;
    s->out->slow[d->class] += !kept.from_request;
    s->out->slow_from_first[d->class] += !kept.from_first;
}

ft_promise ft_sim_promise(const sim *s, const device *d)
{
    return (ft_promise){.tokens_per_s = d->speed,
                        .asked_us = d->open_us - ft_sim_longest_rtt_us(s),
                        .had_tok = d->done - d->opened_tok};
}

ft_late_round ft_sim_round_times(const sim *s, const device *d)
{
    return (ft_late_round){.arrival_us = d->arrival_us,
                           .pass_us = s->now_us - s->pass_us,
                           .verdict_us = s->now_us,
                           .budget_us = d->budget_us};
}

void ft_sim_device_end(sim *s, uint32_t who)
{
    device *d = &s->devices[who];
    d->running = false;
    if (ft_sim_counted(s)) {
        const ft_promise_kept kept = ft_sim_device_kept(d, s->now_us);
        ft_sim_device_count(s, d, kept);
        s->out->kept_tokens += kept.from_request ? d->response : 0;
    }
}

void ft_sim_device_count_late(sim *s, const device *d)
{
    const ft_promise_kept kept = ft_sim_device_kept(d, s->opts->until_us);
    if (d->running && !kept.from_request)
        ft_sim_device_count(s, d, kept);
}
