// SPDX-License-Identifier: Apache-2.0
// The servers of ggml's RPC. ggml opens the connections itself and tells nobody of them, so they
// are found among this process's descriptors, by their peer's address. A connection that was reset
// has no peer any more; so descriptors are noted while all is well. Any thread; `lock` guards all.
#include "model/peers.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "ggml.h"

#define ADDRESSES_MAX 4 /* of a name */
/* A machine that answers no probe and no data for so long is lost. Half of it loses a machine whose
 * network was away for 15 s; twice that lets all texts wait for a minute. */
#define SILENT_S 30
#define PROBE_S  5 /* between two probes */
/* A server opens its port at once; its descriptor is among the first. */
#define LISTEN_FDS     1024
#define LISTEN_LOOKS   100
#define LISTEN_LOOK_US 50000

typedef struct peer {
    char name[FT_PEER_NAME_SIZE];
    struct sockaddr_storage address[ADDRESSES_MAX];
    size_t n_addresses;
    int fd; /* ggml's, as last seen; -1: none was seen */
} peer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static peer peers[FT_PEERS_MAX];
static size_t n_peers;

void ft_peers_add(const char *name, const struct addrinfo *addresses)
{
    pthread_mutex_lock(&lock);
    bool known = n_peers == FT_PEERS_MAX;
    for (size_t i = 0; i < n_peers; i++)
        known = known || strcmp(peers[i].name, name) == 0;
    peer *p = known ? NULL : &peers[n_peers++];
    if (p) {
        *p = (peer){.fd = -1};
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    for (const struct addrinfo *a = addresses; p && a && p->n_addresses < ADDRESSES_MAX;
         a = a->ai_next)
        if (a->ai_addrlen <= sizeof *p->address)
            memcpy(&p->address[p->n_addresses++], a->ai_addr, a->ai_addrlen);
    pthread_mutex_unlock(&lock);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->ss_family == AF_INET6 && a6->sin6_port == b6->sin6_port &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

static bool is_of(const peer *p, const struct sockaddr_storage *address)
{
    for (size_t i = 0; i < p->n_addresses; i++)
        if (same_address(&p->address[i], address))
            return true;
    return false;
}

/* Whose end of a connection the descriptor is. NULL: of no peer. */
static peer *find(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0)
        return NULL;
    for (size_t i = 0; i < n_peers; i++)
        if (is_of(&peers[i], &address))
            return &peers[i];
    return NULL;
}

static void set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value) != 0)
        FT_LOGW("engine", "a machine that vanishes is noticed late option=%d", option);
}

static void probe(int fd)
{
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, PROBE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, SILENT_S / PROBE_S);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * SILENT_S);
}

/* Notes the descriptors of peers that have none yet, or of all. */
static void look(bool all)
{
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    for (size_t i = 0; i < n_peers && all; i++)
        peers[i].fd = -1;
    while (fds && (entry = readdir(fds))) {
        char *end;
        const long fd = strtol(entry->d_name, &end, 10);
        peer *p = *end || end == entry->d_name ? NULL : find((int)fd);
        if (p && p->fd < 0)
            p->fd = (int)fd;
    }
    if (fds)
        closedir(fds);
}

void ft_peers_watch(void)
{
    pthread_mutex_lock(&lock);
    if (n_peers > 0)
        look(true);
    for (size_t i = 0; i < n_peers; i++)
        if (peers[i].fd >= 0)
            probe(peers[i].fd);
    pthread_mutex_unlock(&lock);
}

static bool listens(int fd)
{
    int yes = 0;
    socklen_t size = sizeof yes;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes;
}

static void *wait_for_listener(void *arg)
{
    bool found = false;
    (void)arg;
    for (int i = 0; i < LISTEN_LOOKS && !found; i++) {
        usleep(LISTEN_LOOK_US);
        for (int fd = 0; fd < LISTEN_FDS && !found; fd++)
            if (listens(fd)) {
                probe(fd);
                found = true;
            }
    }
    return NULL;
}

ft_status ft_peers_watch_clients(ft_error *err)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_listener, NULL) != 0)
        return ft_error_set(err, FT_EXHAUSTED, "rpc: no thread to watch clients");
    pthread_detach(thread);
    return FT_OK;
}

static bool has_ended(const peer *p)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return p->fd >= 0 && getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state != TCP_ESTABLISHED;
}

size_t ft_peers_lost(char *out, size_t size)
{
    size_t n = 0, at = 0;
    out[0] = 0;
    pthread_mutex_lock(&lock);
    look(false);
    for (size_t i = 0; i < n_peers; i++)
        n += has_ended(&peers[i]);
    for (size_t i = 0; i < n_peers && at < size; i++)
        if (n == 0 || has_ended(&peers[i])) {
            const char *before = at > 0 ? "," : n == 0 && n_peers > 1 ? "one of " : "";
            at += (size_t)snprintf(out + at, size - at, "%s%s", before, peers[i].name);
        }
    pthread_mutex_unlock(&lock);
    return n;
}

static void log_abort(const char *message)
{
    char names[FT_PEERS_MAX * 32];
    const size_t n = ft_peers_lost(names, sizeof names);
    if (n > 0 || (names[0] && strstr(message, "ggml-rpc")))
        FT_LOGE("engine", "rpc server lost: this process ends server=\"%s\" reason=\"%s\"", names,
                message);
    else
        FT_LOGE("engine", "ggml: %s", message);
}

void ft_aborts_tame(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&done))
        ggml_set_abort_callback(log_abort);
}
