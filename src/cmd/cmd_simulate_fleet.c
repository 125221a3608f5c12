// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate fleet`: how many servers so many devices need, by the way that texts are
// assigned to servers, and what the loss of a server does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "sim/fleet_search.h"

#define DEVICES_MAX 16 /* numbers of devices */

typedef struct row {
    uint32_t devices, servers;
    ft_fleet_assign assign;
    bool has_accident;
    ft_fleet_result at, accident;
} row;

typedef struct simulate {
    const char *config_path, *costs_path, *plot, *policy, *assign, *devices;
    int64_t seed, servers, threads;
    bool json;
    ft_fleet_config config;
    row rows[DEVICES_MAX * FT_FLEET_ASSIGNS];
    size_t n_rows;
} simulate;

/* ---- the runs ---- */

static bool say(void *ctx, const ft_fleet_search *search, uint32_t n_servers)
{
    (void)ctx;
    fprintf(stderr, "%s, %u devices: %u servers\n", ft_fleet_assign_name[search->opts.assign],
            search->opts.n_devices, n_servers);
    return !ft_cmd_stopped();
}

/* Servers that the last row of this assignment makes likely; 0: there is none. */
static uint32_t guess(const simulate *f, const row *r)
{
    for (size_t i = f->n_rows; i-- > 0;)
        if (f->rows[i].assign == r->assign)
            return (uint32_t)(((uint64_t)f->rows[i].servers * r->devices + f->rows[i].devices - 1) /
                              f->rows[i].devices);
    return 0;
}

static ft_status run_row(const simulate *f, row *r, ft_error *err)
{
    ft_fleet_search search = {.opts = {.config = &f->config,
                                       .assign = r->assign,
                                       .n_devices = r->devices,
                                       .n_servers = (uint32_t)f->servers,
                                       .seed = (uint64_t)f->seed,
                                       .n_threads = (int)f->threads},
                              .guess = guess(f, r),
                              .trying = say};
    ft_fleet_opts *opts = &search.opts;
    r->servers = (uint32_t)f->servers;
    ft_status status = f->servers > 0 ? ft_fleet_run(opts, err, &r->at)
                                      : ft_fleet_needed(&search, err, &r->servers, &r->at);
    r->has_accident = r->servers > 1;
    if (status != FT_OK || !r->has_accident)
        return status;
    if (ft_cmd_stopped())
        return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
    opts->n_servers = r->servers;
    opts->accident = true;
    return ft_fleet_run(opts, err, &r->accident);
}

/* "1000,10000" */
static ft_status parse_devices(const char *text, ft_error *err, uint32_t list[DEVICES_MAX],
                               size_t *n)
{
    const char *at = text;
    for (*n = 0; *n < DEVICES_MAX; at++) {
        char *end;
        const long devices = strtol(at, &end, 10);
        if (end == at || devices < 1 || devices > FT_FLEET_DEVICES_MAX)
            break;
        list[(*n)++] = (uint32_t)devices;
        if (*end == 0)
            return FT_OK;
        if (*end != ',')
            break;
        at = end;
    }
    return ft_error_set(err, FT_INVALID,
                        "simulate: --devices %s: not 1 to %d numbers from 1 to %u with commas "
                        "between them",
                        text, DEVICES_MAX, FT_FLEET_DEVICES_MAX);
}

static ft_status run_all(simulate *f, int only, ft_error *err)
{
    uint32_t list[DEVICES_MAX];
    size_t n;
    ft_status status = parse_devices(f->devices, err, list, &n);
    for (size_t k = 0; k < n && status == FT_OK; k++)
        for (int i = 0; i < FT_FLEET_ASSIGNS && status == FT_OK; i++) {
            row *r = &f->rows[f->n_rows];
            if (only != FT_FLEET_ASSIGNS && only != i)
                continue;
            *r = (row){.devices = list[k], .assign = (ft_fleet_assign)i};
            status = run_row(f, r, err);
            f->n_rows += status == FT_OK;
        }
    return status;
}

/* ---- the report ---- */

static json_t *counts(const uint64_t *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)values[i]));
    return list;
}

static double busy(const row *r, const ft_fleet_part *part, double seconds)
{
    return (double)part->r.busy_us / 1e6 / seconds / r->servers;
}

static json_t *part_json(const simulate *f, const ft_fleet_part *part)
{
    const size_t n = f->config.server.n_classes;
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "texts",
                     counts(part->r.texts, n), "late", counts(part->r.slow, n), "given_up",
                     counts(part->given_up, n), "begun", (json_int_t)part->begun, "ended",
                     (json_int_t)part->ended, "moved", (json_int_t)part->moved, "tokens",
                     (json_int_t)part->r.tokens, "rounds", (json_int_t)part->r.rounds, "late_share",
                     ft_fleet_late_share(part), "prefix_found", ft_fleet_found_share(part));
}

static json_t *row_json(const simulate *f, const row *r)
{
    const double seconds = f->config.k[FT_FLEET_MEASURE_S];
    const ft_fleet_part *part = &r->at.part[FT_FLEET_PART_BEFORE];
    json_t *out = part_json(f, part), *parts = json_object();
    json_object_set_new(out, "devices", json_integer(r->devices));
    json_object_set_new(out, "servers", json_integer(r->servers));
    json_object_set_new(out, "assign", json_string(ft_fleet_assign_name[r->assign]));
    json_object_set_new(out, "busy", json_real(busy(r, part, seconds)));
    json_object_set_new(out, "unfinished", json_integer((json_int_t)r->at.unfinished));
    for (int i = FT_FLEET_PART_BEFORE; i < FT_FLEET_PARTS && r->has_accident; i++)
        json_object_set_new(parts, ft_fleet_part_name[i], part_json(f, &r->accident.part[i]));
    json_object_set_new(out, "accident", parts);
    return out;
}

static json_t *report_of(const simulate *f)
{
    json_t *rows = json_array(), *classes = json_array();
    for (size_t i = 0; i < f->n_rows; i++)
        json_array_append_new(rows, row_json(f, &f->rows[i]));
    for (size_t i = 0; i < f->config.server.n_classes; i++)
        json_array_append_new(classes, json_real(f->config.server.tokens_per_s[i]));
    return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "command", "simulate fleet", "config",
                     f->config_path, "policy", f->policy, "seed", (json_int_t)f->seed,
                     "classes_tokens_per_s", classes, "rows", rows);
}

static void print_report(const simulate *f)
{
    printf("%9s %-7s %8s %9s %7s %7s %6s   late: %7s %7s %7s %8s %7s\n", "devices", "assign",
           "servers", "texts", "late", "prefix", "busy", "before", "lost", "after", "prefix",
           "moved");
    for (size_t i = 0; i < f->n_rows; i++) {
        const row *r = &f->rows[i];
        const ft_fleet_part *part = &r->at.part[FT_FLEET_PART_BEFORE], *acc = r->accident.part;
        printf("%9u %-7s %8u %9llu %6.1f%% %6.1f%% %5.0f%%", r->devices,
               ft_fleet_assign_name[r->assign], r->servers, (unsigned long long)part->ended,
               100 * ft_fleet_late_share(part), 100 * ft_fleet_found_share(part),
               100 * busy(r, part, f->config.k[FT_FLEET_MEASURE_S]));
        if (r->has_accident)
            printf("         %6.1f%% %6.1f%% %6.1f%% %7.1f%% %7llu",
                   100 * ft_fleet_late_share(&acc[FT_FLEET_PART_BEFORE]),
                   100 * ft_fleet_late_share(&acc[FT_FLEET_PART_LOST]),
                   100 * ft_fleet_late_share(&acc[FT_FLEET_PART_AFTER]),
                   100 * ft_fleet_found_share(&acc[FT_FLEET_PART_LOST]),
                   (unsigned long long)acc[FT_FLEET_PART_LOST].moved);
        printf("\n");
    }
}

/* Servers over devices, a line for each assignment. The rows have one or all of them, in order. */
static ft_status plot(const simulate *f, ft_error *err)
{
    ft_plot p = {.command = "simulate", .path = f->plot, .width = 720, .height = 480};
    const int first = (int)f->rows[0].assign, last = (int)f->rows[f->n_rows - 1].assign;
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key left top\nset logscale xy\nset xlabel 'devices'\n"
                       "set ylabel 'servers'\nplot ");
    for (int i = first; i <= last; i++)
        fprintf(p.gnuplot, "%s'-' title '%s' with linespoints", i > first ? ", " : "",
                ft_fleet_assign_name[i]);
    fprintf(p.gnuplot, "\n");
    for (int i = first; i <= last; i++) {
        for (size_t k = 0; k < f->n_rows; k++)
            if (f->rows[k].assign == (ft_fleet_assign)i)
                fprintf(p.gnuplot, "%u %u\n", f->rows[k].devices, f->rows[k].servers);
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

static ft_status load(simulate *f, ft_error *err)
{
    if (!f->config_path)
        return ft_error_set(err, FT_INVALID,
                            "simulate: which setting? pass --config, as sim/fleet.json");
    ft_status status = ft_fleet_config_load(f->config_path, err, &f->config);
    if (status == FT_OK && f->costs_path)
        status = ft_costs_load(f->costs_path, err, &f->config.server.costs);
    if (status != FT_OK)
        return status;
    f->config.server.policy = ft_sched_find(f->policy);
    if (!f->config.server.policy || f->config.server.policy->no_drafts ||
        f->config.server.policy->start_us)
        return ft_error_set(err, FT_INVALID, "simulate: --policy is wisp, edf or fcfs");
    return FT_OK;
}

static int run(void *options, int n_words, char **words)
{
    simulate *f = options;
    ft_error err = {0};
    int only = 0;
    (void)n_words, (void)words;
    ft_cmd_catch_signals();
    ft_status status = load(f, &err);
    while (only < FT_FLEET_ASSIGNS && f->assign &&
           strcmp(ft_fleet_assign_name[only], f->assign) != 0)
        only++;
    if (!f->assign)
        only = FT_FLEET_ASSIGNS;
    else if (status == FT_OK && only == FT_FLEET_ASSIGNS)
        status = ft_error_set(&err, FT_INVALID, "simulate: --assign is ring, least or random");
    if (status == FT_OK)
        status = run_all(f, only, &err);
    if (status == FT_OK && f->plot)
        status = plot(f, &err);
    if (status != FT_OK)
        return ft_cmd_fail(&err);
    if (f->json)
        return ft_cmd_print_json(report_of(f));
    print_report(f);
    return 0;
}

static const ft_flag rows[] = {
    {"--config", NULL, FT_FLAG(simulate, config_path), "FILE", "setting (JSON)"},
    {"--costs", NULL, FT_FLAG(simulate, costs_path), "FILE",
     "costs of passes, as fit verify-time writes them, instead of the setting's"},
    {"--devices", NULL, FT_FLAG(simulate, devices), "N,N...", "numbers of devices, one row each"},
    {"--servers", NULL, FT_FLAG(simulate, servers), "N",
     "no search: so many servers; 0: search how many are needed", 0, FT_FLEET_SERVERS_MAX},
    {"--assign", NULL, FT_FLAG(simulate, assign), "NAME",
     "only this assignment of texts to servers: ring, least or random"},
    {"--policy", NULL, FT_FLAG(simulate, policy), "NAME", "of the servers: wisp, edf or fcfs"},
    {"--seed", NULL, FT_FLAG(simulate, seed), "N", "of all runs", 0, 1e9},
    {"--threads", NULL, FT_FLAG(simulate, threads), "N",
     "that simulate; 0: one for each core; changes no result", 0, 64},
    {"--plot", NULL, FT_FLAG(simulate, plot), "FILE",
     "servers over devices, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(simulate, json), NULL, "print one JSON object"},
};

static const simulate defaults = {.seed = 1, .policy = "wisp", .devices = "1000,10000"};

const ft_command ft_cmd_simulate_fleet = {
    .name = "simulate fleet",
    .summary = "how many servers so many devices need, by how texts are assigned to them",
    .usage = "--config FILE [flags]",
    .about = "Simulates many servers behind a proxy, with the servers' own policies on a virtual\n"
             "clock, and devices whose users chat: later turns find their KV only at the server\n"
             "of the turn before. Searches the fewest servers at which no more than epsilon of\n"
             "the texts are late, for each assignment of texts to servers. Then, with so many,\n"
             "a server is lost and later one is added.\n"
             "docs/SIMULATOR.md says what is modelled.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
