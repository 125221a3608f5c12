// SPDX-License-Identifier: Apache-2.0
// Two FIFOs of packets with times: those in order, and those that are reordered, which all take the
// same time longer. So in each a packet is never due before the one ahead, and no heap is needed.
// Invariant: due_ns does not decrease from first to last. Packets are reused through a free list.
#include "net/pipe.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct fifo {
    ft_packet *first, *last;
} fifo;

struct ft_pipe {
    ft_pipe_opts opts;
    ft_rng rng, reorder_rng;
    fifo in_order, reordered; /* under way */
    ft_packet *popped;        /* lent by the last pop */
    ft_packet *idle;
    size_t n;         /* under way */
    int64_t ahead_ns; /* when the last packet is due, but for reordering */
    ft_line line;
    ft_pipe_stats stats;
};

ft_status ft_pipe_create(const ft_pipe_opts *opts, ft_error *err, ft_pipe **out)
{
    ft_pipe *pipe = calloc(1, sizeof *pipe);
    *out = pipe;
    if (!pipe)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    pipe->opts = *opts;
    pipe->opts.rate.seed = opts->seed;
    ft_line_init(&pipe->line, &pipe->opts.rate);
    ft_rng_init(&pipe->rng, opts->seed);
    ft_rng_init(&pipe->reorder_rng, ~opts->seed);
    return FT_OK;
}

static void free_list(ft_packet *packet)
{
    while (packet) {
        ft_packet *next = packet->next;
        free(packet);
        packet = next;
    }
}

void ft_pipe_destroy(ft_pipe *pipe)
{
    if (!pipe)
        return;
    free_list(pipe->in_order.first);
    free_list(pipe->reordered.first);
    free_list(pipe->idle);
    free(pipe->popped);
    free(pipe);
}

static ft_packet *take_idle(ft_pipe *pipe)
{
    ft_packet *packet = pipe->idle;
    if (packet)
        pipe->idle = packet->next;
    return packet ? packet : malloc(sizeof *packet);
}

static void give_back(ft_pipe *pipe)
{
    if (!pipe->popped)
        return;
    pipe->popped->next = pipe->idle;
    pipe->idle = pipe->popped;
    pipe->popped = NULL;
}

/* When the line has sent n more bytes, or -1 if its queue is full. */
static int64_t take_line(ft_pipe *pipe, int64_t now_ns, size_t n)
{
    if (ft_line_wait_ns(&pipe->line, now_ns) > pipe->opts.queue_ns)
        return -1;
    return ft_line_take(&pipe->line, now_ns, n);
}

static void append(fifo *queue, ft_packet *packet)
{
    packet->next = NULL;
    *(queue->last ? &queue->last->next : &queue->first) = packet;
    queue->last = packet;
}

void ft_pipe_push(ft_pipe *pipe, int64_t now_ns, const void *data, size_t n)
{
    /* All for every packet, so that what happens to the i-th depends on nothing else. */
    double loss = ft_rng_unit(&pipe->rng), jitter = ft_rng_unit(&pipe->rng);
    bool reordered = ft_rng_unit(&pipe->reorder_rng) < pipe->opts.reorder;
    assert(n <= FT_PIPE_MTU);
    pipe->stats.packets++;
    pipe->stats.bytes += n;
    int64_t sent_ns = take_line(pipe, now_ns, n);
    if (loss < pipe->opts.loss) {
        pipe->stats.lost++;
        return;
    }
    ft_packet *packet = sent_ns >= 0 && pipe->n < FT_PIPE_MAX_PACKETS ? take_idle(pipe) : NULL;
    if (!packet) {
        pipe->stats.dropped++;
        return;
    }
    int64_t due = sent_ns + pipe->opts.delay_ns + (int64_t)(jitter * (double)pipe->opts.jitter_ns);
    if (due < pipe->ahead_ns)
        due = pipe->ahead_ns;
    pipe->ahead_ns = due;
    packet->came_ns = now_ns;
    packet->due_ns = due + (reordered ? pipe->opts.reorder_ns : 0);
    packet->n = (uint32_t)n;
    memcpy(packet->data, data, n);
    append(reordered ? &pipe->reordered : &pipe->in_order, packet);
    pipe->stats.reordered += reordered;
    pipe->n++;
}

static int64_t due_ns(const fifo *queue)
{
    return queue->first ? queue->first->due_ns : INT64_MAX;
}

int64_t ft_pipe_due_ns(const ft_pipe *pipe)
{
    int64_t in_order = due_ns(&pipe->in_order), reordered = due_ns(&pipe->reordered);
    return in_order < reordered ? in_order : reordered;
}

const ft_packet *ft_pipe_pop(ft_pipe *pipe, int64_t now_ns)
{
    bool overtaken = due_ns(&pipe->reordered) < due_ns(&pipe->in_order);
    fifo *queue = overtaken ? &pipe->reordered : &pipe->in_order;
    ft_packet *packet = queue->first;
    give_back(pipe);
    if (!packet || packet->due_ns > now_ns)
        return NULL;
    queue->first = packet->next;
    if (!queue->first)
        queue->last = NULL;
    pipe->n--;
    pipe->popped = packet;
    int64_t late = now_ns - packet->due_ns;
    pipe->stats.delivered++;
    pipe->stats.delay_ns += (double)(now_ns - packet->came_ns);
    pipe->stats.late_ns += late;
    if (late > pipe->stats.late_max_ns)
        pipe->stats.late_max_ns = late;
    return packet;
}

ft_pipe_stats ft_pipe_get_stats(const ft_pipe *pipe)
{
    return pipe->stats;
}
