// SPDX-License-Identifier: Apache-2.0
// The relay and the lives of the commands, one thread, one epoll. A packet that an edge's device
// sends goes through the edge's `up` pipe to the server's device, one for an edge's address through
// its `down` pipe to that edge's; the rest is dropped. One timer wakes for the next packet that is
// due and for the next deadline.
//
//   WAITING --the server listens--> RUNNING --all edges ended, a failure, a signal--> STOPPING
//   (start_edges)                             (stop: SIGTERM, after GRACE_NS SIGKILL)
#include "net/lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "net/space.h"

#define NETWORK  0x0a4d0000u /* 10.77.0.0/24: .1 is the server */
#define SECOND   1000000000ll
#define LOOK_NS  (SECOND / 20) /* how often the server's ports are looked at: a look takes 2 ms */
#define GRACE_NS (5 * SECOND)  /* from SIGTERM to SIGKILL */

enum { MAX_READS = 64 /* packets of one device in a row, so that none starves the others */ };
enum { SERVER = 0, TIMER = -1, SIGNALS = -2 /* what an event is about; edges count from 1 */ };

typedef enum phase { WAITING, RUNNING, STOPPING } phase;

typedef struct edge {
    ft_space space;
    ft_pipe *up, *down;
    char **env;
} edge;

typedef struct lab {
    const ft_lab_opts *opts;
    ft_error *err;
    ft_status st; /* the first failure */
    ft_lab_report *report;
    ft_space server;
    char **server_env;
    edge *edges; /* [opts->n_edges] */
    int epoll, timer, signals;
    phase phase;
    int64_t started_ns;  /* RUNNING: since when */
    int64_t deadline_ns; /* WAITING: give up; STOPPING: kill */
    int64_t look_ns;     /* WAITING: look at the server's ports again */
    int64_t armed_ns;    /* what the timer is set to */
    int exit_code;       /* -1: none yet */
} lab;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static struct in_addr address_of(size_t i)
{
    return (struct in_addr){.s_addr = htonl(NETWORK + 1 + (uint32_t)i)};
}

/* --- the relay --- */

/* The host part of an IPv4 packet's destination in our network, counted as edges are; -1:
 * elsewhere. */
static int destination(const uint8_t *packet, size_t n)
{
    uint32_t to;
    if (n < 20 || packet[0] >> 4 != 4)
        return -1;
    memcpy(&to, packet + 16, sizeof to);
    to = ntohl(to) - NETWORK - 1;
    return to <= FT_LAB_MAX_EDGES ? (int)to : -1;
}

static bool is_partitioned(const lab *l, int64_t now)
{
    for (size_t i = 0; i < l->opts->n_partitions && l->phase == RUNNING; i++) {
        const ft_lab_partition *p = &l->opts->partitions[i];
        int64_t since_ns = now - l->started_ns - p->at_ns;
        if (since_ns >= 0 && since_ns < p->for_ns)
            return true;
    }
    return false;
}

static void take_packets(lab *l, size_t from)
{
    int tun = from == SERVER ? l->server.tun : l->edges[from - 1].space.tun;
    uint8_t packet[FT_PIPE_MTU];
    for (int i = 0; i < MAX_READS; i++) {
        ssize_t n = read(tun, packet, sizeof packet);
        if (n <= 0)
            return;
        int to = destination(packet, (size_t)n);
        bool up = from != SERVER && to == SERVER, down = from == SERVER && to > SERVER;
        int64_t now = now_ns();
        if (!up && !(down && (size_t)to <= l->opts->n_edges))
            l->report->strays++;
        else if (is_partitioned(l, now))
            l->report->cut++;
        else
            ft_pipe_push(up ? l->edges[from - 1].up : l->edges[to - 1].down, now, packet,
                         (size_t)n);
    }
}

/* What is due; when the next packet is. */
static int64_t deliver(lab *l, ft_pipe *pipe, int tun)
{
    const ft_packet *packet;
    while (ft_pipe_due_ns(pipe) != INT64_MAX && (packet = ft_pipe_pop(pipe, now_ns())))
        if (write(tun, packet->data, packet->n) != (ssize_t)packet->n)
            l->report->refused++;
    return ft_pipe_due_ns(pipe);
}

static int64_t deliver_all(lab *l)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < l->opts->n_edges; i++) {
        edge *e = &l->edges[i];
        int64_t up = deliver(l, e->up, l->server.tun), down = deliver(l, e->down, e->space.tun);
        next = up < next ? up : next;
        next = down < next ? down : next;
    }
    return next;
}

static void arm(lab *l, int64_t at_ns)
{
    struct itimerspec when = {.it_value = {.tv_sec = at_ns / SECOND, .tv_nsec = at_ns % SECOND}};
    if (at_ns == l->armed_ns)
        return;
    l->armed_ns = at_ns;
    if (at_ns == INT64_MAX)
        when = (struct itimerspec){.it_value = {0}}; /* never */
    timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* --- the commands --- */

static void start_edges(lab *l)
{
    l->phase = RUNNING;
    l->started_ns = now_ns();
    for (size_t i = 0; i < l->opts->n_edges; i++)
        ft_space_start(&l->edges[i].space);
}

static void stop_all(lab *l, bool now)
{
    ft_space_stop(&l->server, now);
    for (size_t i = 0; i < l->opts->n_edges; i++)
        ft_space_stop(&l->edges[i].space, now);
}

static void stop(lab *l, int exit_code)
{
    if (l->exit_code < 0)
        l->exit_code = exit_code;
    if (l->phase != STOPPING)
        l->deadline_ns = now_ns() + GRACE_NS;
    l->phase = STOPPING;
    stop_all(l, false);
}

static void fail(lab *l, ft_status st)
{
    if (l->st == FT_OK)
        l->st = st;
    stop(l, FT_LAB_FAILED);
}

static bool edges_ended(const lab *l, int *code)
{
    *code = 0;
    for (size_t i = 0; i < l->opts->n_edges; i++) {
        if (l->edges[i].space.pid)
            return false;
        if (*code == 0)
            *code = l->edges[i].space.exit_code;
    }
    return true;
}

static void reap(lab *l)
{
    int code;
    for (size_t i = 0; i < l->opts->n_edges; i++)
        ft_space_reap(&l->edges[i].space);
    bool server_ended = ft_space_reap(&l->server);
    if (l->phase == WAITING && server_ended)
        fail(l, ft_error_set(l->err, FT_ABORTED,
                             "the server ended with status %d before it listened on port %u",
                             l->server.exit_code, l->opts->wait_port));
    else if (l->phase != STOPPING && edges_ended(l, &code))
        stop(l, code);
    else if (l->phase != STOPPING && server_ended && l->server.exit_code != 0)
        stop(l, l->server.exit_code);
}

static void take_signals(lab *l)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            reap(l);
            continue;
        }
        if (l->phase == STOPPING && l->exit_code > 128) /* a second one */
            stop_all(l, true);
        stop(l, 128 + (int)info.ssi_signo);
    }
}

/* What time itself brings; the next time that it does. */
static int64_t look(lab *l)
{
    int64_t now = now_ns();
    if (l->phase == WAITING && now >= l->look_ns) {
        l->look_ns = now + LOOK_NS;
        if (ft_space_listens(&l->server, l->opts->wait_port))
            start_edges(l);
        else if (now >= l->deadline_ns)
            fail(l, ft_error_set(l->err, FT_TIMEOUT,
                                 "the server did not listen on port %u within %g s",
                                 l->opts->wait_port, (double)l->opts->wait_ns / 1e9));
    }
    if (l->phase == STOPPING && now >= l->deadline_ns) {
        stop_all(l, true);
        l->deadline_ns = now + GRACE_NS;
    }
    return l->phase == WAITING ? l->look_ns : l->phase == STOPPING ? l->deadline_ns : INT64_MAX;
}

static bool anybody_lives(const lab *l)
{
    int code;
    return l->server.pid || !edges_ended(l, &code);
}

static void run(lab *l)
{
    struct epoll_event events[16];
    uint64_t ticks;
    ft_space_start(&l->server);
    l->deadline_ns = now_ns() + l->opts->wait_ns;
    if (!l->opts->wait_port)
        start_edges(l);
    while (anybody_lives(l)) {
        int64_t next = deliver_all(l), deadline = look(l);
        arm(l, next < deadline ? next : deadline);
        int n = epoll_wait(l->epoll, events, 16, -1);
        for (int i = 0; i < n; i++) {
            int what = events[i].data.fd;
            if (what >= SERVER)
                take_packets(l, (size_t)what);
            else if (what == SIGNALS)
                take_signals(l);
            else if (read(l->timer, &ticks, sizeof ticks) > 0)
                l->armed_ns = 0;
        }
    }
}

/* --- setting up, taking down --- */

/* What no proxy of the machine's network can be reached through, and what the lab sets itself. */
static bool is_dropped(const char *variable)
{
    static const char *const names[] = {"http_proxy=", "https_proxy=", "all_proxy=", "grpc_proxy=",
                                        "HTTP_PROXY=", "HTTPS_PROXY=", "ALL_PROXY=", "NETLAB_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void free_env(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

/* The caller's, and where it is. NULL without memory. */
static char **make_env(const lab *l, size_t i)
{
    char server[INET_ADDRSTRLEN], own[INET_ADDRSTRLEN], added[5][64];
    struct in_addr at = address_of(0), here = address_of(i);
    size_t n_old = 0, n = 0;
    while (environ[n_old])
        n_old++;
    char **env = calloc(n_old + 6, sizeof *env);
    inet_ntop(AF_INET, &at, server, sizeof server);
    inet_ntop(AF_INET, &here, own, sizeof own);
    snprintf(added[0], sizeof *added, "NETLAB_SERVER=%s", server);
    snprintf(added[1], sizeof *added, "NETLAB_ADDRESS=%s", own);
    snprintf(added[2], sizeof *added, "NETLAB_EDGE=%zu", i);
    snprintf(added[3], sizeof *added, "NETLAB_EDGES=%zu", l->opts->n_edges);
    snprintf(added[4], sizeof *added, "NETLAB_RTT_MS=%g", l->opts->rtt_ms);
    for (size_t j = 0; env && j < n_old + 5; j++) {
        const char *variable = j < n_old ? environ[j] : added[j - n_old];
        if (j < n_old && is_dropped(variable))
            continue;
        env[n] = strdup(variable);
        if (!env[n++]) {
            free_env(env);
            return NULL;
        }
    }
    return env;
}

static ft_status watch(lab *l, int fd, int what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = what};
    if (fd >= 0 && epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return FT_OK;
    return ft_error_set(l->err, FT_IO, "watching for packets: %s", strerror(errno));
}

/* Namespace i: 0 is the server's. */
static ft_status make_space(lab *l, size_t i)
{
    const ft_lab_opts *o = l->opts;
    ft_space *space = i ? &l->edges[i - 1].space : &l->server;
    char **env = make_env(l, i);
    *(i ? &l->edges[i - 1].env : &l->server_env) = env;
    if (!env)
        return ft_error_set(l->err, FT_NOMEM, "out of memory");
    ft_space_opts opts = {.address = address_of(i),
                          .command = i ? o->edges[(i - 1) % o->n_edge_commands] : o->server,
                          .env = env,
                          .no_input = i == 0 || o->n_edges > 1};
    ft_status st = ft_space_create(&opts, l->err, space);
    return st == FT_OK ? watch(l, space->tun, (int)i) : st;
}

static ft_status make_pipes(lab *l, size_t i)
{
    ft_pipe_opts up = l->opts->up, down = l->opts->down;
    up.seed = l->opts->seed * 1000003u + 2 * i;
    down.seed = up.seed + 1;
    ft_status st = ft_pipe_create(&up, l->err, &l->edges[i].up);
    return st == FT_OK ? ft_pipe_create(&down, l->err, &l->edges[i].down) : st;
}

/* Under load a relay that waits for its turn would add to every delay. */
static bool come_first(void)
{
    struct sched_param param = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

static ft_status set_up(lab *l)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    ft_status st = watch(l, l->timer, TIMER);
    if (st == FT_OK)
        st = watch(l, l->signals, SIGNALS);
    for (size_t i = 0; i < l->opts->n_edges && st == FT_OK; i++)
        st = make_pipes(l, i);
    for (size_t i = 0; i <= l->opts->n_edges && st == FT_OK; i++)
        st = make_space(l, i);
    l->report->realtime = st == FT_OK && come_first();
    return st;
}

static void take_down(lab *l, int64_t began_ns)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    l->report->seconds = (double)(now_ns() - began_ns) / 1e9;
    l->report->relay_cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    l->report->server_exit_code = l->server.exit_code;
    l->report->n_edges = l->opts->n_edges;
    ft_space_destroy(&l->server);
    free_env(l->server_env);
    for (size_t i = 0; i < l->opts->n_edges; i++) {
        edge *e = &l->edges[i];
        ft_lab_edge *r = &l->report->edge[i];
        struct in_addr address = address_of(i + 1);
        inet_ntop(AF_INET, &address, r->address, sizeof r->address);
        r->exit_code = e->space.started ? e->space.exit_code : -1;
        r->up = e->up ? ft_pipe_get_stats(e->up) : (ft_pipe_stats){0};
        r->down = e->down ? ft_pipe_get_stats(e->down) : (ft_pipe_stats){0};
        ft_space_destroy(&e->space);
        ft_pipe_destroy(e->up);
        ft_pipe_destroy(e->down);
        free_env(e->env);
    }
    free(l->edges);
    int fds[] = {l->epoll, l->timer, l->signals};
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

ft_status ft_lab_run(const ft_lab_opts *opts, ft_error *err, ft_lab_report *report, int *exit_code)
{
    lab l = {.opts = opts, .err = err, .report = report, .exit_code = -1};
    int64_t began_ns = now_ns();
    *report = (ft_lab_report){0};
    *exit_code = FT_LAB_FAILED;
    l.epoll = l.timer = l.signals = -1;
    l.edges = calloc(opts->n_edges, sizeof *l.edges);
    if (!l.edges)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    ft_status st = set_up(&l);
    if (st == FT_OK) {
        run(&l);
        st = l.st;
        *exit_code = l.exit_code;
    }
    take_down(&l, began_ns);
    return st;
}
