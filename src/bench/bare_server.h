/* SPDX-License-Identifier: Apache-2.0
 *
 * A gRPC server that does nothing, in a child process. The memory of its streams is that of gRPC
 * itself. */
#ifndef FT_BENCH_BARE_SERVER_H
#define FT_BENCH_BARE_SERVER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct ft_bench_bare_server {
    pid_t pid; /* 0: none */
    char address[32];
} ft_bench_bare_server;

/* Accepts any number of streams of any method on loopback. It answers each message with as many
 * bytes as a verdict on a short tree has. The calling process must have one thread only and must
 * not have used gRPC. FT_UNAVAILABLE. *out owes a stop. */
FT_WARN_UNUSED ft_status ft_bench_bare_server_start(uint32_t max_streams, ft_error *err,
                                                    ft_bench_bare_server *out);
/* An all-zero server is legal. */
void ft_bench_bare_server_stop(ft_bench_bare_server *server);

#endif
