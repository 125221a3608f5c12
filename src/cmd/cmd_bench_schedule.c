// SPDX-License-Identifier: Apache-2.0
// `foretoken bench schedule`: flags and the table of bench/schedule.h.
#include "bench/schedule.h"

#include <stdio.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_schedule_opts o;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const char *name;
    json_t *p;
    printf("%-8s %10s %10s %10s %10s %10s\n", "policy", "mean us", "median us", "p99 us",
           "worst us", "picked");
    json_object_foreach(json_object_get(report, "policies"), name, p)
        printf("%-8s %10.1f %10.1f %10.1f %10.1f %10.1f\n", name, ft_bench_number(p, "mean_us"),
               ft_bench_number(p, "median_us"), ft_bench_number(p, "p99_us"),
               ft_bench_number(p, "worst_us"), ft_bench_number(p, "picked"));
}

static const ft_flag rows[] = {
    {"--pending", NULL, FT_FLAG(options, o.pending), "N", "pieces of work that wait", 1, 1e6},
    {"--rows", NULL, FT_FLAG(options, o.rows), "N", "rows of a pass at most", 1, 1e6},
    {"--queues", NULL, FT_FLAG(options, o.queues), "N", "decisions of each policy", 1, 1e6},
    {"--costs", NULL, FT_FLAG(options, o.costs), "FILE",
     "what passes cost, from foretoken fit verify-time"},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of the queues", 0, 9e15},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.pending = 1000, .rows = 2048, .queues = 1000, .seed = 1}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report;
    ft_status status = ft_bench_schedule(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_schedule = {
    .name = "bench schedule",
    .summary = "how long a policy takes to choose the next pass",
    .usage = "[flags]",
    .about = "Measures how long a policy takes to choose the next pass from a random queue of "
             "--pending pieces of work. Each call is timed once, so the worst ones include "
             "other work of the machine.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
