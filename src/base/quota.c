// SPDX-License-Identifier: Apache-2.0
// Caps with a share for each client. The owner's lock guards all state. Invariants: the entries are
// sorted and each has taken at least one; n is the sum of what they and this process have taken; so
// there are never more entries than `max`, and counting needs no memory.
#include "base/quota.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RESERVE_OF 16 /* of so many places one is kept for clients that have none */

ft_status ft_quota_init(ft_quota *quota, const char *what, uint32_t max, uint32_t percent,
                        ft_error *err)
{
    const bool shared = percent > 0 && percent < 100;
    *quota = (ft_quota){.what = what, .max = max, .share = max, .percent = percent};
    if (shared) {
        quota->share = (uint32_t)(((uint64_t)max * percent + 99) / 100);
        quota->reserve = max / RESERVE_OF;
    }
    quota->entries = calloc(max, sizeof *quota->entries);
    return quota->entries ? FT_OK : ft_error_set(err, FT_NOMEM, "no memory to count %s", what);
}

void ft_quota_deinit(ft_quota *quota)
{
    free(quota->entries);
    *quota = (ft_quota){0};
}

static bool is_own(const ft_client_id *client)
{
    return !client->address[0];
}

static int compare(const ft_client_id *a, const ft_client_id *b)
{
    const int by_address = strcmp(a->address, b->address);
    return by_address ? by_address : strcmp(a->tenant, b->tenant);
}

bool ft_client_same(const ft_client_id *a, const ft_client_id *b)
{
    return compare(a, b) == 0;
}

const char *ft_client_name(const ft_client_id *client)
{
    return !client ? "" : client->tenant[0] ? client->tenant : client->address;
}

/* Where the client's entry is, or would be. */
static size_t place_of(const ft_quota *quota, const ft_client_id *client)
{
    size_t low = 0, high = quota->n_entries;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&quota->entries[middle].client, client) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_entry(const ft_quota *quota, size_t at, const ft_client_id *client)
{
    return at < quota->n_entries && ft_client_same(&quota->entries[at].client, client);
}

static uint32_t held(const ft_quota *quota, const ft_client_id *client)
{
    const size_t at = place_of(quota, client);
    return has_entry(quota, at, client) ? quota->entries[at].n : 0;
}

ft_quota_room ft_quota_look(const ft_quota *quota, const ft_client_id *client)
{
    const uint32_t mine = is_own(client) ? 0 : held(quota, client);
    if (mine >= quota->share)
        return FT_QUOTA_SHARE;
    const uint32_t open_to_it = quota->max - (mine > 0 ? quota->reserve : 0);
    return quota->n < open_to_it ? FT_QUOTA_ROOM : FT_QUOTA_FULL;
}

ft_status ft_quota_refuse(const ft_quota *quota, const ft_client_id *client, ft_quota_room why,
                          ft_error *err)
{
    if (quota->n < quota->max && why == FT_QUOTA_FULL)
        return ft_error_set(err, FT_EXHAUSTED,
                            "all %u %s of this server are in use, but for %u that are kept for "
                            "clients that have none: try again later",
                            quota->max, quota->what, quota->max - quota->n);
    if (why == FT_QUOTA_FULL || quota->share == quota->max)
        return ft_error_set(err, FT_EXHAUSTED,
                            "all %u %s of this server are in use: try again later", quota->max,
                            quota->what);
    return ft_error_set(err, FT_EXHAUSTED,
                        "%s%s%s has %u of the server's %u %s, which is the share of one client "
                        "(--per-client-share %u): close some, or give a proxy before the server as "
                        "--trusted-proxy",
                        client->tenant, client->tenant[0] ? " at " : "", client->address,
                        quota->share, quota->max, quota->what, quota->percent);
}

void ft_quota_add(ft_quota *quota, const ft_client_id *client)
{
    assert(quota->n < quota->max);
    quota->n++;
    if (is_own(client))
        return;
    const size_t at = place_of(quota, client);
    ft_quota_entry *entry = &quota->entries[at];
    if (!has_entry(quota, at, client)) {
        memmove(entry + 1, entry, (quota->n_entries++ - at) * sizeof *entry);
        *entry = (ft_quota_entry){.client = *client};
    }
    entry->n++;
}

ft_status ft_quota_take(ft_quota *quota, const ft_client_id *client, ft_error *err)
{
    const ft_quota_room room = ft_quota_look(quota, client);
    if (room != FT_QUOTA_ROOM)
        return ft_quota_refuse(quota, client, room, err);
    ft_quota_add(quota, client);
    return FT_OK;
}

void ft_quota_give_back(ft_quota *quota, const ft_client_id *client)
{
    assert(quota->n > 0);
    quota->n--;
    if (is_own(client))
        return;
    const size_t at = place_of(quota, client);
    ft_quota_entry *entry = &quota->entries[at];
    assert(has_entry(quota, at, client));
    if (--entry->n == 0)
        memmove(entry, entry + 1, (--quota->n_entries - at) * sizeof *entry);
}
