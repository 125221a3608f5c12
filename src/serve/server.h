/* SPDX-License-Identifier: Apache-2.0
 * The verification server: a verifier behind the gRPC wire. Owns neither model nor vocabulary. */
#ifndef FT_SERVE_SERVER_H
#define FT_SERVE_SERVER_H

#include "serve/verifier.h"
#include "wire/server.h"

typedef struct ft_server ft_server;

typedef struct ft_server_opts {
    ft_verifier_opts verifier;
    const char *host;
    int port;
    const char *token; /* or verifier.keys */
    const char *tls_cert, *tls_key, *tls_client_ca;
    const char *metrics_host; /* an HTTP server there has /metrics and /health; NULL: none */
    int metrics_port;
} ft_server_opts;

/* Listens and serves at once. Strings are not kept. Errors of ft_verifier_create,
 * ft_wire_server_create and ft_http_create. */
FT_WARN_UNUSED ft_status ft_server_create(const ft_server_opts *opts, ft_error *err,
                                          ft_server **out);
/* The ports in use; the verifier behind (borrowed; for statistics). */
int ft_server_port(const ft_server *server);
/* 0: there is none. */
int ft_server_metrics_port(const ft_server *server);
ft_verifier *ft_server_verifier(ft_server *server);
/* Refuses new sessions over the wire from now on, which health checks are told. */
void ft_server_drain(ft_server *server);
/* Drains, lets present ones finish for at most grace_us, then ends them. NULL is
 * legal. */
void ft_server_destroy(ft_server *server, int64_t grace_us);

#endif
