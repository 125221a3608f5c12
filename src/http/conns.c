// SPDX-License-Identifier: Apache-2.0
// The open connections and their deadlines. To end a connection is to call shutdown(2): then its
// own thread sees the end and cleans up. A descriptor is closed only after it was removed here, so
// it is never that of another connection. The watching thread sleeps until the earliest deadline,
// and is woken if one becomes earlier.
#include "http/conns.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/cond.h"

static int64_t now_us(void)
{
    const ft_clock clock = ft_clock_monotonic();
    return ft_clock_now_us(&clock);
}

static void *watch(void *arg)
{
    ft_http_conns *conns = arg;
    pthread_mutex_lock(&conns->lock);
    while (!conns->stop) {
        const int64_t now = now_us();
        conns->wake_us = FT_NO_DEADLINE;
        for (ft_http_conn *c = conns->first; c; c = c->next) {
            if (c->deadline_us <= now) {
                shutdown(c->fd, SHUT_RDWR);
                c->deadline_us = FT_NO_DEADLINE;
            }
            if (c->deadline_us < conns->wake_us)
                conns->wake_us = c->deadline_us;
        }
        ft_cond_wait_until(&conns->changed, &conns->lock, conns->wake_us);
    }
    pthread_mutex_unlock(&conns->lock);
    return NULL;
}

static void deinit(ft_http_conns *conns)
{
    pthread_cond_destroy(&conns->quiet);
    pthread_cond_destroy(&conns->changed);
    pthread_mutex_destroy(&conns->lock);
}

ft_status ft_http_conns_init(ft_http_conns *conns, uint32_t max)
{
    *conns = (ft_http_conns){.max = max, .wake_us = FT_NO_DEADLINE};
    pthread_mutex_init(&conns->lock, NULL);
    pthread_cond_init(&conns->changed, NULL);
    pthread_cond_init(&conns->quiet, NULL);
    if (pthread_create(&conns->thread, NULL, watch, conns) == 0)
        return FT_OK;
    deinit(conns);
    return FT_NOMEM;
}

void ft_http_conns_deinit(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    conns->stop = true;
    pthread_cond_signal(&conns->changed);
    pthread_mutex_unlock(&conns->lock);
    pthread_join(conns->thread, NULL);
    deinit(conns);
}

static void set_deadline(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s)
{
    conn->deadline_us = timeout_s > 0 ? now_us() + (int64_t)timeout_s * 1000000 : FT_NO_DEADLINE;
    if (conn->deadline_us < conns->wake_us)
        pthread_cond_signal(&conns->changed);
}

ft_http_conn *ft_http_conns_add(ft_http_conns *conns, int fd, uint32_t timeout_s)
{
    ft_http_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->fd = fd;
    pthread_mutex_lock(&conns->lock);
    conn->next = conns->first;
    conns->first = conn;
    conn->surplus = ++conns->n > conns->max;
    set_deadline(conns, conn, timeout_s);
    pthread_mutex_unlock(&conns->lock);
    return conn;
}

void ft_http_conns_remove(ft_http_conns *conns, ft_http_conn *conn)
{
    if (!conn)
        return;
    pthread_mutex_lock(&conns->lock);
    ft_http_conn **at = &conns->first;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    conns->n--;
    pthread_mutex_unlock(&conns->lock);
    free(conn);
}

void ft_http_conns_limit(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s)
{
    pthread_mutex_lock(&conns->lock);
    set_deadline(conns, conn, timeout_s);
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
    while (conns->n_answers > 0 && ft_cond_wait_until(&conns->quiet, &conns->lock, until_us)) {
    }
    pthread_mutex_unlock(&conns->lock);
}

bool ft_http_conns_draining(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    bool draining = conns->draining;
    pthread_mutex_unlock(&conns->lock);
    return draining;
}
