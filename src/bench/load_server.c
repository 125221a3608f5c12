// SPDX-License-Identifier: Apache-2.0
// The child server. It writes its ports into files of a temporary directory, beside its log.
#include "bench/load_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/load_process.h"

#define START_S     300 /* to load a model */
#define POLL_NS     2000000
#define ARGS_MAX    64
#define NUMBER_SZ   24
#define KV_TOK_MOST (1u << 26)

static const char *const files[] = {"port", "metrics", "log", "timeline"};

static void path_of(const ft_bench_load_server *s, const char *file, char path[64])
{
    snprintf(path, 64, "%s/%s", s->dir, file);
}

/* ---- the child ---- */

typedef struct arguments {
    char *arg[ARGS_MAX + 1];
    char number[ARGS_MAX][NUMBER_SZ];
    int n;
} arguments;

static void add(arguments *a, const char *flag, const char *value)
{
    a->arg[a->n++] = (char *)flag;
    if (value)
        a->arg[a->n++] = (char *)value;
}

static void add_number(arguments *a, const char *flag, uint32_t value)
{
    snprintf(a->number[a->n], NUMBER_SZ, "%u", value);
    add(a, flag, a->number[a->n]);
}

static void add_device(arguments *a, const ft_device_opts *d)
{
    if (d->names)
        add(a, "--device", d->names);
    if (d->rpc)
        add(a, "--rpc", d->rpc);
    if (d->n_gpu_layers >= 0)
        add_number(a, "--n-gpu-layers", (uint32_t)d->n_gpu_layers);
    if (d->kernels)
        add(a, "--kernels", d->kernels);
}

static ft_status spawn(const ft_bench_load_server_opts *o, ft_bench_load_server *s, ft_error *err)
{
    char port[64], metrics[64], log_path[64], timeline[64];
    arguments a = {.n = 0};
    path_of(s, "port", port);
    path_of(s, "metrics", metrics);
    path_of(s, "log", log_path);
    path_of(s, "timeline", timeline);
    add(&a, "foretoken", "serve");
    add(&a, "-m", o->model);
    if (o->draft) {
        add(&a, "-md", o->draft);
        add_number(&a, "--draft-depth", o->depth);
        add_number(&a, "--spec-draft-n-max", o->budget);
        add_number(&a, "--draft-width", o->width);
        if (o->draft_always)
            add(&a, "--draft-always", NULL);
    }
    add_number(&a, "--port", o->port);
    add(&a, "--port-file", port);
    add(&a, "--metrics", "0");
    add(&a, "--metrics-port-file", metrics);
    add_number(&a, "--ctx-size", o->ctx);
    add_number(&a, "--kv-tokens", o->kv_tok);
    add_number(&a, "--max-sessions", o->max_sessions);
    add(&a, "--per-client-share", "100"); /* all load comes from one address */
    add(&a, "--idle-s", "0");             /* sessions idle for as long as the bench says */
    add_number(&a, "--threads", o->threads);
    add(&a, "--policy", o->policy ? o->policy : "fcfs");
    if (o->slo)
        add(&a, "--slo", o->slo);
    if (o->costs)
        add(&a, "--costs", o->costs);
    if (o->cache_type)
        add(&a, "--cache-type", o->cache_type);
    if (o->rules)
        add(&a, "--rules", o->rules);
    if (o->memory)
        add(&a, "--memory", o->memory);
    if (o->rpc) {
        add(&a, "--rpc", o->rpc);
        add(&a, "--device", "RPC0");
        add_number(&a, "--n-gpu-layers", o->offload);
    }
    if (o->device)
        add_device(&a, o->device);
    if (o->no_prefix_cache)
        add(&a, "--no-prefix-cache", NULL);
    if (o->timeline_mb) {
        add(&a, "--timeline", timeline);
        add_number(&a, "--timeline-mb", o->timeline_mb);
    }
    return ft_bench_load_process_start(a.arg, o->core, log_path, err, &s->pid);
}

/* ---- until it listens ---- */

static int read_port(const ft_bench_load_server *s, const char *file)
{
    char path[64];
    int port = 0;
    path_of(s, file, path);
    FILE *in = fopen(path, "r");
    if (!in)
        return 0;
    if (fscanf(in, "%d", &port) != 1)
        port = 0;
    fclose(in);
    return port;
}

static ft_status said(const ft_bench_load_server *s, const char *what, ft_error *err)
{
    char path[64];
    path_of(s, "log", path);
    return ft_bench_load_process_said(path, what, err);
}

static ft_status wait_ready(const ft_bench_load_server_opts *o, ft_bench_load_server *s,
                            ft_error *err)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    double until = ft_bench_now_s() + START_S;
    for (int port = 0; !port;) {
        if (ft_bench_load_process_gone(&s->pid, 0))
            return said(s, "the server ended", err);
        if (o->stop && o->stop())
            return ft_error_set(err, FT_CANCELLED, "stopped");
        if (ft_bench_now_s() > until)
            return said(s, "the server does not listen", err);
        port = read_port(s, "port");
        s->metrics_port = read_port(s, "metrics");
        if (!port || !s->metrics_port) {
            port = 0;
            nanosleep(&pause, NULL);
        }
        snprintf(s->address, sizeof s->address, "127.0.0.1:%d", port);
    }
    return FT_OK;
}

void ft_bench_load_server_fit(ft_bench_load_server_opts *opts, const ft_bench_load_set *set,
                              uint32_t text, uint32_t n_sessions)
{
    uint64_t kv =
        set->total + (uint64_t)set->n * text + (uint64_t)n_sessions * (set->longest + text);
    opts->ctx = set->longest + text;
    opts->kv_tok = (uint32_t)(kv < KV_TOK_MOST ? kv : KV_TOK_MOST);
}

ft_status ft_bench_load_server_start(const ft_bench_load_server_opts *opts, ft_error *err,
                                     ft_bench_load_server *out)
{
    *out = (ft_bench_load_server){.dir = "/tmp/foretoken-bench-XXXXXX"};
    if (!mkdtemp(out->dir)) {
        *out = (ft_bench_load_server){0};
        return ft_error_set(err, FT_IO, "no temporary directory: %s", strerror(errno));
    }
    ft_status status = spawn(opts, out, err);
    if (status == FT_OK)
        status = wait_ready(opts, out, err);
    if (status != FT_OK)
        ft_bench_load_server_stop(out);
    return status;
}

ft_status ft_bench_load_server_kill(const ft_bench_load_server_opts *opts, ft_error *err,
                                    ft_bench_load_server *s)
{
    ft_bench_load_server_opts again = *opts;
    const char *colon = strrchr(s->address, ':');
    ft_bench_load_process_kill(&s->pid);
    for (size_t i = 0; i < FT_COUNT(files); i++) { /* what tells that it listens, too */
        char path[64];
        path_of(s, files[i], path);
        unlink(path);
    }
    again.port = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    ft_status status = spawn(&again, s, err);
    return status == FT_OK ? wait_ready(&again, s, err) : status;
}

void ft_bench_load_server_end(ft_bench_load_server *s, char path[64])
{
    ft_bench_load_process_stop(&s->pid);
    path_of(s, "timeline", path);
}

void ft_bench_load_server_stop(ft_bench_load_server *s)
{
    ft_bench_load_process_stop(&s->pid);
    for (size_t i = 0; s->dir[0] && i < FT_COUNT(files); i++) {
        char path[64];
        path_of(s, files[i], path);
        unlink(path);
    }
    if (s->dir[0])
        rmdir(s->dir);
    *s = (ft_bench_load_server){0};
}

/* ---- what it counts ---- */

static ft_status get_page(int port, ft_error *err, ft_buf *page)
{
    char request[128];
    int length = snprintf(request, sizeof request,
                          "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                          "Connection: close\r\n\r\n",
                          port);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char bytes[4096];
    ssize_t n = -1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        write(fd, request, (size_t)length) == length)
        while ((n = read(fd, bytes, sizeof bytes)) > 0)
            if (ft_buf_append(page, bytes, (size_t)n) != FT_OK)
                break;
    if (fd >= 0)
        close(fd);
    if (n != 0 || strncmp(ft_buf_str(page), "HTTP/1.1 200", 12) != 0)
        return ft_error_set(err, FT_UNAVAILABLE, "the server's metrics page does not answer");
    return FT_OK;
}

static double cpu_seconds(pid_t pid)
{
    char path[40], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "r");
    if (!in)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[n] = 0;
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (!rest ||
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

ft_status ft_bench_load_server_count(const ft_bench_load_server *s, ft_error *err,
                                     ft_bench_load_counters *out)
{
    ft_buf page = {0};
    *out = (ft_bench_load_counters){.stats.n_slo = s->n_slo};
    for (uint32_t i = 0; i < s->n_slo; i++)
        out->stats.slo_tokens_per_s[i] = s->slo_tokens_per_s[i];
    double before = ft_bench_now_s();
    ft_status status = get_page(s->metrics_port, err, &page);
    out->at_s = (before + ft_bench_now_s()) / 2;
    out->cpu_s = cpu_seconds(s->pid);
    if (status == FT_OK)
        status = ft_stats_read(&ft_verifier_stat_list, ft_buf_str(&page), err, &out->stats);
    ft_buf_deinit(&page);
    return status;
}

ft_bench_load_counters ft_bench_load_counters_since(const ft_bench_load_counters *a,
                                                    const ft_bench_load_counters *b)
{
    ft_bench_load_counters d = *b;
    d.at_s -= a->at_s;
    d.cpu_s -= a->cpu_s;
    ft_stats_subtract(&ft_verifier_stat_list, &d.stats, &a->stats);
    return d;
}

void ft_bench_load_counters_add(ft_bench_load_counters *sum, const ft_bench_load_counters *more)
{
    sum->at_s += more->at_s;
    sum->cpu_s += more->cpu_s;
    ft_stats_add(&ft_verifier_stat_list, &sum->stats, &more->stats);
}

int ft_bench_load_split_cores(int *core)
{
    cpu_set_t cpus;
    *core = -1;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < 2)
        return 1;
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET((size_t)last, &cpus))
        last--;
    CPU_CLR((size_t)last, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
        return 1;
    *core = last;
    return CPU_COUNT(&cpus);
}

void ft_bench_load_print_cores(int core, int driver_cores, FILE *out)
{
    if (core < 0)
        fprintf(out, "there is no second core: server and edges share one, and these are no "
                     "figures of a server\n");
    else
        fprintf(out, "server: core %d, one thread; edges: %d other core(s)\n", core, driver_cores);
}

void ft_bench_load_print_memory(const char *memory, FILE *out)
{
    if (memory)
        fprintf(out,
                "each server has %s of memory and reads the other weights from disk in every pass, "
                "with threads on the same core\n",
                memory);
}
