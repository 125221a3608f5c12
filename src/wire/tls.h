/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates and keys from PEM files, for both sides; private to this room. The server's can be
 * read again while it runs: later connections get the new ones, present ones go on. Any thread.
 */
#ifndef FT_WIRE_TLS_H
#define FT_WIRE_TLS_H

#include <grpc/grpc_security.h>

#include "base/status.h"

typedef struct ft_tls_files {
    const char *cert, *key; /* both or neither */
    const char *ca;         /* NULL: of a server, clients need no certificate; of a client, the
                               system's */
} ft_tls_files;

/* What a server shows to its clients. */
typedef struct ft_tls ft_tls;

/* Reads the files and has gRPC check them. The strings of `files` are borrowed. gRPC must be set
 * up. FT_INVALID names the file. */
FT_WARN_UNUSED ft_status ft_tls_create(const ft_tls_files *files, ft_error *err, ft_tls **out);
/* Call it after the end of the server that uses it. NULL is legal. */
void ft_tls_destroy(ft_tls *tls);
/* Reads the files again, as ft_tls_create does. If they are wrong, those before stay in use. */
FT_WARN_UNUSED ft_status ft_tls_reload(ft_tls *tls, ft_error *err);
/* Credentials for one port, which the caller releases. tls is borrowed while the server lives;
 * NULL: no TLS. */
grpc_server_credentials *ft_tls_server_creds(ft_tls *tls);

/* Credentials of a client, which the caller releases. FT_INVALID names the file. */
FT_WARN_UNUSED ft_status ft_tls_client_creds(const ft_tls_files *files, ft_error *err,
                                             grpc_channel_credentials **out);

#endif
