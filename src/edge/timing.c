// SPDX-License-Identifier: Apache-2.0
// Times of rounds. Invariant: a time is unknown until it was measured; a round is not measured
// across a lost stream. Knows neither links nor drafts.
#include "edge/timing.h"

#include <math.h>

#include "edge/tuning.h"

#define TUNE (ft_edge_tune->timing)

/* An answer is overdue after so many times the slowest lately, and not before so long. */
#define SLOWER_THAN    20
#define LIMIT_LEAST_US 10000000
/* More time for Opened: it comes between two passes, and one with a long prompt in a large model
 * may take as long. Then for each token of the prompt on a slow uplink; for each that the server
 * reads, alone on a slow machine. */
#define OPENED_US     20000000
#define SENT_TOKEN_US 1000
#define READ_TOKEN_US 100000
#define LONGER_MOST   3 /* times, for a server that is alive: it may have lost the round */
#define DOUBLED_MOST  8 /* times in all */

void ft_timing_opens(ft_timing *t, uint32_t prompt_tok)
{
    t->first = true;
    t->early = ft_unknown();
    t->answer.extra_us = OPENED_US + (int64_t)SENT_TOKEN_US * prompt_tok;
    t->answer.n_longer = 0;
}

void ft_timing_reads(ft_timing *t, uint32_t n_tok)
{
    t->answer.extra_us = (int64_t)READ_TOKEN_US * n_tok;
    t->answer.n_longer = 0;
}

void ft_timing_waited(ft_timing *t, int64_t us)
{
    const int64_t faded_us = t->answer.slowest_us - t->answer.slowest_us / 8;
    if (!t->first)
        t->answer.slowest_us = us > faded_us ? us : faded_us;
    t->answer.extra_us = 0;
    t->answer.n_longer = t->answer.n_overdue = 0;
}

int64_t ft_timing_limit_us(const ft_timing *t)
{
    const int64_t slow_us = SLOWER_THAN * t->answer.slowest_us;
    const uint32_t doubled = t->answer.n_longer + t->answer.n_overdue;
    return ((slow_us > LIMIT_LEAST_US ? slow_us : LIMIT_LEAST_US) + t->answer.extra_us)
           << (doubled < DOUBLED_MOST ? doubled : DOUBLED_MOST);
}

bool ft_timing_longer(ft_timing *t)
{
    return t->answer.n_longer < LONGER_MOST && ++t->answer.n_longer;
}

void ft_timing_overdue(ft_timing *t)
{
    t->answer.n_overdue++;
}

void ft_timing_open_sent(ft_timing *t, int64_t now_us, uint64_t counted, bool at_once)
{
    t->line.open_us = now_us;
    t->line.open_bytes = at_once ? counted : 0;
    t->line.counted = counted;
    t->line.draft_bytes = 0;
}

void ft_timing_opened(ft_timing *t, int64_t came_us, uint32_t queue_us)
{
    t->trip = (ft_timing_trip){0};
    if (queue_us > 0)
        t->trip = (ft_timing_trip){FT_UPLINK_OPEN, t->line.open_bytes,
                                   came_us - t->line.open_us - (int64_t)queue_us};
    t->line.open_bytes = 0;
}

void ft_timing_draft_bytes(ft_timing *t, uint64_t before, uint64_t after)
{
    t->line.draft_bytes = before == t->line.counted ? after - before : 0;
    t->line.counted = after;
}

void ft_timing_sent(ft_timing *t, int64_t now_us)
{
    t->sent = ft_known(now_us);
    t->early = ft_unknown();
}

void ft_timing_sent_early(ft_timing *t)
{
    t->early = ft_known(t->came_us);
    t->sent = t->mark; /* as if a draft had arrived at that moment */
}

void ft_timing_verdict(ft_timing *t, int64_t came_us, const ft_msg_verdict *verdict, uint32_t nodes)
{
    const int64_t served_us = (int64_t)verdict->queue_us + verdict->verify_us;
    const int64_t wait_us = came_us - t->sent.us;
    const bool tells = t->sent.known && !t->first && wait_us > 0;
    t->round = t->rtt_sample = t->mark = ft_unknown();
    t->trip = (ft_timing_trip){0};
    if (tells) {
        t->mark = ft_known(t->sent.us + served_us);
        t->round = ft_known(t->early.known ? came_us - t->early.us : wait_us);
        if (nodes > 0)
            ft_mean_saw(&t->wait_us, (double)wait_us, TUNE.weight);
    }
    if (tells && !t->early.known) {
        t->rtt_sample = ft_known(wait_us > served_us ? wait_us - served_us : 0);
        ft_mean_saw(&t->rtt_us, (double)t->rtt_sample.us, TUNE.weight);
        t->trip = (ft_timing_trip){FT_UPLINK_DRAFT, t->line.draft_bytes, t->rtt_sample.us};
    }
    t->sent = ft_unknown();
    t->first = false;
    t->came_us = came_us;
}

void ft_timing_ahead(ft_timing *t, int64_t us)
{
    ft_mean_saw(&t->ahead_us, (double)us, TUNE.weight);
}

ft_known_us ft_timing_near(const ft_timing *t, int64_t now_us, double forward_us)
{
    forward_us = fmax(forward_us, t->ahead_us.value);
    const double left_us = (double)(t->sent.us - now_us) + t->wait_us.value;
    if (!t->wait_us.known || !t->sent.known || left_us >= forward_us || left_us < -forward_us)
        return ft_unknown();
    return ft_known((int64_t)(left_us + forward_us) + 1);
}

uint32_t ft_timing_rtt_us(const ft_timing *t)
{
    return (uint32_t)t->rtt_us.value;
}
