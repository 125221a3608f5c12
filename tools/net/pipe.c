// SPDX-License-Identifier: Apache-2.0
// A FIFO of packets with times. Since a packet is never due before the one ahead, no heap is
// needed. Invariant: due_ns does not decrease from first to last. Packets are reused through a free
// list.
#include "net/pipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct ft_pipe {
    ft_pipe_opts opts;
    ft_rng rng;
    ft_packet *first, *last; /* under way */
    ft_packet *popped;       /* lent by the last pop */
    ft_packet *idle;
    size_t n;             /* under way */
    int64_t line_free_ns; /* when the line has sent all that it took */
    ft_pipe_stats stats;
};

ft_status ft_pipe_create(const ft_pipe_opts *opts, ft_error *err, ft_pipe **out)
{
    ft_pipe *pipe = calloc(1, sizeof *pipe);
    *out = pipe;
    if (!pipe)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    pipe->opts = *opts;
    ft_rng_init(&pipe->rng, opts->seed);
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
    free_list(pipe->first);
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
    int64_t begin = pipe->line_free_ns > now_ns ? pipe->line_free_ns : now_ns;
    if (pipe->opts.bits_per_s <= 0)
        return now_ns;
    if (begin - now_ns > pipe->opts.queue_ns)
        return -1;
    pipe->line_free_ns = begin + (int64_t)((double)n * 8e9 / pipe->opts.bits_per_s);
    return pipe->line_free_ns;
}

void ft_pipe_push(ft_pipe *pipe, int64_t now_ns, const void *data, size_t n)
{
    /* Both for every packet, so that what happens to the i-th depends on nothing else. */
    double loss = ft_rng_unit(&pipe->rng), jitter = ft_rng_unit(&pipe->rng);
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
    if (pipe->last && due < pipe->last->due_ns)
        due = pipe->last->due_ns;
    packet->next = NULL;
    packet->came_ns = now_ns;
    packet->due_ns = due;
    packet->n = (uint32_t)n;
    memcpy(packet->data, data, n);
    *(pipe->last ? &pipe->last->next : &pipe->first) = packet;
    pipe->last = packet;
    pipe->n++;
}

int64_t ft_pipe_due_ns(const ft_pipe *pipe)
{
    return pipe->first ? pipe->first->due_ns : INT64_MAX;
}

const ft_packet *ft_pipe_pop(ft_pipe *pipe, int64_t now_ns)
{
    ft_packet *packet = pipe->first;
    give_back(pipe);
    if (!packet || packet->due_ns > now_ns)
        return NULL;
    pipe->first = packet->next;
    if (!pipe->first)
        pipe->last = NULL;
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
