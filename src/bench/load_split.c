// SPDX-License-Identifier: Apache-2.0
// An rpc-server and a relay before it. ggml's server takes no port 0 and does not say when it
// listens: a free port is looked for, and asked until it answers.
#include "bench/load_split.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/load_process.h"

#define READY_S 60 /* then something is wrong */
#define STEP_NS 5000000

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* One that nobody listens on; 0: there is none. The server binds it a moment later. */
static uint16_t free_port(void)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(at.sin_port) : 0;
}

static bool answers(uint16_t port)
{
    const struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static ft_status wait_ready(ft_bench_load_split *s, uint16_t port, ft_bench_stop stop,
                            ft_error *err)
{
    const struct timespec pause = {.tv_nsec = STEP_NS};
    const double until = ft_bench_now_s() + READY_S;
    while (!answers(port)) {
        if (ft_bench_load_process_gone(&s->pid, 0))
            return ft_bench_load_process_said(s->log, "the rpc-server ended", err);
        if (stop && stop())
            return ft_error_set(err, FT_CANCELLED, "stopped");
        if (ft_bench_now_s() > until)
            return ft_bench_load_process_said(s->log, "the rpc-server does not listen", err);
        nanosleep(&pause, NULL);
    }
    return FT_OK;
}

static ft_status start(ft_bench_load_split *s, ft_bench_stop stop, ft_error *err)
{
    const uint16_t port = free_port();
    uint16_t near = 0;
    char listen_on[32];
    snprintf(listen_on, sizeof listen_on, "127.0.0.1:%u", port);
    char *const args[] = {"foretoken", "rpc-server", "--listen", listen_on, "--device",
                          "CPU",       "--threads",  "1",        NULL};
    if (port == 0)
        return ft_error_set(err, FT_IO, "no free port for an rpc-server");
    ft_status status = ft_bench_load_process_start(args, -1, s->log, err, &s->pid);
    if (status == FT_OK)
        status = wait_ready(s, port, stop, err);
    if (status == FT_OK)
        status = ft_bench_load_relay_start(port, err, &s->relay, &near);
    snprintf(s->endpoint, sizeof s->endpoint, "127.0.0.1:%u", near);
    return status;
}

ft_status ft_bench_load_split_start(ft_bench_stop stop, ft_error *err, ft_bench_load_split *out)
{
    *out = (ft_bench_load_split){.log = "/tmp/foretoken-bench-log-XXXXXX"};
    int fd = mkstemp(out->log);
    if (fd < 0) {
        *out = (ft_bench_load_split){0};
        return ft_error_set(err, FT_IO, "no temporary file");
    }
    close(fd);
    ft_status status = start(out, stop, err);
    if (status != FT_OK)
        ft_bench_load_split_stop(out);
    return status;
}

void ft_bench_load_split_stop(ft_bench_load_split *s)
{
    ft_bench_load_relay_stop(s->relay);
    ft_bench_load_process_stop(&s->pid);
    if (s->log[0])
        unlink(s->log);
    *s = (ft_bench_load_split){0};
}
