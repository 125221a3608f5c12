/* SPDX-License-Identifier: Apache-2.0
 *
 * A cap on things of one kind (streams, sessions, connections) of which one client may have only a
 * share. A client at its share is refused while others still find room. The last sixteenth of the
 * cap is a reserve: only a client that has none yet takes from it, so that a few large clients
 * together do not lock out a new one. With a share of 100 % there is neither share nor reserve.
 *
 * No lock of its own: the owner's lock guards it.
 */
#ifndef FT_BASE_QUOTA_H
#define FT_BASE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_CLIENT_TENANT_SIZE  33
#define FT_CLIENT_ADDRESS_SIZE 48

/* Who takes. Two are the same client if both strings are equal. */
typedef struct ft_client_id {
    char tenant[FT_CLIENT_TENANT_SIZE];   /* the name of its key; "": it has shown none */
    char address[FT_CLIENT_ADDRESS_SIZE]; /* as ft_address_network writes it; "": this process
                                             itself, which has no share */
} ft_client_id;

/* Whether both are the same client. */
bool ft_client_same(const ft_client_id *a, const ft_client_id *b);
/* Under which it has things of its own: the name of its key, or without one the address; "": this
 * process itself, also for NULL. Borrowed. */
const char *ft_client_name(const ft_client_id *client);

typedef struct ft_quota_entry {
    ft_client_id client;
    uint32_t n; /* at least 1 */
} ft_quota_entry;

typedef struct ft_quota {
    const char *what;        /* "streams", in messages; borrowed */
    uint32_t max;            /* of all clients */
    uint32_t share;          /* of one client */
    uint32_t percent;        /* what share was made from */
    uint32_t reserve;        /* of max: for clients that have none */
    uint32_t n;              /* taken by all */
    ft_quota_entry *entries; /* [max], sorted by client */
    size_t n_entries;
} ft_quota;

typedef enum ft_quota_room {
    FT_QUOTA_ROOM,  /* the client may take one */
    FT_QUOTA_SHARE, /* it has its share */
    FT_QUOTA_FULL   /* all are taken, or all but the reserve */
} ft_quota_room;

/* max: at least 1. percent: of max, what one client may take, rounded up; 0 and 100: all. The
 * memory of the entries is touched only as far as there are clients. FT_NOMEM. After a failure
 * there is nothing to free. */
FT_WARN_UNUSED ft_status ft_quota_init(ft_quota *quota, const char *what, uint32_t max,
                                       uint32_t percent, ft_error *err);
/* All zeros are legal. */
void ft_quota_deinit(ft_quota *quota);

/* Whether the client may take one. */
ft_quota_room ft_quota_look(const ft_quota *quota, const ft_client_id *client);
/* Writes why ft_quota_look refused the client, and what to do. Returns FT_EXHAUSTED. */
ft_status ft_quota_refuse(const ft_quota *quota, const ft_client_id *client, ft_quota_room why,
                          ft_error *err);
/* Counts one for the client. quota->n must be below quota->max. */
void ft_quota_add(ft_quota *quota, const ft_client_id *client);
/* ft_quota_look, then ft_quota_add or ft_quota_refuse. FT_EXHAUSTED. */
FT_WARN_UNUSED ft_status ft_quota_take(ft_quota *quota, const ft_client_id *client, ft_error *err);
/* Gives one back. The client must have one. */
void ft_quota_give_back(ft_quota *quota, const ft_client_id *client);

#endif
