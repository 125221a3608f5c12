/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of rounds as the edge sees them: when a draft was sent, when its verdict came, and the
 * network's part of that. `now_us` is an argument; no clock, no link. Owned by the generation's
 * thread.
 *
 * If the draft model worked while a verdict came, its time lies between the last look at the link
 * and this one. The network's part cannot be measured from: the first verdict of a stream (it waits
 * for the server's prefill), verdicts of a run after its first, verdicts of a next run, and those
 * of a round that began with an early draft.
 */
#ifndef FT_EDGE_TIMING_H
#define FT_EDGE_TIMING_H

#include "base/known.h"
#include "wire/messages.h"

typedef struct ft_timing {
    /* The outstanding round. */
    ft_known_us sent;  /* when its draft was sent; after an early draft, when one would have been;
                          unknown: the round is not measured */
    ft_known_us early; /* known: it began with an early draft, when the last verdict came */
    bool first;        /* its verdict is the first of a stream */
    int64_t looked_us; /* the last look at the link that found nothing */
    bool worked;       /* the draft model has worked since then */
    /* The last verdict. */
    ft_known_us mark;       /* when the server gave it (spec/control.h), on the edge's clock */
    ft_known_us round;      /* time from sending its draft to the verdict */
    ft_known_us rtt_sample; /* the network's part of that */
    /* Smoothed. */
    ft_mean rtt_us;
    ft_mean wait_us; /* for the verdict on a tree */
} ft_timing;

/* A new stream was opened. */
void ft_timing_opened(ft_timing *t);
/* A draft was sent. */
void ft_timing_sent(ft_timing *t, int64_t now_us);
/* The last verdict took an early draft, so the next round has begun. */
void ft_timing_sent_early(ft_timing *t, int64_t now_us);
/* A verdict on the outstanding round came; its draft has `nodes` nodes. */
void ft_timing_verdict(ft_timing *t, int64_t now_us, const ft_msg_verdict *verdict, uint32_t nodes);

/* Known: the verdict is expected before a draft forward begun now would end; the value is how long
 * to wait for it. Not known: it is expected later, or it is much later than others were. */
ft_known_us ft_timing_near(const ft_timing *t, int64_t now_us, double forward_us);
/* The round-trip time for a new draft's message; 0: not known, as on the wire. */
uint32_t ft_timing_rtt_us(const ft_timing *t);

#endif
