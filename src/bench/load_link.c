// SPDX-License-Identifier: Apache-2.0
// Links that take time. Each has two threads: one sends what is due, the other receives and stamps,
// so that time passes for messages whatever the edge does. A line sends in order, and the delay is
// constant, so the head of a queue is always the next that is due. Closing a link ends its up
// queue. Its up thread then sends the last message, ends the other thread and frees the link, while
// the edge goes on.
//
// Locks: a queue's lock guards the queue; path.lock its counters and lines. None is held while
// calling the inner link, whose calls lock for themselves (a gRPC call, wire/call.c).
#include "bench/load_link.h"

#include <stdlib.h>

#include "base/cond.h"
#include "bench/bench.h"

#define LINGER_US 1000000 /* for a server to end the stream after Close */

typedef struct packet {
    struct packet *next;
    int64_t due_us;
    ft_client_msg *up;
    ft_server_msg *down;
    ft_error end; /* neither up nor down: the stream is over, for this reason */
} packet;

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    packet *head, *tail;
    bool closed; /* nothing will be put in any more */
} queue;

typedef struct slow_link {
    ft_link link;
    ft_bench_load_path *path;
    ft_link *inner;
    int64_t delay_us;
    bool takes_time;     /* it has threads from its first message on */
    bool threads;        /* else everything goes straight to `inner` */
    uint64_t sent_bytes; /* with threads: when the edge sends, as a call counts them */
    queue up, down;
    pthread_t receiver;
} slow_link;

/* ---- queues ---- */

static void queue_init(queue *q)
{
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
}

static void packet_free(packet *p)
{
    if (!p)
        return;
    ft_client_msg_free(p->up);
    ft_server_msg_free(p->down);
    free(p);
}

static void queue_deinit(queue *q)
{
    for (packet *p = q->head, *next; p; p = next) {
        next = p->next;
        packet_free(p);
    }
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

static void put(queue *q, packet *p)
{
    pthread_mutex_lock(&q->lock);
    if (q->tail)
        q->tail->next = p;
    else
        q->head = p;
    q->tail = p;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void queue_close(queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* Call with the lock held; until_us < 0: no limit. */
static void wait_until(queue *q, int64_t until_us)
{
    (void)ft_cond_wait_until(&q->changed, &q->lock, until_us < 0 ? FT_NO_DEADLINE : until_us);
}

/* Waits until the head is due, but not longer than until_us (< 0: no limit), and returns it. NULL:
 * none in time, or the queue is closed and empty. The end of a stream stays in the queue; the
 * caller may only read it. */
static packet *take(queue *q, int64_t until_us)
{
    packet *p = NULL;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        int64_t now = ft_bench_now_us(), due = q->head ? q->head->due_us : -1;
        if (q->head && due <= now)
            break;
        if ((until_us >= 0 && now >= until_us) || (!q->head && q->closed))
            goto out;
        wait_until(q, due < 0 || (until_us >= 0 && until_us < due) ? until_us : due);
    }
    p = q->head;
    if (p->up || p->down) {
        q->head = p->next;
        if (!q->head)
            q->tail = NULL;
    }
out:
    pthread_mutex_unlock(&q->lock);
    return p;
}

/* ---- what passes ---- */

static ft_status pass_up(slow_link *s, const ft_client_msg *msg, ft_error *err)
{
    uint64_t before = 0, after = 0, received;
    s->inner->vt->bytes(s->inner, &before, &received);
    ft_status status = s->inner->vt->send(s->inner, msg, err);
    s->inner->vt->bytes(s->inner, &after, &received);
    if (msg->kind == FT_CLIENT_DRAFT && status == FT_OK) {
        pthread_mutex_lock(&s->path->lock);
        s->path->traffic.drafts += msg->draft.n_under == 0;
        s->path->traffic.draft_bytes += after - before;
        pthread_mutex_unlock(&s->path->lock);
    }
    return status;
}

uint64_t ft_bench_load_message_bytes(const ft_client_msg *msg)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    const ft_status status = ft_client_msg_encode(msg, NULL, &bytes, &n);
    free(bytes);
    return status == FT_OK ? ft_wire_message_bytes(n) : 0;
}

static size_t down_bytes(const ft_server_msg *msg)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    const ft_status status = ft_server_msg_encode(msg, NULL, &bytes, &n);
    free(bytes);
    return status == FT_OK ? n : 0;
}

static void count_down(slow_link *s, const ft_server_msg *msg)
{
    if (msg->kind != FT_SERVER_VERDICT)
        return;
    const size_t n = down_bytes(msg);
    pthread_mutex_lock(&s->path->lock);
    s->path->traffic.verdicts++;
    s->path->traffic.drafts += msg->verdict.early_taken;
    s->path->traffic.verdict_bytes += n;
    pthread_mutex_unlock(&s->path->lock);
}

static void keep_sent(ft_bench_load_path *path, uint64_t n, int64_t us)
{
    pthread_mutex_lock(&path->lock);
    path->last_draft = (ft_bench_load_sent){.bytes = n, .us = us};
    pthread_mutex_unlock(&path->lock);
}

/* When so many bytes that enter the line at now_us will come out behind the delay. */
static int64_t due_us(slow_link *s, ft_line *line, int64_t now_us, uint64_t n)
{
    pthread_mutex_lock(&s->path->lock);
    const int64_t sent_ns = ft_line_take(line, now_us * 1000, n);
    pthread_mutex_unlock(&s->path->lock);
    return sent_ns / 1000 + s->delay_us;
}

/* ---- threads ---- */

static void *receive(void *arg)
{
    slow_link *s = arg;
    for (ft_status status = FT_OK; status == FT_OK;) {
        packet *p = calloc(1, sizeof *p);
        if (!p) {
            s->inner->vt->cancel(s->inner);
            break;
        }
        status = s->inner->vt->recv(s->inner, -1, &p->end, &p->down);
        p->end.code = status;
        const bool sized = s->path->limited && status == FT_OK;
        p->due_us = due_us(s, &s->path->down, ft_bench_now_us(),
                           sized ? ft_wire_message_bytes(down_bytes(p->down)) : 0);
        put(&s->down, p);
    }
    queue_close(&s->down);
    return NULL;
}

static void forget(ft_bench_load_path *path)
{
    pthread_mutex_lock(&path->lock);
    path->n_links--;
    pthread_cond_broadcast(&path->gone);
    pthread_mutex_unlock(&path->lock);
}

/* True once the receiver is at its end. */
static bool receiver_done(slow_link *s, int64_t until_us)
{
    pthread_mutex_lock(&s->down.lock);
    while (!s->down.closed && ft_bench_now_us() < until_us)
        wait_until(&s->down, until_us);
    bool done = s->down.closed;
    pthread_mutex_unlock(&s->down.lock);
    return done;
}

static void *transmit(void *arg)
{
    slow_link *s = arg;
    ft_bench_load_path *path = s->path;
    packet *p;
    bool said_all = true; /* a failed send shows in what is received */
    while ((p = take(&s->up, -1))) {
        said_all = pass_up(s, p->up, NULL) == FT_OK && said_all;
        packet_free(p);
    }
    if (!said_all || !receiver_done(s, ft_bench_now_us() + LINGER_US))
        s->inner->vt->cancel(s->inner);
    pthread_join(s->receiver, NULL);
    s->inner->vt->destroy(s->inner);
    queue_deinit(&s->up);
    queue_deinit(&s->down);
    free(s);
    forget(path);
    return NULL;
}

static ft_status start_threads(slow_link *s, ft_error *err)
{
    pthread_t sender;
    queue_init(&s->up);
    queue_init(&s->down);
    if (pthread_create(&s->receiver, NULL, receive, s) != 0)
        goto fail;
    if (pthread_create(&sender, NULL, transmit, s) == 0) {
        pthread_detach(sender);
        s->threads = true;
        return FT_OK;
    }
    s->inner->vt->cancel(s->inner);
    pthread_join(s->receiver, NULL);
fail:
    queue_deinit(&s->up);
    queue_deinit(&s->down);
    return ft_error_set(err, FT_EXHAUSTED, "no more threads for a link that takes time");
}

/* ---- the link ---- */

/* Not before the first message: the inner stream begins as it receives, and its prefix must be
 * known then. */
static ft_status begin(slow_link *s, ft_error *err)
{
    return s->takes_time && !s->threads ? start_threads(s, err) : FT_OK;
}

static ft_status slow_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    slow_link *s = (slow_link *)link;
    if (msg->kind == FT_CLIENT_DRAFT && s->path->on_draft)
        s->path->on_draft(s->path->ctx, &msg->draft);
    const ft_status status = begin(s, err);
    if (status != FT_OK)
        return status;
    if (!s->threads)
        return pass_up(s, msg, err);
    packet *p = calloc(1, sizeof *p);
    if (p)
        p->up = ft_client_msg_dup(msg);
    if (!p || !p->up) {
        packet_free(p);
        return ft_error_set(err, FT_NOMEM, "out of memory");
    }
    /* Several messages may be under way, so the inner link's byte count does not tell the size of
     * one. */
    const uint64_t n = ft_bench_load_message_bytes(msg);
    const int64_t now_us = ft_bench_now_us();
    s->sent_bytes += n;
    p->due_us = due_us(s, &s->path->up, now_us, n);
    if (msg->kind == FT_CLIENT_DRAFT)
        keep_sent(s->path, n, p->due_us - s->delay_us - now_us);
    put(&s->up, p);
    return FT_OK;
}

static ft_status slow_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    slow_link *s = (slow_link *)link;
    *out = NULL;
    ft_status status = begin(s, err);
    if (status != FT_OK)
        return status;
    if (!s->threads) {
        status = s->inner->vt->recv(s->inner, timeout_us, err, out);
    } else {
        packet *p = take(&s->down, timeout_us < 0 ? -1 : ft_bench_now_us() + timeout_us);
        if (!p)
            return ft_error_set(err, FT_TIMEOUT, "no message yet");
        if (!p->down) {
            if (err)
                *err = p->end;
            return p->end.code;
        }
        *out = p->down;
        (*out)->waited_us = ft_bench_now_us() - p->due_us;
        p->down = NULL;
        packet_free(p);
    }
    if (status != FT_OK)
        return status;
    count_down(s, *out);
    if ((*out)->kind == FT_SERVER_VERDICT && s->path->on_verdict)
        s->path->on_verdict(s->path->ctx, &(*out)->verdict);
    return FT_OK;
}

static uint32_t slow_retry_after_ms(ft_link *link)
{
    slow_link *s = (slow_link *)link;
    return s->inner->vt->retry_after_ms(s->inner);
}

static void slow_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    slow_link *s = (slow_link *)link;
    s->inner->vt->bytes(s->inner, sent, received);
    if (s->threads)
        *sent = s->sent_bytes;
}

static void slow_cancel(ft_link *link)
{
    slow_link *s = (slow_link *)link;
    s->inner->vt->cancel(s->inner);
}

static void slow_use_prefix(ft_link *link, uint64_t prefix)
{
    slow_link *s = (slow_link *)link;
    if (s->inner->vt->use_prefix)
        s->inner->vt->use_prefix(s->inner, prefix);
}

static bool slow_connected(ft_link *link)
{
    slow_link *s = (slow_link *)link;
    return !s->inner->vt->connected || s->inner->vt->connected(s->inner);
}

static void slow_destroy(ft_link *link)
{
    slow_link *s = (slow_link *)link;
    ft_bench_load_path *path = s->path;
    if (s->threads) {
        queue_close(&s->up); /* transmit() frees the rest */
        return;
    }
    s->inner->vt->destroy(s->inner);
    free(s);
    forget(path);
}

static const ft_link_vtable slow_vtable = {
    .send = slow_send,
    .recv = slow_recv,
    .retry_after_ms = slow_retry_after_ms,
    .bytes = slow_bytes,
    .cancel = slow_cancel,
    .destroy = slow_destroy,
    .use_prefix = slow_use_prefix,
    .connected = slow_connected,
};

static ft_status path_open(void *ctx, ft_error *err, ft_link **out)
{
    ft_bench_load_path *path = ctx;
    slow_link *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ft_error_set(err, FT_NOMEM, "out of memory for a link");
    s->link.vt = &slow_vtable;
    s->path = path;
    s->delay_us = path->delay_us;
    ft_status status = path->inner.open(path->inner.ctx, err, &s->inner);
    s->takes_time = s->delay_us > 0 || path->limited;
    if (status != FT_OK) {
        free(s);
        return status;
    }
    pthread_mutex_lock(&path->lock);
    path->n_links++;
    pthread_mutex_unlock(&path->lock);
    *out = &s->link;
    return FT_OK;
}

static ft_status path_health(void *ctx, ft_error *err)
{
    ft_bench_load_path *path = ctx;
    return path->inner.health(path->inner.ctx, err);
}

static ft_status path_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    ft_bench_load_path *path = ctx;
    return path->inner.info(path->inner.ctx, err, out);
}

void ft_bench_load_path_init(ft_bench_load_path *path, ft_link_source inner)
{
    *path = (ft_bench_load_path){.inner = inner};
    pthread_mutex_init(&path->lock, NULL);
    pthread_cond_init(&path->gone, NULL);
}

static bool is_limited(const ft_line_rate *rate)
{
    return rate->bits_per_s[0] > 0;
}

void ft_bench_load_path_limit(ft_bench_load_path *path, const ft_line_rate *up,
                              const ft_line_rate *down)
{
    pthread_mutex_lock(&path->lock);
    ft_line_init(&path->up, up);
    ft_line_init(&path->down, down);
    path->limited = is_limited(up) || is_limited(down);
    pthread_mutex_unlock(&path->lock);
}

void ft_bench_load_path_wait(ft_bench_load_path *path)
{
    pthread_mutex_lock(&path->lock);
    while (path->n_links > 0)
        pthread_cond_wait(&path->gone, &path->lock);
    pthread_mutex_unlock(&path->lock);
}

void ft_bench_load_path_deinit(ft_bench_load_path *path)
{
    ft_bench_load_path_wait(path);
    pthread_cond_destroy(&path->gone);
    pthread_mutex_destroy(&path->lock);
}

ft_link_source ft_bench_load_path_source(ft_bench_load_path *path)
{
    return (ft_link_source){.ctx = path,
                            .open = path_open,
                            .info = path_info,
                            .health = path->inner.health ? path_health : NULL,
                            .name = path->inner.name};
}

ft_bench_load_traffic ft_bench_load_path_traffic(ft_bench_load_path *path)
{
    pthread_mutex_lock(&path->lock);
    ft_bench_load_traffic traffic = path->traffic;
    pthread_mutex_unlock(&path->lock);
    return traffic;
}

ft_bench_load_sent ft_bench_load_path_last(ft_bench_load_path *path)
{
    pthread_mutex_lock(&path->lock);
    ft_bench_load_sent sent = path->last_draft;
    pthread_mutex_unlock(&path->lock);
    return sent;
}
