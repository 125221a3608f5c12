/* SPDX-License-Identifier: Apache-2.0
 *
 * The open connections, and a thread that ends each one after its deadline: if the client sends too
 * slowly, sends nothing, or does not read. Internal to the room.
 *
 * A connection is a stranger's, counted by its address, until a request on it shows a key (or comes
 * to a server that asks for none). From then on it is counted for that key and address. Both kinds
 * have places of their own, and one client has a share of them.
 *
 *   add -> NEW -- start --> STRANGER -- know --> KNOWN -- know, of another client --> KNOWN
 *
 * Lock: ft_http_conns.lock guards the list, the quotas, the throttle, the counts, and each
 * connection's deadline, client and standing. A connection's own thread alone changes its standing.
 */
#ifndef FT_HTTP_CONNS_H
#define FT_HTTP_CONNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/throttle.h"
#include "base/quota.h"
#include "base/status.h"

/* So many requests of one client are refused at once; further ones are answered late. A person who
 * tries things out does not notice. */
#define FT_HTTP_REFUSALS 20

/* Places for strangers' connections, and the share of one address. A client that opens as many at
 * once as it may have must not be refused while their requests are on the way. */
#define FT_HTTP_STRANGERS       512
#define FT_HTTP_STRANGERS_SHARE 25 /* percent */

typedef enum ft_http_standing {
    FT_HTTP_STRANGER,
    FT_HTTP_KNOWN,
    FT_HTTP_NEW /* accepted; counted as a stranger's. libmicrohttpd may close it untold */
} ft_http_standing;

typedef struct ft_http_conn {
    struct ft_http_conn *next;
    int fd;
    ft_http_standing standing;
    bool large; /* a large body came, and its thread has a lower priority; its thread's own */
    ft_client_id client;        /* for whom it is counted */
    int64_t deadline_us;        /* on the monotonic clock; FT_NO_DEADLINE: none */
    struct ft_tls_creds *creds; /* the server's; held while the connection is; NULL: no TLS */
} ft_http_conn;

typedef struct ft_http_conns {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an earlier deadline, or stop */
    pthread_cond_t quiet;   /* n_answers is 0 */
    pthread_cond_t hurry;   /* draining */
    pthread_t thread;
    ft_http_conn *first;
    ft_quota quota[2];    /* of strangers, of known clients */
    ft_throttle throttle; /* of refused requests */
    int64_t wake_us;      /* when the thread looks next */
    int64_t told_us;      /* when a refusal was logged last */
    uint32_t n_late;      /* refused requests whose answers wait */
    bool stop, retiring, draining;
    uint32_t n_answers; /* admitted generations whose answers are not finished */
} ft_http_conns;

/* *conns must not be moved. max: known connections; share: percent of them for one client (0: all).
 * Refused requests of one client are answered every refusal_ms, once they are many. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_conns_init(ft_http_conns *conns, uint32_t max, uint32_t share,
                                            uint32_t refusal_ms, ft_error *err);
/* All connections that were started must have been removed. */
void ft_http_conns_deinit(ft_http_conns *conns);

/* A connection of a stranger was accepted; it has timeout_s for its first request. False: there is
 * no place for this client (logged, now and then), or no memory. A connection that is not started
 * is forgotten after timeout_s, or when another has the same descriptor. */
bool ft_http_conns_add(ft_http_conns *conns, int fd, const ft_client_id *client,
                       uint32_t timeout_s);
/* The connection with this descriptor has a thread now, and owes a remove; fd must stay open until
 * then. NULL: it was forgotten. */
ft_http_conn *ft_http_conns_start(ft_http_conns *conns, int fd);
/* A request has shown the client's key, or needs none. FT_EXHAUSTED: all places of known clients
 * are taken, or this client's share of them (*share); nothing has changed. */
FT_WARN_UNUSED ft_status ft_http_conns_know(ft_http_conns *conns, ft_http_conn *conn,
                                            const ft_client_id *client, ft_error *err, bool *share);
void ft_http_conns_remove(ft_http_conns *conns, ft_http_conn *conn);
/* Shuts the connection down unless this is called again within timeout_s. 0: no limit. */
void ft_http_conns_limit(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s);
/* The connection's thread has taken so many bytes of a body: a large one lowers its priority, for
 * good. */
void ft_http_conn_takes(ft_http_conn *conn, uint64_t body_bytes);
/* A request of the client is refused, which counts as n: large ones cost more. If too many of its
 * requests are, this waits until the answer may be sent, or until a drain. The connection keeps its
 * place meanwhile and has no deadline. A client that hangs up ends no wait: otherwise it could ask
 * again at once. */
void ft_http_conns_refused(ft_http_conns *conns, ft_http_conn *conn, const ft_client_id *client,
                           uint32_t n);
/* Admits one more generation, which ends with leave. False: draining. */
bool ft_http_conns_enter(ft_http_conns *conns);
void ft_http_conns_leave(ft_http_conns *conns);
/* Admits no more, and late answers wait no longer. Waits for at most timeout_us until no generation
 * is running. */
void ft_http_conns_drain(ft_http_conns *conns, int64_t timeout_us);
/* Health says "going down" from now on. Generations are admitted as before. */
void ft_http_conns_retire(ft_http_conns *conns);
/* Retires or drains. */
bool ft_http_conns_retiring(ft_http_conns *conns);
#endif
