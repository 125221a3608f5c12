/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of one TLS connection, on a socket that does not block.
 *
 *   create --> handshake, until FT_TLS_OK --> fill, bytes, take; send --> destroy
 *
 * One thread at a time.
 */
#ifndef FT_TLS_CONN_H
#define FT_TLS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tls/cert.h"

typedef struct ft_tls_conn ft_tls_conn;

typedef enum ft_tls_io {
    FT_TLS_OK,
    FT_TLS_AGAIN, /* the socket must become ready first */
    FT_TLS_END    /* the connection is over, in order or not */
} ft_tls_io;

/* Speaks HTTP/2 alone (ALPN "h2"). fd is borrowed until destroy. NULL: no memory. */
ft_tls_conn *ft_tls_conn_create(ft_tls_cert *cert, int fd);
/* Tells the client that the connection is over, if it can be told at once. NULL is legal. */
void ft_tls_conn_destroy(ft_tls_conn *conn);

/* A client that must show a certificate, and shows none or a wrong one, is told so: FT_TLS_END. */
ft_tls_io ft_tls_conn_handshake(ft_tls_conn *conn);
/* Appends to *out, after the handshake, "cert:NAME;" for each alternative name in the client's
 * certificate, or else for its common name; nothing if it has shown none. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_tls_conn_names(const ft_tls_conn *conn, ft_buf *out);

/* Receives more bytes. FT_TLS_AGAIN: none are there, or there is no room. */
ft_tls_io ft_tls_conn_fill(ft_tls_conn *conn);
/* The bytes that were received and not taken. */
const uint8_t *ft_tls_conn_bytes(const ft_tls_conn *conn, size_t *n);
/* n <= what ft_tls_conn_bytes says. */
void ft_tls_conn_take(ft_tls_conn *conn, size_t n);
/* Whether ft_tls_conn_fill has bytes that the socket does not show any more. */
bool ft_tls_conn_has_more(const ft_tls_conn *conn);
/* After FT_TLS_AGAIN, the next call must send the same bytes. */
ft_tls_io ft_tls_conn_send(ft_tls_conn *conn, const uint8_t *data, size_t n, size_t *sent);
/* Whether the last FT_TLS_AGAIN waits for the socket to take bytes. */
bool ft_tls_conn_wants_room(const ft_tls_conn *conn);

#endif
