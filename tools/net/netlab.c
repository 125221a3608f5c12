// SPDX-License-Identifier: Apache-2.0
// netlab: runs a server and its edges over an emulated network. Flags in, the lab run, statistics
// out.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "net/lab.h"

/* A packet that those behind overtake takes one more half of the round trip, and at least this:
 * longer than packets sent in a row are apart. */
#define REORDER_LEAST_MS 5.0

typedef struct settings {
    double rtt_ms, jitter_ms, rate_mbit, up_mbit, queue_ms, loss, reorder, wait_s;
    const char *up_steps;
    double up_step_ms, up_stay;
    ft_line_rate up; /* with up_steps */
    int64_t seed, n_edges, wait_port;
    const char *server, *json;
    ft_flag_list edges, partitions;
    ft_lab_partition partition[FT_FLAG_LIST_MAX];
    bool quiet;
} settings;

static const ft_flag rows[] = {
    {"--server", NULL, FT_FLAG(settings, server), "CMD", "the server's command"},
    {"--edge", NULL, FT_FLAG(settings, edges), "CMD", "an edge's command"},
    {"--edges", NULL, FT_FLAG(settings, n_edges), "N",
     "edges; the commands are given out in turns; 0: as many as --edge", 0, FT_LAB_MAX_EDGES},
    {"--rtt-ms", NULL, FT_FLAG(settings, rtt_ms), "MS", "round trip at least; half of it each way",
     0, 60000},
    {"--jitter-ms", NULL, FT_FLAG(settings, jitter_ms), "MS",
     "up to so much more each way, evenly; packets stay in order", 0, 60000},
    {"--rate-mbit", NULL, FT_FLAG(settings, rate_mbit), "R",
     "Mbit/s of a link, each way; 0: no limit", 0, 100000},
    {"--up-mbit", NULL, FT_FLAG(settings, up_mbit), "R",
     "Mbit/s from edge to server; 0: --rate-mbit", 0, 100000},
    {"--up-steps", NULL, FT_FLAG(settings, up_steps), "MBIT,MBIT",
     "from edge to server, instead of --up-mbit: a rate that changes between two"},
    {"--up-step-ms", NULL, FT_FLAG(settings, up_step_ms), "MS",
     "with --up-steps: the rate may change once in so long", 1, 1e6},
    {"--up-stay", NULL, FT_FLAG(settings, up_stay), "P",
     "with --up-steps: chance that the rate stays, from one step to the next", 0, 1},
    {"--queue-ms", NULL, FT_FLAG(settings, queue_ms), "MS",
     "with a rate: packets that would wait longer are dropped", 0, 60000},
    {"--loss", NULL, FT_FLAG(settings, loss), "P",
     "share of packets lost, each way, each by itself: 0 to 1", 0, 1},
    {"--reorder", NULL, FT_FLAG(settings, reorder), "P",
     "share of packets that come later than those behind, each way: 0 to 1", 0, 1},
    {"--partition", NULL, FT_FLAG(settings, partitions), "AT_S:FOR_S",
     "so long after the edges' start and for so long no packet gets through; may be repeated"},
    {"--seed", NULL, FT_FLAG(settings, seed), "S", "of loss, jitter, reordering and --up-steps", 0,
     9e15},
    {"--wait-port", NULL, FT_FLAG(settings, wait_port), "PORT",
     "edges start when the server listens there; 0: at once", 0, 65535},
    {"--wait-s", NULL, FT_FLAG(settings, wait_s), "S", "for that at most", 0, 86400},
    {"--json", NULL, FT_FLAG(settings, json), "FILE",
     "statistics as one JSON object, instead of text on standard error"},
    {"--quiet", NULL, FT_FLAG(settings, quiet), NULL, "no statistics as text"},
};
static const ft_flag_group flags = FT_FLAG_ROWS(rows);

static void print_help(const settings *defaults)
{
    printf(
        "usage: netlab [flags] --server CMD --edge CMD [--edge CMD ...]\n\n"
        "Runs the server and each edge in a network namespace of its own. Each edge has "
        "a link of its\n"
        "own to the server, with the delay, rate and loss that are asked for, and "
        "reaches nothing else.\n"
        "The server is 10.77.0.1, edges are 10.77.0.2, 10.77.0.3, ... Commands are for "
        "/bin/sh and find\n"
        "  NETLAB_SERVER   the server's address       NETLAB_EDGE     0: the server, edges from 1\n"
        "  NETLAB_ADDRESS  their own                  NETLAB_EDGES    how many edges there are\n"
        "  NETLAB_RTT_MS   as asked for\n"
        "in their environment; variables that name a proxy are taken out of it. When all "
        "edges have\n"
        "ended, the server gets a SIGTERM. Exit status: that of the first edge that "
        "failed; that of a\n"
        "server which failed before; 128 + signal; 2 bad usage; 125 netlab itself "
        "failed, 77 because it\n"
        "may not make namespaces (it needs root, or a system that lets users make them) "
        "or finds no TUN\n"
        "driver. Linux only.\n\n");
    ft_flags_help(stdout, &flags, defaults);
}

static ft_status parse_partition(const char *text, ft_error *err, ft_lab_partition *out)
{
    double at_s, for_s;
    char rest;
    if (sscanf(text, "%lf:%lf%c", &at_s, &for_s, &rest) != 2 || !(at_s >= 0 && at_s <= 1e6) ||
        !(for_s > 0 && for_s <= 1e6))
        return ft_error_set(err, FT_INVALID,
                            "--partition %s: two numbers of seconds are wanted, as in 10:2.5",
                            text);
    *out = (ft_lab_partition){.at_ns = (int64_t)(at_s * 1e9), .for_ns = (int64_t)(for_s * 1e9)};
    return FT_OK;
}

static ft_status parse_partitions(settings *s, ft_error *err)
{
    ft_status st = FT_OK;
    for (size_t i = 0; i < s->partitions.n && st == FT_OK; i++)
        st = parse_partition(s->partitions.item[i], err, &s->partition[i]);
    return st;
}

static ft_status parse_steps(settings *s, ft_error *err)
{
    if (!s->up_steps)
        return FT_OK;
    if (s->up_mbit > 0)
        return ft_error_set(err, FT_INVALID, "--up-mbit and --up-steps exclude each other");
    s->up = (ft_line_rate){.step_ns = (int64_t)(s->up_step_ms * 1e6), .stay = s->up_stay};
    return ft_line_parse_steps("--up-steps", s->up_steps, err, &s->up);
}

static ft_status check(settings *s, int n_words, ft_error *err)
{
    if (n_words > 0)
        return ft_error_set(err, FT_INVALID, "commands are given with --server and --edge, quoted");
    if (!s->server || s->edges.n == 0)
        return ft_error_set(err, FT_INVALID, "--server and --edge are needed");
    if (s->n_edges == 0)
        s->n_edges = (int64_t)s->edges.n;
    if ((size_t)s->n_edges < s->edges.n)
        return ft_error_set(err, FT_INVALID, "--edges %d, but %zu commands for edges",
                            (int)s->n_edges, s->edges.n);
    ft_status st = parse_partitions(s, err);
    return st == FT_OK ? parse_steps(s, err) : st;
}

/* Exit status, or -1 to go on. */
static int parse(settings *s, int argc, char **argv)
{
    ft_error err = {0};
    int n_words = 0;
    if (ft_flags_want_help(argc, argv)) {
        print_help(s);
        return 0;
    }
    ft_status st = ft_flags_parse(&flags, s, argc, argv, &err, &n_words);
    if (st == FT_OK)
        st = check(s, n_words, &err);
    if (st == FT_OK)
        return -1;
    fprintf(stderr, "netlab: %s (--help shows the usage)\n", err.message);
    return 2;
}

static double mean_ms(const ft_pipe_stats *p, double sum_ns)
{
    return p->delivered ? sum_ns / (double)p->delivered / 1e6 : 0;
}

static void print_direction(const ft_lab_report *r, size_t i, bool up)
{
    const ft_pipe_stats *p = up ? &r->edge[i].up : &r->edge[i].down;
    fprintf(
        stderr,
        "netlab: edge %zu %-4s %8llu packets %10.1f kB, %llu lost, %llu dropped, %llu reordered, "
        "%.3f ms on the way, late by %.3f ms (at most %.3f)\n",
        i + 1, up ? "up" : "down", (unsigned long long)p->packets, (double)p->bytes / 1e3,
        (unsigned long long)p->lost, (unsigned long long)p->dropped,
        (unsigned long long)p->reordered, mean_ms(p, p->delay_ns), mean_ms(p, (double)p->late_ns),
        (double)p->late_max_ns / 1e6);
}

static void print_text(const ft_lab_report *r)
{
    for (size_t i = 0; i < r->n_edges; i++) {
        print_direction(r, i, true);
        print_direction(r, i, false);
    }
    fprintf(stderr,
            "netlab: %.1f s, %llu packets lost to partitions, %.3f s of processor time for the "
            "relay%s\n",
            r->seconds, (unsigned long long)r->cut, r->relay_cpu_s,
            r->realtime ? "" : " (without real-time priority)");
}

static json_t *direction_json(const ft_pipe_stats *p)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "packets",
                     (json_int_t)p->packets, "bytes", (json_int_t)p->bytes, "lost",
                     (json_int_t)p->lost, "dropped", (json_int_t)p->dropped, "reordered",
                     (json_int_t)p->reordered, "delivered", (json_int_t)p->delivered, "delay_ms",
                     mean_ms(p, p->delay_ns), "late_ms", mean_ms(p, (double)p->late_ns),
                     "late_max_ms", (double)p->late_max_ns / 1e6);
}

static json_t *partitions_json(const settings *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->partitions.n; i++)
        json_array_append_new(list, json_string(s->partitions.item[i]));
    return list;
}

/* What --up-steps says; without it nothing. */
static json_t *steps_json(const settings *s)
{
    if (!s->up_steps)
        return json_object();
    return json_pack("{s:[f, f], s:f, s:f}", "up_steps", s->up.bits_per_s[0] / 1e6,
                     s->up.bits_per_s[1] / 1e6, "up_step_ms", s->up_step_ms, "up_stay", s->up_stay);
}

static int write_json(const settings *s, const ft_lab_report *r)
{
    json_t *links = json_array();
    for (size_t i = 0; i < r->n_edges; i++)
        json_array_append_new(links,
                              json_pack("{s:i, s:s, s:i, s:o, s:o}", "edge", (int)i + 1, "address",
                                        r->edge[i].address, "exit", r->edge[i].exit_code, "up",
                                        direction_json(&r->edge[i].up), "down",
                                        direction_json(&r->edge[i].down)));
    json_t *o = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:i, s:I, s:I, s:I, s:b, s:f, s:f, "
        "s:o}",
        "rtt_ms", s->rtt_ms, "jitter_ms", s->jitter_ms, "rate_mbit", s->rate_mbit, "up_mbit",
        s->up_mbit > 0 ? s->up_mbit : s->rate_mbit, "queue_ms", s->queue_ms, "loss", s->loss,
        "reorder", s->reorder, "partitions", partitions_json(s), "seed", (json_int_t)s->seed,
        "server_exit", r->server_exit_code, "strays", (json_int_t)r->strays, "cut",
        (json_int_t)r->cut, "refused", (json_int_t)r->refused, "realtime", (int)r->realtime,
        "seconds", r->seconds, "relay_cpu_s", r->relay_cpu_s, "links", links);
    json_t *steps = steps_json(s);
    int failed = json_object_update(o, steps) != 0 ||
                 json_dump_file(o, s->json, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
    json_decref(steps);
    json_decref(o);
    if (failed)
        fprintf(stderr, "netlab: %s: cannot be written\n", s->json);
    return failed;
}

static ft_line_rate constant(double mbit)
{
    return (ft_line_rate){.bits_per_s = {mbit * 1e6}};
}

static ft_line_rate up_rate(const settings *s)
{
    return s->up_steps ? s->up : constant(s->up_mbit > 0 ? s->up_mbit : s->rate_mbit);
}

static ft_pipe_opts direction(const settings *s, ft_line_rate rate)
{
    return (ft_pipe_opts){.delay_ns = (int64_t)(s->rtt_ms * 1e6 / 2),
                          .jitter_ns = (int64_t)(s->jitter_ms * 1e6),
                          .rate = rate,
                          .queue_ns = (int64_t)(s->queue_ms * 1e6),
                          .loss = s->loss,
                          .reorder = s->reorder,
                          .reorder_ns = (int64_t)(fmax(s->rtt_ms / 2, REORDER_LEAST_MS) * 1e6)};
}

int main(int argc, char **argv)
{
    static ft_lab_report report;
    settings s = {.queue_ms = 100, .wait_s = 120, .seed = 1, .up_step_ms = 100, .up_stay = 0.9};
    ft_error err = {0};
    int code = parse(&s, argc, argv);
    if (code >= 0)
        return code;
    ft_lab_opts opts = {.server = s.server,
                        .edges = s.edges.item,
                        .n_edge_commands = s.edges.n,
                        .n_edges = (size_t)s.n_edges,
                        .up = direction(&s, up_rate(&s)),
                        .down = direction(&s, constant(s.rate_mbit)),
                        .partitions = s.partition,
                        .n_partitions = s.partitions.n,
                        .seed = (uint64_t)s.seed,
                        .rtt_ms = s.rtt_ms,
                        .wait_port = (uint16_t)s.wait_port,
                        .wait_ns = (int64_t)(s.wait_s * 1e9)};
    ft_status st = ft_lab_run(&opts, &err, &report, &code);
    if (st != FT_OK) {
        fprintf(stderr, "netlab: %s\n", err.message);
        code = st == FT_FORBIDDEN ? 77 : FT_LAB_FAILED;
    }
    if (st != FT_FORBIDDEN && s.json && write_json(&s, &report) != 0)
        return FT_LAB_FAILED;
    if (st != FT_FORBIDDEN && !s.json && !s.quiet)
        print_text(&report);
    return code;
}
