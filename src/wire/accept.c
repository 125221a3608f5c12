// SPDX-License-Identifier: Apache-2.0
// The accept loop: one thread that waits for new connections, for TLS handshakes and the first
// bytes of those that it has accepted, and for the end of those that gRPC has. The bytes of TLS
// connections pass through tls/pipe.h, so gRPC sees plain sockets only.
//
// gRPC gets a duplicate of the socket, and tells nobody when it closes it. It shuts a socket down
// before it closes it, which shows as EPOLLHUP on ours; the loop then closes that, too.
//
// A call knows its connection by the number of gRPC's descriptor alone, and may ask for it a little
// after the connection's end. So numbers are given out in a ring, and a number comes again only
// when many others have been served.
//
// Owned by the thread: all but `served`, which the lock guards, because calls look peers up.
#include "wire/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/listen.h"
#include "base/log.h"
#include "base/refused.h"
#include "base/thread.h"
#include "tls/pipe.h"
#include "wire/rpc.h"

/* How long the loop waits before it tries again to accept without a free descriptor. Connections
 * wait in the kernel meanwhile. */
#define STARVED_US 100000
/* Refused connections are logged at most this often, so that nobody floods the log. */
#define LOG_EVERY_US 1000000

/* The ring of numbers: so many for each connection that may be open, and so many more. */
#define RING_FACTOR 8
#define RING_LEAST  1024

#define PREFACE         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HELLO_BYTES_MAX 1024 /* a SETTINGS frame has 6 bytes a setting, and there are about ten */

typedef struct conn {
    int fd;      /* the socket; served with TLS: a duplicate of the pipe's end that gRPC has */
    int grpc_fd; /* served: gRPC's duplicate of fd; -1: accepted */
    ft_tls_conn *tls;
    bool secure; /* TLS, and the handshake is over */
    char *names; /* in the client's certificate; NULL: it has shown none */
    ft_address address;
    ft_client_id client;
    int64_t due_us;           /* accepted: when its hello must have come */
    struct conn *prev, *next; /* accepted: among those, oldest first */
} conn;

struct ft_accept {
    int listener, epoll, wake; /* wake: an eventfd, written by stop */
    grpc_server *server;
    grpc_server_credentials *insecure;
    ft_tls_cert *cert; /* NULL: no TLS */
    ft_tls_pipes *pipes;
    pthread_t thread;
    bool running;
    ft_quota quota;
    const ft_networks *proxies;
    conn *first, *last; /* accepted */
    ft_refused refused;
    int64_t retry_us;    /* accepts nothing until then; FT_NO_DEADLINE: it accepts */
    bool starved;        /* the last accept failed for want of a descriptor or of memory */
    int64_t logged_us;   /* when a refusal was last logged */
    uint32_t n_unlogged; /* refusals since */
    pthread_mutex_t lock;
    conn **served; /* [n_served] by grpc_fd; guarded by lock */
    size_t n_served;
    int next_number; /* the ring's next number for gRPC */
};

static bool watch(ft_accept *a, int how, int fd, uint32_t events, void *owner)
{
    struct epoll_event event = {.events = events, .data.ptr = owner};
    return epoll_ctl(a->epoll, how, fd, &event) == 0;
}

/* ---- connections ---- */

static void unlink_accepted(ft_accept *a, conn *c)
{
    *(c->prev ? &c->prev->next : &a->first) = c->next;
    *(c->next ? &c->next->prev : &a->last) = c->prev;
}

/* The connection is over, or is refused. */
static void drop(ft_accept *a, conn *c)
{
    if (c->grpc_fd < 0) {
        unlink_accepted(a, c);
    } else {
        pthread_mutex_lock(&a->lock);
        a->served[c->grpc_fd] = NULL;
        pthread_mutex_unlock(&a->lock);
    }
    ft_tls_conn_destroy(c->tls);
    /* gRPC may still have its duplicate open, so closing ours does not end the watch. */
    watch(a, EPOLL_CTL_DEL, c->fd, 0, NULL);
    close(c->fd);
    ft_quota_give_back(&a->quota, &c->client);
    free(c->names);
    free(c);
}

/* Room for the descriptor in `served`. False: no memory. */
static bool make_place(ft_accept *a, int fd)
{
    const size_t n = (size_t)fd + 1;
    if (n <= a->n_served)
        return true;
    conn **more = realloc(a->served, 2 * n * sizeof *more);
    if (!more)
        return false;
    memset(more + a->n_served, 0, (2 * n - a->n_served) * sizeof *more);
    a->served = more;
    a->n_served = 2 * n;
    return true;
}

static void log_refused(ft_accept *a, const char *why)
{
    const int64_t now = ft_monotonic_us();
    a->n_unlogged++;
    if (now - a->logged_us < LOG_EVERY_US)
        return;
    FT_LOGW("wire", "connections refused n=%u reason=\"%s\"", a->n_unlogged, why);
    a->logged_us = now;
    a->n_unlogged = 0;
}

/* The client speaks to the pipe from now on; c->fd becomes the end that gRPC gets. */
static bool start_pipe(ft_accept *a, conn *c)
{
    int ends[2];
    ft_error err;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    watch(a, EPOLL_CTL_DEL, c->fd, 0, NULL);
    if (ft_tls_pipes_add(a->pipes, c->tls, c->fd, ends[0], &err) != FT_OK) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    c->tls = NULL;
    c->fd = ends[1];
    return watch(a, EPOLL_CTL_ADD, c->fd, EPOLLET, c);
}

/* A duplicate of fd with the ring's next free number. */
static int next_duplicate(ft_accept *a, int fd)
{
    const int last = (int)(RING_FACTOR * a->quota.max) + RING_LEAST;
    int number = fcntl(fd, F_DUPFD_CLOEXEC, a->next_number);
    if (number < 0 || number > last) {
        if (number >= 0)
            close(number);
        number = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    a->next_number = number + 1;
    return number;
}

/* Gives an accepted connection to gRPC. */
static void serve(ft_accept *a, conn *c)
{
    bool ok = c->tls ? start_pipe(a, c) : watch(a, EPOLL_CTL_MOD, c->fd, EPOLLET, c);
    const int number = ok ? next_duplicate(a, c->fd) : -1;
    pthread_mutex_lock(&a->lock);
    ok = number >= 0 && make_place(a, number);
    conn *before = ok ? a->served[number] : NULL;
    pthread_mutex_unlock(&a->lock);
    if (!ok) {
        log_refused(a, "no descriptor or no memory is free");
        if (number >= 0)
            close(number);
        drop(a, c);
        return;
    }
    if (before) /* gRPC has closed it, or the number would not be free */
        drop(a, before);
    unlink_accepted(a, c);
    pthread_mutex_lock(&a->lock);
    c->grpc_fd = number;
    a->served[number] = c;
    pthread_mutex_unlock(&a->lock);
    grpc_server_add_channel_from_fd(a->server, number, a->insecure);
}

typedef enum hello { HELLO_SHORT, HELLO_WHOLE, HELLO_WRONG } hello;

/* What a client of HTTP/2 sends first: the preface and a SETTINGS frame (RFC 9113, 3.4). */
static hello hello_of(const uint8_t *data, size_t n)
{
    enum { PREFACE_BYTES = sizeof PREFACE - 1, HEAD = PREFACE_BYTES + 9, TYPE = PREFACE_BYTES + 3 };
    enum { SETTINGS = 4 };
    if (memcmp(data, PREFACE, n < PREFACE_BYTES ? n : PREFACE_BYTES) != 0 ||
        (n > TYPE && data[TYPE] != SETTINGS))
        return HELLO_WRONG;
    if (n < HEAD)
        return HELLO_SHORT;
    const uint8_t *length = data + PREFACE_BYTES;
    const size_t whole = HEAD + ((size_t)length[0] << 16 | (size_t)length[1] << 8 | length[2]);
    if (whole > HELLO_BYTES_MAX)
        return HELLO_WRONG;
    return n < whole ? HELLO_SHORT : HELLO_WHOLE;
}

/* False: it failed, or there is no memory for the client's names. */
static bool shake_hands(conn *c)
{
    ft_buf names = {0};
    const ft_tls_io got = ft_tls_conn_handshake(c->tls);
    c->secure = got == FT_TLS_OK;
    if (got == FT_TLS_OK && ft_tls_conn_names(c->tls, &names) != FT_OK) {
        ft_buf_deinit(&names);
        return false;
    }
    c->names = names.data;
    return got != FT_TLS_END;
}

static hello look_at_plain(const conn *c)
{
    uint8_t begin[HELLO_BYTES_MAX];
    const ssize_t n = recv(c->fd, begin, sizeof begin, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HELLO_SHORT;
    return n > 0 ? hello_of(begin, (size_t)n) : HELLO_WRONG;
}

static hello look_at_secure(conn *c)
{
    size_t n;
    ft_tls_io got = FT_TLS_OK;
    if (!c->secure && !shake_hands(c))
        return HELLO_WRONG;
    while (c->secure && got == FT_TLS_OK) {
        got = ft_tls_conn_fill(c->tls);
        const uint8_t *begin = ft_tls_conn_bytes(c->tls, &n);
        const hello said = hello_of(begin, n);
        if (said != HELLO_SHORT)
            return said;
    }
    return got == FT_TLS_END ? HELLO_WRONG : HELLO_SHORT;
}

/* Bytes of an accepted connection have come, or its end. They stay where gRPC will find them. */
static void look_at_hello(ft_accept *a, conn *c)
{
    const hello got = c->tls ? look_at_secure(c) : look_at_plain(c);
    if (got == HELLO_WRONG)
        drop(a, c);
    else if (got == HELLO_WHOLE)
        serve(a, c);
}

/* ---- accepting ---- */

/* Takes the socket. */
static void take(ft_accept *a, int fd, const ft_address *address)
{
    const int one = 1;
    const ft_client_id client = ft_networks_stranger(a->proxies, address);
    ft_error err = {0};
    if (ft_quota_take(&a->quota, &client, &err) != FT_OK) {
        log_refused(a, err.message);
        ft_refused_add(&a->refused, fd, ft_monotonic_us());
        return;
    }
    conn *c = calloc(1, sizeof *c);
    ft_tls_conn *tls = c && a->cert ? ft_tls_conn_create(a->cert, fd) : NULL;
    const uint32_t events = EPOLLIN | EPOLLET | (tls ? EPOLLOUT : 0);
    if (!c || (a->cert && !tls) || !watch(a, EPOLL_CTL_ADD, fd, events, c)) {
        ft_quota_give_back(&a->quota, &client);
        ft_tls_conn_destroy(tls);
        free(c);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *c = (conn){.fd = fd,
                .grpc_fd = -1,
                .tls = tls,
                .address = *address,
                .client = client,
                .due_us = ft_monotonic_us() + 1000ll * FT_RPC_HANDSHAKE_LIMIT_MS,
                .prev = a->last};
    *(a->last ? &a->last->next : &a->first) = c;
    a->last = c;
}

/* No descriptor or no memory is free: waits a little, unless refused connections can make room. */
static void starve(ft_accept *a)
{
    if (ft_refused_close_all(&a->refused) > 0)
        return;
    if (!a->starved)
        FT_LOGW("wire", "cannot accept connections, trying again: %m");
    a->starved = true;
    a->retry_us = ft_monotonic_us() + STARVED_US;
    watch(a, EPOLL_CTL_MOD, a->listener, 0, &a->listener);
}

static void accept_one(ft_accept *a)
{
    struct sockaddr_storage from;
    socklen_t n;
    ft_address address;
    bool starved;
    const int fd = ft_listen_accept(a->listener, &from, &n, &starved);
    if (starved)
        starve(a);
    if (fd < 0)
        return;
    a->starved = false;
    if (ft_address_of((const struct sockaddr *)&from, &address))
        take(a, fd, &address);
    else
        close(fd);
}

/* ---- the loop ---- */

/* Closes what is late, and begins again to accept. Returns how long the loop may wait, in ms. */
static int look_at_time(ft_accept *a)
{
    const int64_t now = ft_monotonic_us();
    while (a->first && a->first->due_us <= now)
        drop(a, a->first);
    int64_t until = ft_refused_close_due(&a->refused, now);
    if (a->retry_us <= now && watch(a, EPOLL_CTL_MOD, a->listener, EPOLLIN, &a->listener))
        a->retry_us = FT_NO_DEADLINE;
    if (a->first && a->first->due_us < until)
        until = a->first->due_us;
    if (a->retry_us < until)
        until = a->retry_us;
    return until == FT_NO_DEADLINE ? -1 : (int)((until - now) / 1000 + 1);
}

static void *loop(void *arg)
{
    ft_accept *a = arg;
    ft_thread_lower_priority(FT_THREAD_ACCEPTS);
    for (;;) {
        /* One event at a time: it may end the connection of another. */
        struct epoll_event event;
        if (epoll_wait(a->epoll, &event, 1, look_at_time(a)) != 1)
            continue;
        conn *c = event.data.ptr;
        if (event.data.ptr == &a->wake)
            return NULL;
        if (event.data.ptr == &a->listener)
            accept_one(a);
        else if (c->grpc_fd < 0)
            look_at_hello(a, c);
        else if (event.events & EPOLLHUP)
            drop(a, c);
    }
}

/* ---- life ---- */

static ft_status set_up(ft_accept *a, const ft_accept_opts *opts, ft_error *err)
{
    a->proxies = opts->proxies;
    ft_status status = ft_listen(opts->host, opts->port, err, &a->listener);
    if (status == FT_OK)
        status = ft_quota_init(&a->quota, "connections", opts->max, opts->client_share, err);
    if (status == FT_OK)
        status = ft_refused_init(&a->refused, err);
    if (status == FT_OK && opts->tls)
        status = ft_tls_cert_create(opts->tls, err, &a->cert);
    if (status == FT_OK && opts->tls)
        status = ft_tls_pipes_create(err, &a->pipes);
    if (status != FT_OK)
        return status;
    a->insecure = grpc_insecure_server_credentials_create();
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->wake = eventfd(0, EFD_CLOEXEC);
    if (a->epoll < 0 || a->wake < 0 || !watch(a, EPOLL_CTL_ADD, a->wake, EPOLLIN, &a->wake) ||
        !watch(a, EPOLL_CTL_ADD, a->listener, EPOLLIN, &a->listener))
        return ft_error_set(err, FT_IO, "cannot wait for connections: %s", strerror(errno));
    return FT_OK;
}

ft_status ft_accept_create(const ft_accept_opts *opts, ft_error *err, ft_accept **out)
{
    *out = NULL;
    ft_accept *a = calloc(1, sizeof *a);
    if (!a)
        return ft_error_set(err, FT_NOMEM, "no memory to accept connections");
    a->listener = a->epoll = a->wake = -1;
    a->retry_us = FT_NO_DEADLINE;
    a->logged_us = -LOG_EVERY_US;
    pthread_mutex_init(&a->lock, NULL);
    ft_status status = set_up(a, opts, err);
    if (status == FT_OK)
        *out = a;
    else
        ft_accept_destroy(a);
    return status;
}

ft_status ft_accept_start(ft_accept *accept, grpc_server *server, ft_error *err)
{
    accept->server = server;
    const ft_status status = ft_thread_start(loop, accept, err, &accept->thread);
    accept->running = status == FT_OK;
    return status;
}

void ft_accept_stop(ft_accept *accept)
{
    const uint64_t one = 1;
    if (!accept || !accept->running)
        return;
    if (write(accept->wake, &one, sizeof one) != sizeof one)
        FT_LOGE("wire", "cannot wake the accept loop: %m");
    pthread_join(accept->thread, NULL);
    accept->running = false;
    close(accept->listener);
    accept->listener = -1;
}

void ft_accept_destroy(ft_accept *accept)
{
    ft_accept *a = accept;
    if (!a)
        return;
    ft_accept_stop(a);
    while (a->first)
        drop(a, a->first);
    for (size_t i = 0; i < a->n_served; i++)
        if (a->served[i])
            drop(a, a->served[i]);
    const int fds[] = {a->listener, a->epoll, a->wake};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    ft_tls_pipes_destroy(a->pipes);
    ft_tls_cert_destroy(a->cert);
    if (a->insecure)
        grpc_server_credentials_release(a->insecure);
    ft_quota_deinit(&a->quota);
    ft_refused_deinit(&a->refused);
    pthread_mutex_destroy(&a->lock);
    free(a->served);
    free(a);
}

int ft_accept_port(const ft_accept *accept)
{
    struct sockaddr_storage at;
    struct sockaddr_in in;
    socklen_t n = sizeof at;
    if (getsockname(accept->listener, (struct sockaddr *)&at, &n) != 0)
        return 0;
    memcpy(&in, &at, sizeof in); /* IPv6 has its port in the same place */
    return ntohs(in.sin_port);
}

ft_status ft_accept_reload_tls(ft_accept *accept, ft_error *err)
{
    return accept->cert ? ft_tls_cert_reload(accept->cert, err) : FT_OK;
}

ft_status ft_accept_peer(ft_accept *accept, int fd, ft_error *err, ft_accepted *out)
{
    *out = (ft_accepted){0};
    pthread_mutex_lock(&accept->lock);
    const conn *c = fd >= 0 && (size_t)fd < accept->n_served ? accept->served[fd] : NULL;
    const bool named = c && c->names;
    if (c)
        out->address = c->address;
    if (named)
        out->names = strdup(c->names);
    pthread_mutex_unlock(&accept->lock);
    if (!c)
        return ft_error_set(err, FT_UNAVAILABLE, "the connection of this call is over");
    return named && !out->names ? ft_error_set(err, FT_NOMEM, "no memory for a call") : FT_OK;
}
