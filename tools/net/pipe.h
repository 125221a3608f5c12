/* SPDX-License-Identifier: Apache-2.0
 *
 * One direction of an emulated link: what goes in comes out later, or never, and in order unless
 * `reorder` says otherwise. Pure: time is an argument, randomness a seed, and which packets are
 * lost or reordered depends on the seed and their order alone. A rate with steps depends on the
 * seed and on the time since the first packet (base/line.h).
 *
 *   push -> lost? (still takes the line's time) -> the line, at the rate, behind a bounded queue
 *        -> delay + 0..jitter -> never before the packet ahead -> reordered? later still -> pop
 *
 * Owned by one thread. */
#ifndef FT_NET_PIPE_H
#define FT_NET_PIPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/line.h"
#include "base/status.h"

enum {
    FT_PIPE_MTU = 1500,
    FT_PIPE_MAX_PACKETS = 1 << 16 /* under way; what comes on top is dropped: 100 MB at most */
};

typedef struct ft_pipe_opts {
    int64_t delay_ns;
    int64_t jitter_ns;  /* up to so much more, evenly distributed */
    ft_line_rate rate;  /* of the line; its seed is the one below */
    int64_t queue_ns;   /* a packet that would wait longer for the line is dropped */
    double loss;        /* share of packets, each by itself */
    double reorder;     /* share of packets that those behind overtake ... */
    int64_t reorder_ns; /* ... as they take so much longer */
    uint64_t seed;
} ft_pipe_opts;

typedef struct ft_packet {
    struct ft_packet *next;
    int64_t came_ns, due_ns;
    uint32_t n; /* bytes */
    uint8_t data[FT_PIPE_MTU];
} ft_packet;

typedef struct ft_pipe_stats {
    uint64_t packets, bytes; /* that went in */
    uint64_t lost;           /* by chance */
    uint64_t dropped;        /* by a full queue */
    uint64_t reordered;      /* made to come later than those behind */
    uint64_t delivered;
    double delay_ns;              /* sum over the delivered, from push to pop: what it really was */
    int64_t late_ns, late_max_ns; /* sum and most: popped so long after they were due */
} ft_pipe_stats;

typedef struct ft_pipe ft_pipe;

/* FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_pipe_create(const ft_pipe_opts *opts, ft_error *err, ft_pipe **out);
void ft_pipe_destroy(ft_pipe *pipe);

/* n <= FT_PIPE_MTU bytes, copied. Times never go back. Without memory the packet is dropped. */
void ft_pipe_push(ft_pipe *pipe, int64_t now_ns, const void *data, size_t n);

/* When the first packet is due; INT64_MAX if none is under way. */
int64_t ft_pipe_due_ns(const ft_pipe *pipe);

/* The first packet if it is due, else NULL. Valid until the next call for this pipe. */
const ft_packet *ft_pipe_pop(ft_pipe *pipe, int64_t now_ns);

/* Since it was made. */
ft_pipe_stats ft_pipe_get_stats(const ft_pipe *pipe);

#endif
