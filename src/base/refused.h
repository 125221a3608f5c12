/* SPDX-License-Identifier: Apache-2.0
 *
 * Refused connections. They are closed a little after they are refused, because many clients
 * connect again at once when theirs is closed. A client that opens thousands of connections would
 * otherwise make the server accept and close thousands a second.
 *
 * Owned by the thread that accepts.
 */
#ifndef FT_BASE_REFUSED_H
#define FT_BASE_REFUSED_H

#include <stdint.h>

#include "base/status.h"

/* How long a refused connection stays open. Twice as long halves what a flood costs, and doubles
 * the sockets that it holds. */
#define FT_REFUSED_US 5000000

typedef struct ft_refused_conn {
    int fd;
    int64_t due_us; /* on the monotonic clock */
} ft_refused_conn;

/* A ring, oldest first. All zeros: every connection is closed at once. */
typedef struct ft_refused {
    ft_refused_conn *at; /* [max] */
    uint32_t max, first, n;
} ft_refused;

/* Holds at most an eighth of the descriptors that the process may open now, and at most 4096.
 * FT_NOMEM: there is nothing to free. */
FT_WARN_UNUSED ft_status ft_refused_init(ft_refused *refused, ft_error *err);
/* Closes all. */
void ft_refused_deinit(ft_refused *refused);

/* Takes a socket. If there is no room, it is closed at once. */
void ft_refused_add(ft_refused *refused, int fd, int64_t now_us);
/* Closes those whose time has come. Returns when the next one's comes; FT_NO_DEADLINE: there is
 * none. */
int64_t ft_refused_close_due(ft_refused *refused, int64_t now_us);
/* Closes all, because descriptors are scarce. Returns how many. */
uint32_t ft_refused_close_all(ft_refused *refused);

#endif
