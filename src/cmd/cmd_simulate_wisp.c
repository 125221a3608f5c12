// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate wisp`: how many devices a server holds under WISP's costs, by class and mode,
// with the server's own policies on a virtual clock. Reports the paper's numbers beside them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plot.h"
#include "bench/knee.h"
#include "cmd/cmd.h"
#include "cmd/gen_flags.h"
#include "cmd/wisp_sweep.h"
#include "sim/wisp_search.h"

#define MIXED FT_SIM_CLASSES /* the place of mixed classes among a mode's capacities */

typedef struct simulate {
    const char *config_path, *costs_path, *plot, *mode, *policy;
    int64_t seed, devices;
    double seconds;
    ft_static_flags of_static;
    bool json, sensitivity, sweep;
    ft_sim_config config;
    ft_sim_capacity found[FT_SIM_MODES][FT_SIM_CLASSES + 1];
} simulate;

/* ---- the search ---- */

static void say(void *ctx, const ft_sim_search *search, uint32_t n)
{
    const ft_sim_config *c = search->config;
    (void)ctx;
    if (search->class == FT_SIM_MIXED)
        fprintf(stderr, "%s, classes mixed: %u devices\n", ft_sim_mode_name[search->mode], n);
    else
        fprintf(stderr, "%s, %g tokens/s: %u devices\n", ft_sim_mode_name[search->mode],
                c->tokens_per_s[search->class], n);
}

static ft_status search_all(simulate *f, ft_error *err)
{
    ft_status status = FT_OK;
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        for (uint32_t i = 0; i <= f->config.n_classes && status == FT_OK; i++) {
            bool mixed = i == f->config.n_classes;
            const ft_sim_search search = {.config = &f->config,
                                          .mode = (ft_sim_mode)mode,
                                          .class = mixed ? FT_SIM_MIXED : i,
                                          .seed = (uint64_t)f->seed,
                                          .guess = 16,
                                          .trying = say};
            if (ft_cmd_stopped())
                return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
            status = ft_sim_wisp_capacity(&search, err, &f->found[mode][mixed ? MIXED : i]);
        }
    return status;
}

/* ---- one constant at a time ---- */

typedef struct variant {
    const char *name;
    double value;
    double n[FT_SIM_MODES][2]; /* slowest and fastest class */
} variant;

static ft_status run_variant(const simulate *f, const ft_sim_config *config, ft_error *err,
                             variant *out)
{
    ft_status status = FT_OK;
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        for (int end = 0; end < 2 && status == FT_OK; end++) {
            uint32_t class = end ? (uint32_t)config->n_classes - 1 : 0;
            ft_sim_capacity found;
            const ft_sim_search search = {.config = config,
                                          .mode = (ft_sim_mode)mode,
                                          .class = class,
                                          .seed = (uint64_t)f->seed,
                                          .guess = f->found[mode][class].n};
            if (ft_cmd_stopped())
                return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
            status = ft_sim_wisp_capacity(&search, err, &found);
            out->n[mode][end] = found.n;
        }
    return status;
}

static json_t *variant_json(const variant *v)
{
    json_t *row = json_pack("{s:s, s:f}", "constant", v->name, "value", v->value);
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        json_object_set_new(row, ft_sim_mode_name[mode],
                            json_pack("[f, f]", v->n[mode][0], v->n[mode][1]));
    return row;
}

/* Each open constant halved and doubled, one seed each. *rows is owned by the caller. */
static ft_status sensitivity(const simulate *f, ft_error *err, json_t **rows)
{
    ft_status status = FT_OK;
    *rows = json_array();
    for (int i = 0; i <= FT_SIM_CONSTS; i++) {
        bool pass = i == FT_SIM_CONSTS;
        if (!(pass ? f->config.open_pass : f->config.open[i]))
            continue;
        for (double factor = 0.5; factor <= 2 && status == FT_OK; factor *= 4) {
            ft_sim_config config = f->config;
            double *value = pass ? &config.costs.us[FT_COST_PASS] : &config.k[i];
            variant v = {.name = pass ? "pass_us" : ft_sim_const_name[i]};
            *value = pass ? *value * factor : ft_sim_const_scaled((ft_sim_const)i, *value, factor);
            v.value = *value;
            config.k[FT_SIM_SEEDS] = 1;
            fprintf(stderr, "%s = %g\n", v.name, v.value);
            status = run_variant(f, &config, err, &v);
            json_array_append_new(*rows, variant_json(&v));
        }
    }
    return status;
}

/* ---- what comes out ---- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static json_t *result_json(const ft_sim_result *r, size_t n_classes)
{
    json_t *spikes = json_object(), *texts = json_array(), *slow = json_array();
    json_t *slow_from_first = json_array(), *late = json_array();
    for (int i = FT_SPIKE_COLD_START; i < FT_SPIKE_CAUSES; i++)
        json_object_set_new(spikes, ft_spike_name[i], json_integer((json_int_t)r->spike[i]));
    for (size_t i = 0; i < n_classes; i++) {
        json_array_append_new(texts, json_integer((json_int_t)r->texts[i]));
        json_array_append_new(slow, json_integer((json_int_t)r->slow[i]));
        json_array_append_new(slow_from_first, json_integer((json_int_t)r->slow_from_first[i]));
        json_array_append_new(late, ft_knee_late_json(r->late[i]));
    }
    json_t *result = json_pack(
        "{s:f, s:I, s:I, s:f, s:I, s:o, s:f, s:I, s:f, s:f, s:I, s:I, s:o, s:o, s:o, s:o}",
        "seconds", (double)r->counted_us / 1e6, "tokens", (json_int_t)r->tokens,
        "tokens_before_too", (json_int_t)r->tokens_all, "tokens_per_s",
        ratio((double)r->tokens * 1e6, (double)r->counted_us), "rounds", (json_int_t)r->rounds,
        "late", late, "acceptance", ratio((double)r->accepted, (double)r->drafted), "passes",
        (json_int_t)r->passes, "rows_a_pass", ratio((double)r->rows, (double)r->passes), "busy",
        ratio((double)r->busy_us, (double)r->counted_us), "kv_released", (json_int_t)r->kv_released,
        "kv_blocks_least", (json_int_t)r->kv_blocks_least, "spikes", spikes, "texts", texts, "slow",
        slow, "slow_from_first", slow_from_first);
    if (r->asked > 0) { /* with admission */
        json_object_set_new(result, "asked", json_integer((json_int_t)r->asked));
        json_object_set_new(result, "refused", json_integer((json_int_t)r->refused));
    }
    return result;
}

static json_t *class_row(const double *values, size_t n, bool whole)
{
    json_t *row = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(row,
                              whole ? json_integer((json_int_t)values[i]) : json_real(values[i]));
    return row;
}

/* Capacity and goodput of wisp over another mode's, beside the paper's. */
static json_t *over_json(const simulate *f, ft_sim_mode other)
{
    const ft_sim_config *c = &f->config;
    double ours[FT_SIM_CLASSES], paper[FT_SIM_CLASSES];
    for (size_t i = 0; i < c->n_classes; i++) {
        ours[i] = ratio(f->found[FT_SIM_MODE_WISP][i].n, f->found[other][i].n);
        paper[i] = ratio(c->paper_capacity[FT_SIM_MODE_WISP][i], c->paper_capacity[other][i]);
    }
    return json_pack(
        "{s:o, s:o, s:f, s:f}", "capacity", class_row(ours, c->n_classes, false), "paper_capacity",
        class_row(paper, c->n_classes, false), "goodput",
        ratio(f->found[FT_SIM_MODE_WISP][MIXED].goodput, f->found[other][MIXED].goodput),
        "paper_goodput", ratio(c->paper_goodput[FT_SIM_MODE_WISP], c->paper_goodput[other]));
}

static json_t *report_of(const simulate *f)
{
    const ft_sim_config *c = &f->config;
    json_t *capacity = json_object(), *goodput = json_object(), *mixed = json_object();
    json_t *paper_capacity = json_object(), *paper_goodput = json_object(), *runs = json_object();
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        const char *name = ft_sim_mode_name[mode];
        const ft_sim_capacity *found = f->found[mode];
        json_t *by_class = json_object(), *paper = json_object();
        char label[32];
        for (size_t i = 0; i < c->n_classes; i++) {
            snprintf(label, sizeof label, "%g", c->tokens_per_s[i]);
            json_object_set_new(by_class, label, json_integer(found[i].n));
            json_object_set_new(paper, label, json_real(c->paper_capacity[mode][i]));
        }
        json_object_set_new(capacity, name, by_class);
        json_object_set_new(paper_capacity, name, paper);
        json_object_set_new(goodput, name, json_real(found[MIXED].goodput));
        json_object_set_new(paper_goodput, name, json_real(c->paper_goodput[mode]));
        json_object_set_new(mixed, name, json_integer(found[MIXED].n));
        json_object_set_new(runs, name, result_json(&found[MIXED].at, c->n_classes));
    }
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:{s:o, s:o}, s:o, s:o, s:o}", "policy",
                     f->policy, "config", f->config_path, "seed", (json_int_t)f->seed, "capacity",
                     capacity, "goodput", goodput, "devices_mixed", mixed, "paper", "capacity",
                     paper_capacity, "goodput", paper_goodput, "wisp_over_centralized",
                     over_json(f, FT_SIM_MODE_CENTRALIZED), "wisp_over_fcfs",
                     over_json(f, FT_SIM_MODE_FCFS), "at_mixed_capacity", runs);
}

static void print_report(const simulate *f)
{
    const ft_sim_config *c = &f->config;
    printf("devices held (in brackets: the paper)\n%-14s", "tokens/s");
    for (size_t i = 0; i < c->n_classes; i++)
        printf(" %14g", c->tokens_per_s[i]);
    printf(" %14s %20s\n", "mixed", "tokens/s when mixed");
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        printf("%-14s", ft_sim_mode_name[mode]);
        for (size_t i = 0; i < c->n_classes; i++)
            printf(" %7u (%4.0f)", f->found[mode][i].n, c->paper_capacity[mode][i]);
        printf(" %14u %10.1f (%.1f)\n", f->found[mode][MIXED].n, f->found[mode][MIXED].goodput,
               c->paper_goodput[mode]);
    }
    for (int mode = FT_SIM_MODE_WISP + 1; mode < FT_SIM_MODES; mode++) {
        printf("wisp over %s:", ft_sim_mode_name[mode]);
        for (size_t i = 0; i < c->n_classes; i++)
            printf(" %.2f (%.2f)", ratio(f->found[0][i].n, f->found[mode][i].n),
                   ratio(c->paper_capacity[0][i], c->paper_capacity[mode][i]));
        printf(", goodput %.2f (%.2f)\n",
               ratio(f->found[0][MIXED].goodput, f->found[mode][MIXED].goodput),
               ratio(c->paper_goodput[0], c->paper_goodput[mode]));
    }
}

static void print_sensitivity(const json_t *rows)
{
    size_t i;
    json_t *row;
    printf("\ndevices held at the slowest and the fastest class, one constant changed\n");
    printf("%-20s %10s", "constant", "value");
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        printf(" %15s", ft_sim_mode_name[mode]);
    printf(" %20s %20s\n", "wisp/fcfs", "wisp/centralized");
    json_array_foreach(rows, i, row)
    {
        double n[FT_SIM_MODES][2];
        printf("%-20s %10g", json_string_value(json_object_get(row, "constant")),
               json_number_value(json_object_get(row, "value")));
        for (int mode = 0; mode < FT_SIM_MODES; mode++) {
            for (size_t end = 0; end < 2; end++)
                n[mode][end] = json_number_value(
                    json_array_get(json_object_get(row, ft_sim_mode_name[mode]), end));
            printf(" %7.0f %7.0f", n[mode][0], n[mode][1]);
        }
        for (int mode = FT_SIM_MODE_WISP + 1; mode < FT_SIM_MODES; mode++)
            printf(" %10.2f %9.2f", ratio(n[0][0], n[mode][0]), ratio(n[0][1], n[mode][1]));
        printf("\n");
    }
}

/* Devices held over the promised speed, ours and the paper's. */
static ft_status plot(const simulate *f, ft_error *err)
{
    const ft_sim_config *c = &f->config;
    ft_plot p = {.command = "simulate", .path = f->plot, .width = 720, .height = 480};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot,
            "set key right top\nset xlabel 'promised tokens/s'\nset ylabel 'devices held'\n"
            "set yrange [0:*]\nplot ");
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        fprintf(p.gnuplot,
                "%s'-' title '%s' with linespoints, '-' title '%s, the paper' with points",
                mode ? ", " : "", ft_sim_mode_name[mode], ft_sim_mode_name[mode]);
    fprintf(p.gnuplot, "\n");
    for (int mode = 0; mode < FT_SIM_MODES; mode++)
        for (int paper = 0; paper < 2; paper++) {
            for (size_t i = 0; i < c->n_classes; i++)
                fprintf(p.gnuplot, "%g %g\n", c->tokens_per_s[i],
                        paper ? c->paper_capacity[mode][i] : f->found[mode][i].n);
            fprintf(p.gnuplot, "e\n");
        }
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

/* One run of a given size instead of a search. */
static ft_status run_once(const simulate *f, ft_error *err)
{
    int mode = 0;
    ft_sim_result r;
    while (mode < FT_SIM_MODES && strcmp(ft_sim_mode_name[mode], f->mode) != 0)
        mode++;
    if (mode == FT_SIM_MODES)
        return ft_error_set(err, FT_INVALID, "simulate: --mode is wisp, fcfs or centralized");
    const ft_sim_opts opts = {.config = &f->config,
                              .mode = (ft_sim_mode)mode,
                              .class = FT_SIM_MIXED,
                              .n_devices = (uint32_t)f->devices,
                              .seed = (uint64_t)f->seed,
                              .ramp_us = (int64_t)(f->seconds * 1e6 / 10),
                              .until_us = (int64_t)(f->seconds * 1e6)};
    ft_status status = ft_sim_wisp_run(&opts, err, &r);
    if (status == FT_OK && ft_cmd_print_json(result_json(&r, f->config.n_classes)) != 0)
        status = ft_error_set(err, FT_IO, "simulate: standard output cannot be written");
    return status;
}

static ft_status search_and_report(simulate *f, ft_error *err)
{
    json_t *rows = NULL;
    ft_status status = search_all(f, err);
    if (status == FT_OK && f->sensitivity)
        status = sensitivity(f, err, &rows);
    if (status == FT_OK && f->plot)
        status = plot(f, err);
    if (status == FT_OK && f->json) {
        json_t *report = report_of(f);
        if (rows)
            json_object_set(report, "sensitivity", rows);
        ft_cmd_print_json(report);
    } else if (status == FT_OK) {
        print_report(f);
        if (rows)
            print_sensitivity(rows);
    }
    json_decref(rows);
    return status;
}

static ft_status run_setting(simulate *f, ft_error *err)
{
    if (!f->config_path)
        return ft_error_set(err, FT_INVALID,
                            "simulate: which setting? pass --config, as sim/wisp-paper-32b.json");
    ft_status status = ft_sim_config_load(f->config_path, err, &f->config);
    if (status == FT_OK && f->costs_path)
        status = ft_costs_load(f->costs_path, err, &f->config.costs);
    if (status != FT_OK)
        return status;
    if (f->sweep && (f->devices > 0 || f->sensitivity || strcmp(f->policy, "wisp") != 0))
        return ft_error_set(err, FT_INVALID,
                            "simulate: --sweep has all policies and its own numbers of devices: "
                            "not with --policy, --devices or --sensitivity");
    f->config.policy = ft_sched_find(f->policy);
    if (!f->config.policy || f->config.policy->no_drafts)
        return ft_error_set(err, FT_INVALID,
                            "simulate: --policy is wisp, edf, fcfs or static (centralized serving "
                            "is a mode of its own)");
    f->config.static_batch = (uint32_t)f->of_static.batch;
    f->config.static_wait_us = (int64_t)(f->of_static.wait_ms * 1000);
    const ft_wisp_sweep_opts sweep = {.config = &f->config,
                                      .config_path = f->config_path,
                                      .seed = (uint64_t)f->seed,
                                      .plot = f->plot,
                                      .json = f->json};
    if (f->sweep)
        return ft_cmd_wisp_sweep(&sweep, err);
    return f->devices > 0 ? run_once(f, err) : search_and_report(f, err);
}

static const ft_flag rows[] = {
    {"--config", NULL, FT_FLAG(simulate, config_path), "FILE", "setting (JSON)"},
    {"--costs", NULL, FT_FLAG(simulate, costs_path), "FILE",
     "costs of passes, as fit verify-time writes them, instead of the setting's"},
    {"--seed", NULL, FT_FLAG(simulate, seed), "N", "of the first run", 0, 1e9},
    {"--plot", NULL, FT_FLAG(simulate, plot), "FILE",
     "devices held over speed, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--policy", NULL, FT_FLAG(simulate, policy), "NAME",
     "of mode wisp: wisp, edf, fcfs or static, to see what the policy alone changes"},
    FT_FLAG_INCLUDE(simulate, of_static, ft_flags_static),
    {"--sweep", NULL, FT_FLAG(simulate, sweep), NULL,
     "instead: the share of slow texts over the number of devices, by class and policy, and late "
     "rounds by cause; --plot draws both"},
    {"--sensitivity", NULL, FT_FLAG(simulate, sensitivity), NULL,
     "also halve and double each constant that the paper leaves open"},
    {"--devices", NULL, FT_FLAG(simulate, devices), "N",
     "no search: one run of so many devices, classes mixed, as JSON; 0: search", 0,
     FT_SIM_DEVICES_MAX},
    {"--seconds", NULL, FT_FLAG(simulate, seconds), "S", "of that run, simulated", 1, 1e6},
    {"--mode", NULL, FT_FLAG(simulate, mode), "NAME",
     "of that run: wisp, fcfs (SLED) or centralized"},
    {"--json", NULL, FT_FLAG(simulate, json), NULL, "print one JSON object"},
};

static const simulate defaults = {
    .seed = 1, .seconds = 600, .mode = "wisp", .policy = "wisp", .of_static = FT_STATIC_FLAGS_INIT};

static int run(void *options, int n_words, char **words)
{
    ft_error err = {0};
    ft_cmd_catch_signals();
    return run_setting(options, &err) == FT_OK ? 0 : ft_cmd_fail(&err);
}

const ft_command ft_cmd_simulate_wisp = {
    .name = "simulate wisp",
    .summary = "how many devices a server would hold, by policy and promised speed",
    .usage = "--config FILE [flags]",
    .about = "Simulates devices that draft, links, and one server that verifies, with the\n"
             "server's own policies on a virtual clock, and searches the largest number of\n"
             "devices of which no more than epsilon of the texts are slower than promised:\n"
             "by class and for classes mixed, for wisp, fcfs (SLED) and centralized serving.\n"
             "docs/SIMULATOR.md says what is modelled.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
