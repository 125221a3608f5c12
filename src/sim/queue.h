/* SPDX-License-Identifier: Apache-2.0
 *
 * The future events of a virtual clock, earliest first. Events of the same time come in the order
 * in which they were put in. So a run is the same on every machine. Owned by one thread.
 */
#ifndef FT_SIM_QUEUE_H
#define FT_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_sim_event {
    int64_t at_us;
    uint64_t serial; /* the queue's */
    uint32_t kind, who;
} ft_sim_event;

typedef struct ft_sim_queue {
    ft_sim_event *events; /* [cap] a heap of n */
    size_t n, cap;
    uint64_t next_serial;
} ft_sim_queue;

/* Room for `cap` events at a time. FT_NOMEM. An initialised queue owes a deinit. */
FT_WARN_UNUSED ft_status ft_sim_queue_init(ft_sim_queue *q, size_t cap, ft_error *err);
/* Room for `cap` events, if that is more. FT_NOMEM: it is as it was. */
FT_WARN_UNUSED ft_status ft_sim_queue_reserve(ft_sim_queue *q, size_t cap, ft_error *err);
void ft_sim_queue_deinit(ft_sim_queue *q);

/* n < cap. */
void ft_sim_queue_put(ft_sim_queue *q, int64_t at_us, uint32_t kind, uint32_t who);
/* The next event; false: there is none. */
bool ft_sim_queue_take(ft_sim_queue *q, ft_sim_event *out);

#endif
