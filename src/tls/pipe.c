// SPDX-License-Identifier: Apache-2.0
// One thread waits for all pipes. Each direction has one buffer; a side is read only while its
// buffer is empty, so a slow reader holds the other side back.
//
//   OPEN --local side ends--> ENDING --all is sent, or 5 s are over--> gone
//     \--the client ends, or a failure---------------------------------^
//
// The lock guards the list of pipes; all else of a pipe belongs to the thread.
#include "tls/pipe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/thread.h"

#define OUT_BYTES 16384 /* a TLS record's most */
#define ENDING_US 5000000

typedef struct side {
    struct pipe *pipe;
    int fd;
    uint32_t events; /* that the epoll waits for */
} side;

typedef struct pipe {
    struct pipe *prev, *next;
    ft_tls_conn *conn;
    side net, local;
    int64_t due_us;   /* ENDING: when it is cut; FT_NO_DEADLINE: OPEN */
    size_t at, n_out; /* out[at, n_out) is still to be sent */
    uint8_t out[OUT_BYTES];
} pipe_t;

struct ft_tls_pipes {
    int epoll, wake; /* wake: an eventfd, written by destroy */
    pthread_t thread;
    bool running;
    /* the thread's */
    bool stop;         /* destroy has been called */
    uint32_t n_ending; /* pipes */
    pthread_mutex_t lock;
    pipe_t *first; /* guarded by lock */
};

static bool watch(ft_tls_pipes *p, int how, side *s, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = s};
    s->events = events;
    return epoll_ctl(p->epoll, how, s->fd, &event) == 0;
}

static void drop(ft_tls_pipes *p, pipe_t *pipe)
{
    const side *sides[] = {&pipe->net, &pipe->local};
    pthread_mutex_lock(&p->lock);
    *(pipe->prev ? &pipe->prev->next : &p->first) = pipe->next;
    if (pipe->next)
        pipe->next->prev = pipe->prev;
    pthread_mutex_unlock(&p->lock);
    p->n_ending -= pipe->due_us != FT_NO_DEADLINE;
    ft_tls_conn_destroy(pipe->conn);
    for (int i = 0; i < 2; i++) {
        /* A child that was just forked may have the socket open: closing ours ends no watch. */
        epoll_ctl(p->epoll, EPOLL_CTL_DEL, sides[i]->fd, NULL);
        close(sides[i]->fd);
    }
    free(pipe);
}

/* ---- bytes: false: the pipe is over ---- */

/* Gives received bytes to the local side. */
static bool deliver(pipe_t *pipe)
{
    size_t n;
    const uint8_t *data = ft_tls_conn_bytes(pipe->conn, &n);
    if (n == 0)
        return true;
    const ssize_t sent = send(pipe->local.fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    ft_tls_conn_take(pipe->conn, (size_t)sent);
    return true;
}

static bool pass_in(pipe_t *pipe)
{
    size_t n;
    if (pipe->due_us != FT_NO_DEADLINE)
        return true; /* nobody reads it any more */
    do {
        (void)ft_tls_conn_bytes(pipe->conn, &n);
        if (n == 0 && ft_tls_conn_fill(pipe->conn) == FT_TLS_END)
            return false;
        if (!deliver(pipe))
            return false;
        (void)ft_tls_conn_bytes(pipe->conn, &n);
    } while (n == 0 && ft_tls_conn_has_more(pipe->conn));
    return true;
}

/* Reads what the local side says. */
static bool collect(pipe_t *pipe)
{
    const ssize_t n = recv(pipe->local.fd, pipe->out, sizeof pipe->out, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        pipe->due_us = ft_monotonic_us() + ENDING_US;
    pipe->at = 0;
    pipe->n_out = (size_t)n;
    return true;
}

static bool pass_out(pipe_t *pipe)
{
    size_t sent;
    if (pipe->at == pipe->n_out && pipe->due_us == FT_NO_DEADLINE && !collect(pipe))
        return false;
    if (pipe->at == pipe->n_out)
        return pipe->due_us == FT_NO_DEADLINE;
    const ft_tls_io got =
        ft_tls_conn_send(pipe->conn, pipe->out + pipe->at, pipe->n_out - pipe->at, &sent);
    pipe->at += sent;
    return got != FT_TLS_END;
}

/* events 0: the side is not watched, else its hang-up would be told again and again. */
static bool want(ft_tls_pipes *p, side *s, uint32_t events)
{
    if (s->events == events)
        return true;
    const int how = !events ? EPOLL_CTL_DEL : !s->events ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return watch(p, how, s, events);
}

/* What each side must become ready for. */
static bool want_both(ft_tls_pipes *p, pipe_t *pipe)
{
    const bool open = pipe->due_us == FT_NO_DEADLINE, sending = pipe->at < pipe->n_out;
    size_t n_in;
    (void)ft_tls_conn_bytes(pipe->conn, &n_in);
    const uint32_t room = sending || ft_tls_conn_wants_room(pipe->conn) ? EPOLLOUT : 0;
    /* The client's hang-up is always wanted. */
    return want(p, &pipe->net, EPOLLRDHUP | room | (open && n_in == 0 ? EPOLLIN : 0)) &&
           want(p, &pipe->local,
                (open && !sending ? EPOLLIN : 0) | (open && n_in > 0 ? EPOLLOUT : 0));
}

/* One side of the pipe is ready. */
static void turn(ft_tls_pipes *p, const side *s, uint32_t events)
{
    pipe_t *pipe = s->pipe;
    const bool was_open = pipe->due_us == FT_NO_DEADLINE;
    const bool hung_up = s == &pipe->net && (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
    const bool goes_on = !hung_up && pass_in(pipe) && pass_out(pipe) && want_both(p, pipe);
    p->n_ending += was_open && pipe->due_us != FT_NO_DEADLINE;
    if (!goes_on)
        drop(p, pipe);
}

/* ---- the thread ---- */

static pipe_t *first(ft_tls_pipes *p)
{
    pthread_mutex_lock(&p->lock);
    pipe_t *pipe = p->first;
    pthread_mutex_unlock(&p->lock);
    return pipe;
}

/* Cuts what is late; when the owner has asked to stop, also what is open. Returns how long the
 * thread may wait, in ms; -1: for ever. */
static int look_at_time(ft_tls_pipes *p)
{
    const int64_t now = ft_monotonic_us();
    int64_t until = FT_NO_DEADLINE;
    if (p->n_ending == 0 && !p->stop)
        return -1;
    for (pipe_t *pipe = first(p), *next; pipe; pipe = next) {
        next = pipe->next; /* this thread alone takes pipes out; new ones come before the first */
        if (pipe->due_us <= now || (p->stop && pipe->due_us == FT_NO_DEADLINE))
            drop(p, pipe);
        else if (pipe->due_us < until)
            until = pipe->due_us;
    }
    return until == FT_NO_DEADLINE ? -1 : (int)((until - now) / 1000 + 1);
}

static void *loop(void *arg)
{
    ft_tls_pipes *p = arg;
    for (;;) {
        const int wait_ms = look_at_time(p);
        if (p->stop && !first(p))
            return NULL;
        /* One event at a time: it may end the pipe of another. */
        struct epoll_event event;
        if (epoll_wait(p->epoll, &event, 1, wait_ms) != 1)
            continue;
        if (event.data.ptr == &p->wake) {
            p->stop = true;
            epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->wake, NULL);
        } else {
            turn(p, event.data.ptr, event.events);
        }
    }
}

/* ---- life ---- */

static ft_status set_up(ft_tls_pipes *p, ft_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &p->wake};
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->wake = eventfd(0, EFD_CLOEXEC);
    if (p->epoll < 0 || p->wake < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->wake, &event) != 0)
        return ft_error_set(err, FT_IO, "cannot wait for TLS connections: %s", strerror(errno));
    const ft_status status = ft_thread_start(loop, p, err, &p->thread);
    p->running = status == FT_OK;
    return status;
}

ft_status ft_tls_pipes_create(ft_error *err, ft_tls_pipes **out)
{
    *out = NULL;
    ft_tls_pipes *p = calloc(1, sizeof *p);
    if (!p)
        return ft_error_set(err, FT_NOMEM, "no memory for TLS connections");
    p->epoll = p->wake = -1;
    pthread_mutex_init(&p->lock, NULL);
    const ft_status status = set_up(p, err);
    if (status == FT_OK)
        *out = p;
    else
        ft_tls_pipes_destroy(p);
    return status;
}

void ft_tls_pipes_destroy(ft_tls_pipes *pipes)
{
    if (!pipes)
        return;
    if (pipes->running) {
        while (eventfd_write(pipes->wake, 1) != 0 && errno == EINTR) {
        }
        pthread_join(pipes->thread, NULL);
    }
    if (pipes->epoll >= 0)
        close(pipes->epoll);
    if (pipes->wake >= 0)
        close(pipes->wake);
    pthread_mutex_destroy(&pipes->lock);
    free(pipes);
}

ft_status ft_tls_pipes_add(ft_tls_pipes *pipes, ft_tls_conn *conn, int fd, int local, ft_error *err)
{
    pipe_t *pipe = malloc(sizeof *pipe);
    if (!pipe)
        return ft_error_set(err, FT_NOMEM, "no memory for a TLS connection");
    pipe->conn = conn;
    pipe->net = (side){.pipe = pipe, .fd = fd};
    pipe->local = (side){.pipe = pipe, .fd = local};
    pipe->due_us = FT_NO_DEADLINE;
    pipe->at = pipe->n_out = 0;
    pthread_mutex_lock(&pipes->lock);
    pipe->prev = NULL;
    pipe->next = pipes->first;
    if (pipe->next)
        pipe->next->prev = pipe;
    pipes->first = pipe;
    /* Its first event is that the client can be written to: then all is looked at. */
    pipe->net.events = EPOLLOUT;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = &pipe->net};
    const bool added = epoll_ctl(pipes->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    if (!added) {
        pipes->first = pipe->next;
        if (pipe->next)
            pipe->next->prev = NULL;
    }
    pthread_mutex_unlock(&pipes->lock);
    if (added)
        return FT_OK;
    free(pipe);
    return ft_error_set(err, FT_IO, "cannot wait for a TLS connection: %s", strerror(errno));
}
