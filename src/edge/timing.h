/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of rounds as the edge sees them: when a draft was sent, when its verdict came, and the
 * network's part of that. `now_us` and `came_us` are arguments; no clock, no link. Owned by the
 * generation's thread.
 *
 * The draft model may work while an answer comes. So what counts is when it came, and not when it
 * was read (ft_server_msg.waited_us).
 *
 * Some verdicts do not tell the network's part. The first one of a stream waits for the server's
 * prefill. The verdicts of a run after its first, those of a next run, and those of a round that
 * began with an early draft answer nothing that was sent when their round began.
 *
 * A round trip of bytes (ft_timing_trip) tells about the uplink's rate. Only messages that went out
 * alone are measured so.
 *
 * Times also say when to give a stream up: an answer is overdue if it takes much longer than others
 * did lately, and never before ten seconds. For what the server must do first there is more time:
 * read an Open, and read the text. That estimate may be too short for a slow or crowded server. So
 * a server that says that it is alive gets twice the time, three times; and each answer that is
 * overdue doubles the time for the next.
 */
#ifndef FT_EDGE_TIMING_H
#define FT_EDGE_TIMING_H

#include "base/known.h"
#include "spec/uplink.h"
#include "wire/messages.h"

/* A message of so many bytes, and the network's part of the time until its answer; no bytes: not
 * measured. */
typedef struct ft_timing_trip {
    ft_uplink_kind kind;
    uint64_t bytes;
    int64_t us;
} ft_timing_trip;

typedef struct ft_timing {
    /* The outstanding round. */
    ft_known_us sent;  /* when its draft was sent; after an early draft, when one would have been;
                          unknown: the round is not measured */
    ft_known_us early; /* known: it began with an early draft, when the last verdict came */
    bool first;        /* its verdict is the first of a stream */
    /* The last verdict. */
    int64_t came_us;
    ft_known_us mark;       /* when the server gave it (spec/control.h), on the edge's clock */
    ft_known_us round;      /* time from sending its draft to the verdict */
    ft_known_us rtt_sample; /* the network's part of that */
    /* Smoothed. */
    ft_mean rtt_us;
    ft_mean wait_us;  /* for the verdict on a tree */
    ft_mean ahead_us; /* of a draft forward while a verdict is awaited */
    /* Of the present link. */
    struct {
        uint64_t counted;     /* bytes sent, after the last message that was measured */
        uint64_t draft_bytes; /* of the outstanding round's Draft; 0: it was not alone */
        uint64_t open_bytes;  /* of Open; 0: not to be measured */
        int64_t open_us;      /* when it was sent */
    } line;
    ft_timing_trip trip; /* of the last answer */
    /* Of answers, Opened or a verdict. */
    struct {
        int64_t slowest_us; /* of recent verdicts; fades; those after reading do not count */
        int64_t extra_us;   /* for what the server does before the next one */
        uint32_t n_longer;  /* how often its time was doubled, as the server is alive */
        uint32_t n_overdue; /* since the last verdict */
    } answer;
} ft_timing;

/* Open goes out, with a prompt of so many tokens. */
void ft_timing_opens(ft_timing *t, uint32_t prompt_tok);
/* Opened came: the server has so many tokens to read before it gives a verdict. */
void ft_timing_reads(ft_timing *t, uint32_t n_tok);
/* A verdict came after this time. */
void ft_timing_waited(ft_timing *t, int64_t us);
/* How long the next answer may take. */
int64_t ft_timing_limit_us(const ft_timing *t);
/* It took longer, and the server is alive. False: it had more time three times already. */
bool ft_timing_longer(ft_timing *t);
/* It took longer, and is not waited for any more. */
void ft_timing_overdue(ft_timing *t);

/* Open went out over a new link, which has counted so many bytes then. at_once: the link had a
 * connection. */
void ft_timing_open_sent(ft_timing *t, int64_t now_us, uint64_t counted, bool at_once);
/* Opened came: measures the trip. queue_us: the server's time in it; 0: not known. */
void ft_timing_opened(ft_timing *t, int64_t came_us, uint32_t queue_us);
/* The draft that was sent last: the link has counted so many bytes before it and with it. */
void ft_timing_draft_bytes(ft_timing *t, uint64_t before, uint64_t after);

/* A draft was sent. */
void ft_timing_sent(ft_timing *t, int64_t now_us);
/* The last verdict took an early draft, so the next round has begun. */
void ft_timing_sent_early(ft_timing *t);
/* A verdict on the outstanding round came; its draft has `nodes` nodes. Measures the trip. */
void ft_timing_verdict(ft_timing *t, int64_t came_us, const ft_msg_verdict *verdict,
                       uint32_t nodes);

/* A draft forward took so long while a verdict was awaited. A target in the same process makes it
 * take longer than others. */
void ft_timing_ahead(ft_timing *t, int64_t us);
/* Known: the verdict is expected before a draft forward begun now would end; the value is how long
 * to wait for it. Not known: it is expected later, or it is much later than others were.
 * forward_us: of a draft forward while no verdict is awaited. */
ft_known_us ft_timing_near(const ft_timing *t, int64_t now_us, double forward_us);
/* The round-trip time for a new draft's message; 0: not known, as on the wire. */
uint32_t ft_timing_rtt_us(const ft_timing *t);

#endif
