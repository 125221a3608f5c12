// SPDX-License-Identifier: Apache-2.0
// A thread accepts connections; each has a thread for either way, which reads what comes, keeps it
// until it is due, and writes it. The delay is constant while bytes are under way, so the head of a
// queue is always the next that is due; where a shorter delay follows, bytes wait for those before
// them.
//
// Locks: relay.lock guards the lines, the counters and the list of ways.
#include "bench/load_relay.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bench.h"

#define CHUNK_BYTES 65536
#define HELD_MOST   ((size_t)64 << 20) /* bytes under way, one way; more are not read yet */

typedef enum way_kind { TO, BACK } way_kind;

typedef struct chunk {
    struct chunk *next;
    int64_t due_us;
    size_t n;
    uint8_t bytes[];
} chunk;

/* One way of a connection. */
typedef struct way {
    struct way *next; /* of the relay's */
    struct ft_bench_load_relay *relay;
    way_kind kind;
    int from, into; /* sockets; this way closes neither */
    pthread_t thread;
    chunk *head, *tail;
    size_t held;
} way;

struct ft_bench_load_relay {
    int listener;
    uint16_t to_port;
    pthread_t thread;
    pthread_mutex_t lock;
    ft_line line[2]; /* by way_kind */
    int64_t delay_us;
    way_kind last; /* where bytes went last */
    ft_bench_load_relay_stats stats;
    way *ways;
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- one way ---- */

/* Counts n bytes that have come, and says when they are due. */
static int64_t due_us(way *w, size_t n)
{
    ft_bench_load_relay *r = w->relay;
    pthread_mutex_lock(&r->lock);
    const int64_t sent_ns = ft_line_take(&r->line[w->kind], ft_bench_now_us() * 1000, n);
    const int64_t due = sent_ns / 1000 + r->delay_us;
    if (w->kind == TO)
        r->stats.to_bytes += n;
    else
        r->stats.back_bytes += n;
    r->stats.answers += w->kind == BACK && r->last == TO;
    r->last = w->kind;
    pthread_mutex_unlock(&r->lock);
    return due;
}

/* Reads what has come. False: nothing more will. */
static bool take(way *w)
{
    chunk *c = malloc(sizeof *c + CHUNK_BYTES);
    const ssize_t n = c ? recv(w->from, c->bytes, CHUNK_BYTES, MSG_DONTWAIT) : -1;
    if (n <= 0) {
        free(c);
        return false;
    }
    c->next = NULL;
    c->n = (size_t)n;
    c->due_us = due_us(w, c->n);
    if (w->tail)
        w->tail->next = c;
    else
        w->head = c;
    w->tail = c;
    w->held += c->n;
    return true;
}

/* Writes the head. False: the other end is gone. */
static bool give(way *w)
{
    chunk *c = w->head;
    size_t at = 0;
    while (at < c->n) {
        const ssize_t n = send(w->into, c->bytes + at, c->n - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    w->head = c->next;
    w->tail = w->head ? w->tail : NULL;
    w->held -= c->n;
    free(c);
    return true;
}

/* Waits until something can be read, or the head is due. True: read. */
static bool wait_for(way *w, bool reads)
{
    struct pollfd from = {.fd = reads && w->held < HELD_MOST ? w->from : -1, .events = POLLIN};
    const int64_t left = w->head ? w->head->due_us - ft_bench_now_us() : -1;
    const int64_t us = left > 0 ? left : 0;
    const struct timespec until = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    return ppoll(&from, 1, w->head ? &until : NULL, NULL) > 0;
}

static void *carry(void *arg)
{
    way *w = arg;
    bool reads = true, open = true;
    while (open && (reads || w->head)) {
        if (wait_for(w, reads))
            reads = take(w);
        while (open && w->head && w->head->due_us <= ft_bench_now_us())
            open = give(w);
    }
    shutdown(w->into, SHUT_WR); /* what was said is said */
    if (!open)
        shutdown(w->from, SHUT_RD);
    while (w->head) {
        chunk *c = w->head;
        w->head = c->next;
        free(c);
    }
    return NULL;
}

/* ---- connections ---- */

/* Begins a way; false: no memory or thread. */
static bool begin(ft_bench_load_relay *r, way_kind kind, int from, int into)
{
    way *w = calloc(1, sizeof *w);
    if (!w)
        return false;
    *w = (way){.relay = r, .kind = kind, .from = from, .into = into};
    if (pthread_create(&w->thread, NULL, carry, w) != 0) {
        free(w);
        return false;
    }
    pthread_mutex_lock(&r->lock);
    w->next = r->ways;
    r->ways = w;
    pthread_mutex_unlock(&r->lock);
    return true;
}

static void forward(ft_bench_load_relay *r, int near)
{
    const struct sockaddr_in to = loopback(r->to_port);
    const int one = 1;
    const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = far >= 0 && connect(far, (const struct sockaddr *)&to, sizeof to) == 0;
    if (ok) {
        (void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (begin(r, TO, near, far)) {
            if (!begin(r, BACK, far, near)) /* the other way ends, and stop() closes both */
                shutdown(near, SHUT_RDWR);
            return;
        }
    }
    close(near);
    if (far >= 0)
        close(far);
}

static void *accept_all(void *arg)
{
    ft_bench_load_relay *r = arg;
    int near;
    while ((near = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        forward(r, near);
    return NULL;
}

/* ---- the relay ---- */

static ft_status listen_on_any(ft_bench_load_relay *r, ft_error *err, uint16_t *port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->listener < 0 || bind(r->listener, (struct sockaddr *)&at, size) != 0 ||
        listen(r->listener, 16) != 0 ||
        getsockname(r->listener, (struct sockaddr *)&at, &size) != 0)
        return ft_error_set(err, FT_IO, "no port for a slow line");
    *port = ntohs(at.sin_port);
    return FT_OK;
}

ft_status ft_bench_load_relay_start(uint16_t to_port, ft_error *err, ft_bench_load_relay **out,
                                    uint16_t *port)
{
    ft_bench_load_relay *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    r->to_port = to_port;
    r->last = BACK;
    pthread_mutex_init(&r->lock, NULL);
    ft_status status = listen_on_any(r, err, port);
    if (status == FT_OK && pthread_create(&r->thread, NULL, accept_all, r) != 0)
        status = ft_error_set(err, FT_EXHAUSTED, "no more threads for a slow line");
    if (status != FT_OK) {
        if (r->listener >= 0)
            close(r->listener);
        pthread_mutex_destroy(&r->lock);
        free(r);
        return status;
    }
    *out = r;
    return FT_OK;
}

void ft_bench_load_relay_stop(ft_bench_load_relay *r)
{
    if (!r)
        return;
    shutdown(r->listener, SHUT_RDWR); /* wakes accept */
    pthread_join(r->thread, NULL);
    close(r->listener);
    for (way *w = r->ways; w; w = w->next)
        shutdown(w->from, SHUT_RDWR);
    for (way *w = r->ways; w; w = w->next)
        pthread_join(w->thread, NULL);
    for (way *w = r->ways, *next; w; w = next) {
        next = w->next;
        if (w->kind == TO) { /* there is always one, and both ways have the same sockets */
            close(w->from);
            close(w->into);
        }
        free(w);
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void ft_bench_load_relay_slow_down(ft_bench_load_relay *r, int64_t delay_us, const ft_line_rate *to,
                                   const ft_line_rate *back)
{
    pthread_mutex_lock(&r->lock);
    r->delay_us = delay_us;
    ft_line_init(&r->line[TO], to);
    ft_line_init(&r->line[BACK], back);
    pthread_mutex_unlock(&r->lock);
}

ft_bench_load_relay_stats ft_bench_load_relay_count(ft_bench_load_relay *r)
{
    pthread_mutex_lock(&r->lock);
    const ft_bench_load_relay_stats stats = r->stats;
    pthread_mutex_unlock(&r->lock);
    return stats;
}
