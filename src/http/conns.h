/* SPDX-License-Identifier: Apache-2.0
 *
 * The open connections, and a thread that ends each one after its deadline: if the client sends too
 * slowly, sends nothing, or does not read. Internal to the room.
 *
 * Lock: ft_http_conns.lock guards the list, each connection's deadline, and the count of answers.
 */
#ifndef FT_HTTP_CONNS_H
#define FT_HTTP_CONNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_http_conn {
    struct ft_http_conn *next;
    int fd;
    bool surplus;            /* above the limit: gets an error, then is closed */
    int64_t deadline_us;     /* on the monotonic clock; FT_NO_DEADLINE: none */
    struct ft_http_tls *tls; /* set by the server before the handshake; NULL: no TLS */
} ft_http_conn;

typedef struct ft_http_conns {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an earlier deadline, or stop */
    pthread_cond_t quiet;   /* n_answers is 0 */
    pthread_t thread;
    ft_http_conn *first;
    uint32_t n, max;
    int64_t wake_us; /* when the thread looks next */
    bool stop, draining;
    uint32_t n_answers; /* admitted generations whose answers are not finished */
} ft_http_conns;

/* *conns must not be moved. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_conns_init(ft_http_conns *conns, uint32_t max);
/* All connections must have been removed. */
void ft_http_conns_deinit(ft_http_conns *conns);

/* NULL: out of memory. fd must stay open until remove. */
ft_http_conn *ft_http_conns_add(ft_http_conns *conns, int fd, uint32_t timeout_s);
void ft_http_conns_remove(ft_http_conns *conns, ft_http_conn *conn);
/* Shuts the connection down unless this is called again within timeout_s. 0: no limit. */
void ft_http_conns_limit(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s);
/* Admits one more generation, which ends with leave. False: draining. */
bool ft_http_conns_enter(ft_http_conns *conns);
void ft_http_conns_leave(ft_http_conns *conns);
/* Admits no more; waits for at most timeout_us until no generation is running. */
void ft_http_conns_drain(ft_http_conns *conns, int64_t timeout_us);
bool ft_http_conns_draining(ft_http_conns *conns);
#endif
