// SPDX-License-Identifier: Apache-2.0
// The event queue: a binary heap by (time, order of arrival). No two events are equal in both. The
// caller owns the state.
#include "sim/queue.h"

#include <assert.h>
#include <stdlib.h>

static bool before(const ft_sim_event *a, const ft_sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->serial < b->serial;
}

ft_status ft_sim_queue_reserve(ft_sim_queue *q, size_t cap, ft_error *err)
{
    ft_sim_event *events = cap > q->cap ? realloc(q->events, cap * sizeof *events) : q->events;
    if (cap > q->cap && !events)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    q->cap = cap > q->cap ? cap : q->cap;
    q->events = events;
    return FT_OK;
}

ft_status ft_sim_queue_init(ft_sim_queue *q, size_t cap, ft_error *err)
{
    *q = (ft_sim_queue){0};
    return ft_sim_queue_reserve(q, cap, err);
}

void ft_sim_queue_deinit(ft_sim_queue *q)
{
    free(q->events);
    *q = (ft_sim_queue){0};
}

void ft_sim_queue_put(ft_sim_queue *q, int64_t at_us, uint32_t kind, uint32_t who)
{
    const ft_sim_event event = {
        .at_us = at_us, .serial = q->next_serial++, .kind = kind, .who = who};
    size_t i = q->n++;
    assert(i < q->cap);
    for (; i > 0 && before(&event, &q->events[(i - 1) / 2]); i = (i - 1) / 2)
        q->events[i] = q->events[(i - 1) / 2];
    q->events[i] = event;
}

bool ft_sim_queue_take(ft_sim_queue *q, ft_sim_event *out)
{
    if (q->n == 0)
        return false;
    *out = q->events[0];
    const ft_sim_event last = q->events[--q->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && before(&q->events[child + 1], &q->events[child]))
            child++;
        if (!before(&q->events[child], &last))
            break;
        q->events[i] = q->events[child];
    }
    if (q->n > 0)
        q->events[i] = last;
    return true;
}
