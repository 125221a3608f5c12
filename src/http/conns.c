// SPDX-License-Identifier: Apache-2.0
// The open connections, their clients and deadlines. To end a connection is to call shutdown(2):
// then its own thread sees the end and cleans up. A descriptor is closed only after it was removed
// here, so it is never that of another connection. The watching thread sleeps until the earliest
// deadline, and is woken if one becomes earlier.
#include "http/conns.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/thread.h"

#define TELL_EVERY_US 10000000 /* a flood of refusals is one line in ten seconds */
/* The longest wait of a refused request, in intervals. Clients that share an address wait for each
 * other's refusals. */
#define LATE_INTERVALS 100
/* A body of so many bytes may take over 5 ms to read, as much as a small prompt takes. */
#define LARGE_BYTES (16u << 10)

static ft_quota *quota_of(ft_http_conns *conns, const ft_http_conn *conn)
{
    return &conns->quota[conn->standing == FT_HTTP_KNOWN ? FT_HTTP_KNOWN : FT_HTTP_STRANGER];
}

/* Takes *at out of the list, and frees it. The lock is held. */
static void forget(ft_http_conns *conns, ft_http_conn **at)
{
    ft_http_conn *conn = *at;
    *at = conn->next;
    ft_quota_give_back(quota_of(conns, conn), &conn->client);
    free(conn);
}

/* The deadline has passed. A new connection's descriptor may be another's by now. */
static void end_late(ft_http_conns *conns, ft_http_conn **at)
{
    if ((*at)->standing == FT_HTTP_NEW) {
        forget(conns, at);
        return;
    }
    shutdown((*at)->fd, SHUT_RDWR);
    (*at)->deadline_us = FT_NO_DEADLINE;
}

static void *watch(void *arg)
{
    ft_http_conns *conns = arg;
    pthread_mutex_lock(&conns->lock);
    while (!conns->stop) {
        const int64_t now = ft_monotonic_us();
        conns->wake_us = FT_NO_DEADLINE;
        for (ft_http_conn **at = &conns->first; *at;) {
            if ((*at)->deadline_us <= now) {
                end_late(conns, at);
                continue;
            }
            if ((*at)->deadline_us < conns->wake_us)
                conns->wake_us = (*at)->deadline_us;
            at = &(*at)->next;
        }
        ft_cond_wait_until(&conns->changed, &conns->lock, conns->wake_us);
    }
    pthread_mutex_unlock(&conns->lock);
    return NULL;
}

static void deinit(ft_http_conns *conns)
{
    ft_quota_deinit(&conns->quota[FT_HTTP_STRANGER]);
    ft_quota_deinit(&conns->quota[FT_HTTP_KNOWN]);
    pthread_cond_destroy(&conns->hurry);
    pthread_cond_destroy(&conns->quiet);
    pthread_cond_destroy(&conns->changed);
    pthread_mutex_destroy(&conns->lock);
}

ft_status ft_http_conns_init(ft_http_conns *conns, uint32_t max, uint32_t share,
                             uint32_t refusal_ms, ft_error *err)
{
    const int64_t interval_us = 1000ll * refusal_ms;
    *conns = (ft_http_conns){.wake_us = FT_NO_DEADLINE, .told_us = -TELL_EVERY_US};
    conns->throttle = (ft_throttle){.interval_us = interval_us,
                                    .burst = FT_HTTP_REFUSALS,
                                    .most_us = LATE_INTERVALS * interval_us};
    ft_status status =
        ft_quota_init(&conns->quota[FT_HTTP_STRANGER], "connections without requests",
                      FT_HTTP_STRANGERS, FT_HTTP_STRANGERS_SHARE, err);
    if (status != FT_OK)
        return status;
    status = ft_quota_init(&conns->quota[FT_HTTP_KNOWN], "connections", max, share, err);
    if (status != FT_OK) {
        ft_quota_deinit(&conns->quota[FT_HTTP_STRANGER]);
        return status;
    }
    pthread_mutex_init(&conns->lock, NULL);
    pthread_cond_init(&conns->changed, NULL);
    pthread_cond_init(&conns->quiet, NULL);
    pthread_cond_init(&conns->hurry, NULL);
    if (pthread_create(&conns->thread, NULL, watch, conns) == 0)
        return FT_OK;
    deinit(conns);
    return ft_error_set(err, FT_NOMEM, "no thread for the connections' deadlines");
}

void ft_http_conns_deinit(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    conns->stop = true;
    pthread_cond_signal(&conns->changed);
    pthread_mutex_unlock(&conns->lock);
    pthread_join(conns->thread, NULL);
    while (conns->first) /* new ones, which never had a thread */
        forget(conns, &conns->first);
    deinit(conns);
}

static void set_deadline(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s)
{
    conn->deadline_us =
        timeout_s > 0 ? ft_monotonic_us() + (int64_t)timeout_s * 1000000 : FT_NO_DEADLINE;
    if (conn->deadline_us < conns->wake_us)
        pthread_cond_signal(&conns->changed);
}

/* The place of the new connection with this descriptor in the list; NULL there: none. The lock is
 * held. */
static ft_http_conn **find_new(ft_http_conns *conns, int fd)
{
    ft_http_conn **at = &conns->first;
    while (*at && ((*at)->fd != fd || (*at)->standing != FT_HTTP_NEW))
        at = &(*at)->next;
    return at;
}

/* The lock is held. */
static void log_refusal(ft_http_conns *conns, const ft_client_id *client, const char *what)
{
    if (ft_monotonic_us() - conns->told_us < TELL_EVERY_US)
        return;
    conns->told_us = ft_monotonic_us();
    FT_LOGW("http", "%s address=%s late=%u", what, client->address, conns->n_late);
}

bool ft_http_conns_add(ft_http_conns *conns, int fd, const ft_client_id *client, uint32_t timeout_s)
{
    ft_quota *quota = &conns->quota[FT_HTTP_STRANGER];
    ft_http_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return false;
    *conn = (ft_http_conn){.fd = fd, .standing = FT_HTTP_NEW, .client = *client};
    pthread_mutex_lock(&conns->lock);
    ft_http_conn **before = find_new(conns, fd);
    if (*before)
        forget(conns, before);
    const ft_quota_room room = ft_quota_look(quota, client);
    if (room == FT_QUOTA_ROOM) {
        ft_quota_add(quota, client);
        conn->next = conns->first;
        conns->first = conn;
        set_deadline(conns, conn, timeout_s);
    } else {
        log_refusal(conns, client,
                    room == FT_QUOTA_SHARE
                        ? "connection refused reason=\"its others have sent no request yet\""
                        : "connection refused reason=\"others have sent no request yet\"");
    }
    pthread_mutex_unlock(&conns->lock);
    if (room != FT_QUOTA_ROOM)
        free(conn);
    return room == FT_QUOTA_ROOM;
}

ft_http_conn *ft_http_conns_start(ft_http_conns *conns, int fd)
{
    pthread_mutex_lock(&conns->lock);
    ft_http_conn *conn = *find_new(conns, fd);
    if (conn)
        conn->standing = FT_HTTP_STRANGER;
    pthread_mutex_unlock(&conns->lock);
    return conn;
}

ft_status ft_http_conns_know(ft_http_conns *conns, ft_http_conn *conn, const ft_client_id *client,
                             ft_error *err, bool *share)
{
    ft_quota *known = &conns->quota[FT_HTTP_KNOWN];
    ft_status status = FT_OK;
    pthread_mutex_lock(&conns->lock);
    ft_quota_give_back(quota_of(conns, conn), &conn->client);
    const ft_quota_room room = ft_quota_look(known, client);
    if (room == FT_QUOTA_ROOM) {
        conn->standing = FT_HTTP_KNOWN;
        conn->client = *client;
    } else {
        status = ft_quota_refuse(known, client, room, err);
    }
    ft_quota_add(quota_of(conns, conn), &conn->client);
    pthread_mutex_unlock(&conns->lock);
    *share = room == FT_QUOTA_SHARE && known->share < known->max;
    return status;
}

void ft_http_conns_remove(ft_http_conns *conns, ft_http_conn *conn)
{
    if (!conn)
        return;
    pthread_mutex_lock(&conns->lock);
    ft_http_conn **at = &conns->first;
    while (*at != conn)
        at = &(*at)->next;
    forget(conns, at);
    pthread_mutex_unlock(&conns->lock);
}

void ft_http_conns_limit(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s)
{
    pthread_mutex_lock(&conns->lock);
    set_deadline(conns, conn, timeout_s);
    pthread_mutex_unlock(&conns->lock);
}

void ft_http_conn_takes(ft_http_conn *conn, uint64_t body_bytes)
{
    if (body_bytes <= LARGE_BYTES || conn->large)
        return;
    ft_thread_lower_priority(FT_THREAD_LARGE);
    conn->large = true;
}

void ft_http_conns_refused(ft_http_conns *conns, ft_http_conn *conn, const ft_client_id *client,
                           uint32_t n)
{
    pthread_mutex_lock(&conns->lock);
    const int64_t now = ft_monotonic_us(),
                  wait_us = ft_throttle_take_many(&conns->throttle, client, n, now);
    if (wait_us > 0) {
        conns->n_late++;
        log_refusal(conns, client, "many requests refused, their answers are late");
        set_deadline(conns, conn, 0);
        while (!conns->draining && ft_cond_wait_until(&conns->hurry, &conns->lock, now + wait_us)) {
        }
        conns->n_late--;
    }
    pthread_mutex_unlock(&conns->lock);
}

bool ft_http_conns_enter(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    bool open = !conns->draining;
    conns->n_answers += open;
    pthread_mutex_unlock(&conns->lock);
    return open;
}

void ft_http_conns_leave(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    if (--conns->n_answers == 0)
        pthread_cond_broadcast(&conns->quiet);
    pthread_mutex_unlock(&conns->lock);
}

void ft_http_conns_drain(ft_http_conns *conns, int64_t timeout_us)
{
    const int64_t until_us = ft_deadline_us(timeout_us);
    pthread_mutex_lock(&conns->lock);
    conns->draining = true;
    pthread_cond_broadcast(&conns->hurry);
    while (conns->n_answers > 0 && ft_cond_wait_until(&conns->quiet, &conns->lock, until_us)) {
    }
    pthread_mutex_unlock(&conns->lock);
}

void ft_http_conns_retire(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    conns->retiring = true;
    pthread_mutex_unlock(&conns->lock);
}

bool ft_http_conns_retiring(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    bool retiring = conns->retiring || conns->draining;
    pthread_mutex_unlock(&conns->lock);
    return retiring;
}
