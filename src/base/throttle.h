/* SPDX-License-Identifier: Apache-2.0
 *
 * How often each client may do something: a few times at once, then once each interval. Who does it
 * more often is told how long to wait. It is the "generic cell rate algorithm" (ITU-T I.371): a
 * client's state is one time.
 *
 * No lock of its own: the owner's lock guards it.
 */
#ifndef FT_BASE_THROTTLE_H
#define FT_BASE_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/quota.h"

/* So many are remembered. A further one takes the place of the one that is least ahead. */
#define FT_THROTTLE_CLIENTS 256

typedef struct ft_throttle_entry {
    ft_client_id client;
    int64_t due_us; /* when it would be done with all that it did, one each interval */
} ft_throttle_entry;

typedef struct ft_throttle {
    int64_t interval_us;
    uint32_t burst;   /* at least 1: so many need not wait */
    int64_t most_us;  /* longest wait */
    size_t n_entries; /* at most FT_THROTTLE_CLIENTS */
    ft_throttle_entry entries[FT_THROTTLE_CLIENTS];
} ft_throttle;

/* The client does it once more, now. Returns how long it must wait first; 0 for this process itself
 * (an empty address). */
int64_t ft_throttle_take(ft_throttle *throttle, const ft_client_id *client, int64_t now_us);
/* n times: for what costs as much as n usual ones. 0 times: how long it must wait as it is. */
int64_t ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                              int64_t now_us);

/* How long it takes until the client has its whole burst again; 0: it has it. */
int64_t ft_throttle_ahead_us(ft_throttle *throttle, const ft_client_id *client, int64_t now_us);

/* The rule for refusals, over HTTP and gRPC: how many more than one a refused request counts as, by
 * the bytes of its body or constraint, and by the processor time that it took. */
uint32_t ft_throttle_of_bytes(size_t bytes);
uint32_t ft_throttle_of_us(int64_t cpu_us);
/* Whether a refusal with this HTTP status counts: that a server is full, broken or not there is not
 * the client's fault. */
bool ft_throttle_counts(int http_status);

#endif
