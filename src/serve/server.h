/* SPDX-License-Identifier: Apache-2.0
 * The verification server: a verifier and its gRPC server. It borrows the model and the
 * vocabulary. */
#ifndef FT_SERVE_SERVER_H
#define FT_SERVE_SERVER_H

#include "serve/picker.h"
#include "serve/verifier.h"
#include "wire/server.h"

typedef struct ft_server ft_server;

/* A file for edges that have no draft model. */
typedef struct ft_server_offer {
    int fd; /* open for reading while the server lives */
    ft_offer what;
} ft_server_offer;

typedef struct ft_server_opts {
    ft_verifier_opts verifier;
    const char *host;
    int port;
    const char *token; /* clients must present it; not together with verifier.keys. NULL: none */
    const char *tls_cert, *tls_key, *tls_client_ca;
    const ft_networks *proxies; /* ft_wire_server_opts; borrowed while the server lives */
    const char *metrics_host;   /* where HTTP serves /metrics and /health; NULL: nowhere */
    int metrics_port;
    const ft_picker *picker;      /* names for three gauges there; NULL: none; borrowed */
    bool no_page;                 /* there without /dashboard */
    const ft_server_offer *offer; /* NULL: none; borrowed while the server lives */
} ft_server_opts;

/* Listens and serves at once. The strings of opts are borrowed while the server lives. Returns the
 * errors of ft_verifier_create, ft_wire_server_create and ft_http_create. */
FT_WARN_UNUSED ft_status ft_server_create(const ft_server_opts *opts, ft_error *err,
                                          ft_server **out);
/* The gRPC port in use. */
int ft_server_port(const ft_server *server);
/* The HTTP port in use; 0: there is none. */
int ft_server_metrics_port(const ft_server *server);
/* The verifier, borrowed; for statistics. */
ft_verifier *ft_server_verifier(ft_server *server);
/* As ft_wire_server_reload_tls. */
FT_WARN_UNUSED ft_status ft_server_reload_tls(ft_server *server, ft_error *err);
/* From this call on, health checks hear that the server does not serve, so that proxies choose
 * another one. It still opens sessions. */
void ft_server_retire(ft_server *server);
/* From this call on, the server opens no session over gRPC (FT_UNAVAILABLE) and tells health checks
 * so. It still takes its own sessions back. */
void ft_server_drain(ft_server *server);
/* Drains the server and waits at most grace_us until its sessions have ended; if none has a stream,
 * two seconds at most. Ends those that are left, all streams and the engine thread. FT_TIMEOUT: the
 * engine thread has not ended its present pass within pass_us (< 0: no limit). The server cannot be
 * destroyed before it has; the process can end. */
FT_WARN_UNUSED ft_status ft_server_stop(ft_server *server, int64_t grace_us, int64_t pass_us,
                                        ft_error *err);
/* Stops the server, however long the engine's pass takes, and frees it. NULL is legal. */
void ft_server_destroy(ft_server *server, int64_t grace_us);

#endif
