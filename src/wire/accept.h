/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts the connections of a gRPC server, with TLS or without; private to this room. gRPC 1.51
 * never accepts again after accept() has once failed because there are too many open files, and
 * knows no cap on connections. This loop goes on, has a cap with a share for each client, and gives
 * a connection to gRPC only when it has sent the beginning of HTTP/2, behind the TLS handshake.
 *
 *   accepted --hello comes in time--> served --gRPC or the client shuts it down--> gone
 *      |
 *      \--no room (closed late: base/refused.h), another protocol, too late--> closed
 */
#ifndef FT_WIRE_ACCEPT_H
#define FT_WIRE_ACCEPT_H

#include <grpc/grpc.h>

#include "base/address.h"
#include "base/status.h"
#include "tls/cert.h"

typedef struct ft_accept ft_accept;

typedef struct ft_accept_opts {
    const char *host;           /* borrowed during create */
    int port;                   /* 0: any free one */
    uint32_t max;               /* connections at a time */
    uint32_t client_share;      /* percent of them for one address; 0: all */
    const ft_networks *proxies; /* have no share; NULL: none. Borrowed until destroy */
    const ft_tls_files *tls;    /* NULL: no TLS; borrowed during create */
} ft_accept_opts;

/* Who is behind a connection. */
typedef struct ft_accepted {
    ft_address address;
    char *names; /* in the client's certificate, as ft_tls_conn_names writes them; NULL: none */
} ft_accepted;

/* Listens. Serves no connection before ft_accept_start. Errors of ft_listen and ft_tls_cert_create;
 * FT_NOMEM, FT_IO. */
FT_WARN_UNUSED ft_status ft_accept_create(const ft_accept_opts *opts, ft_error *err,
                                          ft_accept **out);
/* Gives connections to the server, which has been started, until ft_accept_stop. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_accept_start(ft_accept *accept, grpc_server *server, ft_error *err);
/* Accepts nothing more. Connections that gRPC has stay. May be called several times; NULL is
 * legal. */
void ft_accept_stop(ft_accept *accept);
/* Stops, and frees all. No thread may be in ft_accept_peer any more. NULL is legal. */
void ft_accept_destroy(ft_accept *accept);

/* The port that it listens on. */
int ft_accept_port(const ft_accept *accept);
/* Reads the certificate's files again: ft_tls_cert_reload. Without TLS it does nothing. */
FT_WARN_UNUSED ft_status ft_accept_reload_tls(ft_accept *accept, ft_error *err);
/* Who is behind the descriptor by which gRPC knows a connection; the caller frees out->names.
 * FT_UNAVAILABLE: the connection is over; FT_NOMEM. Any thread. */
FT_WARN_UNUSED ft_status ft_accept_peer(ft_accept *accept, int fd, ft_error *err, ft_accepted *out);

#endif
