/* SPDX-License-Identifier: Apache-2.0
 *
 * Eviction: the order in which holders lose what is short, above all KV blocks. A session that is
 * evicted loses no text; the KV is computed again when it is needed. Pure; the server and the
 * simulator call the same functions.
 */
#ifndef FT_SCHED_EVICT_H
#define FT_SCHED_EVICT_H

#include <stdbool.h>
#include <stdint.h>

/* The state of a holder. Holders are evicted in this order. */
typedef enum ft_holder_kind {
    FT_HOLDER_DETACHED, /* its client is gone and may come back */
    FT_HOLDER_IDLE,     /* it has no work */
    FT_HOLDER_WAITING   /* it has work */
} ft_holder_kind;

typedef struct ft_holder {
    ft_holder_kind kind;
    int64_t since_us; /* detached since, last used, waiting since */
} ft_holder;

/* Whether `a` is evicted before `b`. Of detached or idle holders the least recently used goes
 * first, of waiting ones the one that has waited for the shortest time. False if they are equal. */
bool ft_evict_before(const ft_holder *a, const ft_holder *b);

/* Whether the holder may be evicted for the oldest work, or for other work. */
bool ft_evict_may(const ft_holder *holder, bool for_oldest);

#endif
