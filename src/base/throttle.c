// SPDX-License-Identifier: Apache-2.0
// How often clients may do something. The owner's lock guards all state.
#include "base/throttle.h"

#include "base/thread.h"

/* Reading and checking so many bytes costs as much as a small request that is refused. */
#define REFUSED_BYTES ((size_t)8 << 10)
/* So much processor time is worth one, beyond what a usual request takes, refused or not. A client
 * gets ten refusals a second, and so 0.5 % of a processor for large ones. */
#define REFUSED_US 500
#define USUAL_US   (5000 * FT_THREAD_SLOWER)

/* The client's entry: its own, a new one, or the one that is least ahead. */
static ft_throttle_entry *find(ft_throttle *throttle, const ft_client_id *client)
{
    ft_throttle_entry *least = throttle->entries;
    for (size_t i = 0; i < throttle->n_entries; i++) {
        ft_throttle_entry *entry = &throttle->entries[i];
        if (ft_client_same(&entry->client, client))
            return entry;
        if (entry->due_us < least->due_us)
            least = entry;
    }
    if (throttle->n_entries < FT_THROTTLE_CLIENTS)
        least = &throttle->entries[throttle->n_entries++];
    *least = (ft_throttle_entry){.client = *client, .due_us = INT64_MIN};
    return least;
}

int64_t ft_throttle_take(ft_throttle *throttle, const ft_client_id *client, int64_t now_us)
{
    return ft_throttle_take_many(throttle, client, 1, now_us);
}

int64_t ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                              int64_t now_us)
{
    if (!client->address[0])
        return 0;
    ft_throttle_entry *entry = find(throttle, client);
    const int64_t ahead_us = entry->due_us > now_us ? entry->due_us - now_us : 0;
    const int64_t free_us = throttle->burst * throttle->interval_us;
    int64_t wait_us = ahead_us + n * throttle->interval_us - free_us;
    if (wait_us > throttle->most_us)
        wait_us = throttle->most_us;
    entry->due_us = now_us + wait_us + free_us;
    return wait_us > 0 ? wait_us : 0;
}

int64_t ft_throttle_ahead_us(ft_throttle *throttle, const ft_client_id *client, int64_t now_us)
{
    const int64_t due_us = client->address[0] ? find(throttle, client)->due_us : now_us;
    return due_us > now_us ? due_us - now_us : 0;
}

uint32_t ft_throttle_of_bytes(size_t bytes)
{
    return (uint32_t)(bytes / REFUSED_BYTES);
}

uint32_t ft_throttle_of_us(int64_t cpu_us)
{
    return cpu_us > USUAL_US ? (uint32_t)((cpu_us - USUAL_US) / REFUSED_US) : 0;
}

bool ft_throttle_counts(int http_status)
{
    return http_status >= 400 && http_status < 500 && http_status != 429;
}
