// SPDX-License-Identifier: Apache-2.0
// The open connections and their deadlines. Ending one is shutdown(2): its own thread then sees the
// end and cleans up; the descriptor is closed only after it was removed here, so it is never
// another's. The thread sleeps until the earliest deadline and is woken only for an earlier one.
#include "http/conns.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

/* Sleeps until clock time until_us, or the condition is signalled. */
static void sleep_until(ft_http_conns *conns, pthread_cond_t *condition, int64_t until_us)
{
    if (until_us == INT64_MAX) {
        pthread_cond_wait(condition, &conns->lock);
        return;
    }
    struct timespec at;
    int64_t left_us = until_us - ft_clock_now_us(&conns->clock);
    if (left_us <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t nsec = at.tv_nsec + left_us % 1000000 * 1000;
    at.tv_sec += (time_t)(left_us / 1000000 + nsec / 1000000000);
    at.tv_nsec = (long)(nsec % 1000000000);
    pthread_cond_timedwait(condition, &conns->lock, &at);
}

static void *watch(void *arg)
{
    ft_http_conns *conns = arg;
    pthread_mutex_lock(&conns->lock);
    while (!conns->stop) {
        int64_t now_us = ft_clock_now_us(&conns->clock);
        conns->wake_us = INT64_MAX;
        for (ft_http_conn *c = conns->first; c; c = c->next) {
            if (c->deadline_us <= now_us) {
                shutdown(c->fd, SHUT_RDWR);
                c->deadline_us = INT64_MAX;
            }
            if (c->deadline_us < conns->wake_us)
                conns->wake_us = c->deadline_us;
        }
        sleep_until(conns, &conns->changed, conns->wake_us);
    }
    pthread_mutex_unlock(&conns->lock);
    return NULL;
}

ft_status ft_http_conns_init(ft_http_conns *conns, uint32_t max)
{
    pthread_condattr_t attr;
    *conns = (ft_http_conns){.clock = ft_clock_monotonic(), .max = max, .wake_us = INT64_MAX};
    pthread_mutex_init(&conns->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&conns->changed, &attr);
    pthread_cond_init(&conns->quiet, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&conns->thread, NULL, watch, conns) == 0)
        return FT_OK;
    pthread_cond_destroy(&conns->quiet);
    pthread_cond_destroy(&conns->changed);
    pthread_mutex_destroy(&conns->lock);
    return FT_NOMEM;
}

void ft_http_conns_deinit(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    conns->stop = true;
    pthread_cond_signal(&conns->changed);
    pthread_mutex_unlock(&conns->lock);
    pthread_join(conns->thread, NULL);
    pthread_cond_destroy(&conns->quiet);
    pthread_cond_destroy(&conns->changed);
    pthread_mutex_destroy(&conns->lock);
}

static void set_deadline(ft_http_conns *conns, ft_http_conn *conn, uint32_t timeout_s)
{
    conn->deadline_us = INT64_MAX;
    if (timeout_s > 0)
        conn->deadline_us = ft_clock_now_us(&conns->clock) + (int64_t)timeout_s * 1000000;
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
    if (conns->first)
        conns->first->prev = conn;
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
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        conns->first = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
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

bool ft_http_conns_attach(ft_http_conns *conns, ft_http_conn *conn, ft_http_generation *g)
{
    pthread_mutex_lock(&conns->lock);
    conn->generation = g;
    bool stopping = conns->stop;
    if (g && stopping)
        ft_http_generation_cancel(g);
    pthread_mutex_unlock(&conns->lock);
    return !stopping;
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
    int64_t until_us = ft_clock_now_us(&conns->clock) + timeout_us;
    pthread_mutex_lock(&conns->lock);
    conns->draining = true;
    while (conns->n_answers > 0 && ft_clock_now_us(&conns->clock) < until_us)
        sleep_until(conns, &conns->quiet, until_us);
    pthread_mutex_unlock(&conns->lock);
}

bool ft_http_conns_draining(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    bool draining = conns->draining;
    pthread_mutex_unlock(&conns->lock);
    return draining;
}

void ft_http_conns_cancel_all(ft_http_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    conns->stop = true; /* the thread may end: the daemon ends all connections next */
    pthread_cond_signal(&conns->changed);
    for (ft_http_conn *c = conns->first; c; c = c->next)
        if (c->generation)
            ft_http_generation_cancel(c->generation);
    pthread_mutex_unlock(&conns->lock);
}
