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
    int64_t turn_us;  /* the end of its turn (ft_evict_turn_us); 0: it has had none */
} ft_holder;

/* Whether `a` is evicted before `b`. Of detached or idle holders the least recently used goes
 * first, of waiting ones the one that has waited for the shortest time. False if they are equal. */
bool ft_evict_before(const ft_holder *a, const ft_holder *b);

/* The end of the turn of a holder for which spent_us were spent on computing what it holds, until
 * now_us. In its turn it is not evicted: two holders that evict each other would have all computed
 * again each time, and get nothing else done. */
int64_t ft_evict_turn_us(int64_t spent_us, int64_t now_us);
/* How long the holder's turn still takes; 0: it has none. The turn of an idle holder ends when it
 * has been quiet for long, that of a detached one at once. */
int64_t ft_evict_turn_left_us(const ft_holder *holder, int64_t now_us);
/* Whether the holder may be evicted for the work that is next (ft_evict_next), or for other
 * work. */
bool ft_evict_may(const ft_holder *holder, bool for_next, int64_t now_us);

/* Work that may need what others hold. */
typedef struct ft_claim {
    bool missing;      /* something must be computed first: the work has had no turn, or lost it */
    int64_t since_us;  /* waiting since */
    int64_t tenant_us; /* when a turn of its tenant last began, or when the tenant came */
} ft_claim;

/* Whether work `a` is next before work `b`: waiting work is evicted for it. Tenants come in the
 * order of their last turns, and a tenant's own work in the order of waiting. Work that misses
 * nothing has had its turn and needs little: it comes by its own time. False if they are equal. */
bool ft_evict_next(const ft_claim *a, const ft_claim *b);

#endif
