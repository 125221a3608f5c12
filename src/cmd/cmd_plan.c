// SPDX-License-Identifier: Apache-2.0
// `foretoken plan`: plans the batches, the length and the shares of the uplink of a scenario
// (plan/plan.h), or checks the planner against all plans of small problems (sim/plan_check.h). Main
// thread only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plan_plot.h"
#include "cmd/plan_print.h"
#include "edge/stage_costs.h"
#include "plan/baselines.h"
#include "plan/scenario.h"
#include "sched/cost_file.h"
#include "sim/plan_check.h"

#define STATIC_SIZE \
    8 /* of batches of baseline static: what 2 GB hold of long texts of a 1.1B draft */

typedef struct planning {
    const char *costs_path[2], *plot;
    ft_plan_algorithm algorithm;
    bool json, baselines, rolling, selftest;
    int64_t instances, seed;
    ft_plan_scenario scenario;
    ft_costs costs[2]; /* of the draft station, of the verify station */
    ft_stage_costs times;
    ft_plan_problem problem;
    ft_batch_plan plan;
    ft_batch_plan compared[FT_PLAN_BASELINES];
    ft_error refused[FT_PLAN_BASELINES]; /* code FT_OK: there is a plan of the baseline */
} planning;

/* ---- JSON ---- */

static ft_plan_view view_of(const planning *f)
{
    return (ft_plan_view){.plan = &f->plan,
                          .tasks = f->problem.tasks,
                          .n = f->problem.n,
                          .algorithm = ft_plan_algorithm_name[f->algorithm],
                          .uplink = true};
}

static json_t *baseline_json(const planning *f, ft_plan_baseline i)
{
    const ft_batch_plan *p = &f->compared[i];
    json_t *out = json_pack("{s:s}", "name", ft_plan_baseline_name[i]);
    if (f->refused[i].code != FT_OK)
        json_object_set_new(out, "refused", json_string(f->refused[i].message));
    else
        json_object_update_new(out, json_pack("{s:i, s:i, s:f, s:f, s:f}", "length", (int)p->length,
                                              "batches", (int)p->n_batches, "t_com_s", p->com_s,
                                              "t_inf_s", p->inf_s, "total_s", p->total_s));
    return out;
}

static json_t *report_of(const planning *f)
{
    const ft_batch_plan *p = &f->plan;
    const ft_plan_view view = view_of(f);
    json_t *out = ft_plan_view_json(&view, "plan");
    json_t *shares = json_array(), *baselines = json_array();
    for (uint32_t k = 0; k < f->problem.n; k++)
        json_array_append_new(shares, json_pack("{s:s, s:f, s:f}", "id", f->problem.tasks[k].id,
                                                "share", p->share[k], "end_s", p->end_s[k]));
    for (int i = 0; f->baselines && i < FT_PLAN_BASELINES; i++)
        json_array_append_new(baselines, baseline_json(f, (ft_plan_baseline)i));
    json_object_set_new(out, "bandwidth", shares);
    json_object_set_new(out, "t_com_s", json_real(p->com_s));
    json_object_set_new(out, "baselines", baselines);
    return out;
}

/* ---- for people ---- */

static void print_baselines(const planning *f)
{
    printf("\n%-18s %7s %8s %10s %10s %10s %12s\n", "baseline", "length", "batches", "upload s",
           "inference", "total s", "the plan is");
    for (int i = 0; i < FT_PLAN_BASELINES; i++) {
        const ft_batch_plan *p = &f->compared[i];
        if (f->refused[i].code != FT_OK)
            printf("%-18s %s\n", ft_plan_baseline_name[i], f->refused[i].message);
        else
            printf("%-18s %7u %8u %10.3f %10.3f %10.3f %10.1f %%\n", ft_plan_baseline_name[i],
                   p->length, p->n_batches, p->com_s, p->inf_s, p->total_s,
                   100 * (f->plan.total_s / p->total_s - 1));
    }
}

/* ---- the self-test ---- */

static double share_of(const ft_plan_match *m)
{
    return m->n > 0 ? (double)m->equal / m->n : 1;
}

static json_t *check_json(const planning *f, const ft_plan_check *c)
{
    const ft_plan_match all[2] = {c->all_orders[0], c->all_orders[1]};
    const ft_plan_match together = {all[0].n + all[1].n, all[0].equal + all[1].equal,
                                    all[0].worst_gap > all[1].worst_gap ? all[0].worst_gap
                                                                        : all[1].worst_gap};
    return json_pack("{s:s, s:b, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
                     "s:f, s:f, s:f, s:i, s:i, s:i, s:i}",
                     "command", "plan --selftest", "holds", ft_plan_check_holds(c), "instances",
                     (int)c->instances, "seed", (json_int_t)f->seed, "contiguous_equal",
                     share_of(&c->contiguous), "worst_gap", c->contiguous.worst_gap, "paper_equal",
                     share_of(&c->paper[1]), "paper_worst_gap", c->paper[1].worst_gap,
                     "paper_equal_own_outputs", share_of(&c->paper[0]),
                     "paper_worst_gap_own_outputs", c->paper[0].worst_gap, "all_orders_equal",
                     share_of(&together), "all_orders_worst_gap", together.worst_gap,
                     "rolling_equal", share_of(&c->rolling), "rolling_worst_gap",
                     c->rolling.worst_gap, "bandwidth_error", c->bandwidth_error, "memory_broken",
                     (int)c->memory_broken, "pipeline_unequal", (int)c->pipeline_unequal,
                     "too_cheap", (int)c->too_cheap, "worse_than_paper", (int)c->worse_than_paper);
}

static void print_match(const char *what, const ft_plan_match *m)
{
    printf("  %-56s %5.1f %% of %u, at most %.2f %% above\n", what, 100 * share_of(m), m->n,
           100 * m->worst_gap);
}

static void print_check(const ft_plan_check *c)
{
    printf("%u random problems of 1 to %d tasks: %s\n\nat or below the best plan of\n",
           c->instances, FT_PLAN_CHECK_TASKS,
           ft_plan_check_holds(c) ? "all is right" : "SOMETHING IS WRONG");
    print_match("contiguous batches: best", &c->contiguous);
    print_match("  paper, outputs of the same length", &c->paper[1]);
    print_match("  paper, outputs of different lengths", &c->paper[0]);
    print_match("all partitions and orders: best, same length", &c->all_orders[1]);
    print_match("  best, different lengths", &c->all_orders[0]);
    print_match("  best, without a barrier (--rolling)", &c->rolling);
    printf("\nplans that cost less than the best there is  %u\n"
           "plans of best that are worse than paper's    %u\n"
           "batches that exceed the memory               %u\n"
           "plans that take another time by events       %u\n"
           "largest relative error of the bandwidth      %.2g\n",
           c->too_cheap, c->worse_than_paper, c->memory_broken, c->pipeline_unequal,
           c->bandwidth_error);
}

/* The exit status. */
static int run_selftest(const planning *f)
{
    const ft_plan_check_opts opts = {
        .instances = (uint32_t)f->instances,
        .seed = (uint64_t)f->seed,
        .watch = {.stop = ft_cmd_stopped, .progress = ft_progress_terminal("checking")}};
    ft_plan_check check;
    ft_error err = {0};
    const ft_status status = ft_plan_check_run(&opts, &err, &check);
    const bool holds = status == FT_OK && ft_plan_check_holds(&check);
    json_t *report = status == FT_OK ? check_json(f, &check) : NULL;
    if (status == FT_OK && !f->json)
        print_check(&check);
    const int failed = ft_cmd_report(status, &err, report, f->json, NULL);
    return failed || !holds;
}

/* ---- the command ---- */

/* Which stations' times are measured. A scenario may leave out c1 and c2 of those. */
static ft_status set_times(planning *f, ft_error *err)
{
    static const char *const station[2] = {"draft", "verify"};
    ft_plan_problem *p = &f->problem;
    ft_status status = FT_OK;
    for (int i = 0; i < 2 && status == FT_OK; i++) {
        if (f->costs_path[i])
            status = ft_costs_load(f->costs_path[i], err, &f->costs[i]);
        else if (!f->scenario.timed[i])
            status = ft_error_set(err, FT_INVALID,
                                  "plan: %s.c1 and %s.c2 are missing in the scenario: or pass "
                                  "--costs-%s FILE of fit verify-time",
                                  station[i], station[i], station[i]);
    }
    if (f->costs_path[0] || f->costs_path[1]) {
        f->times = (ft_stage_costs){.draft = f->costs_path[0] ? f->costs[0].us : NULL,
                                    .verify = f->costs_path[1] ? f->costs[1].us : NULL,
                                    .pair = f->scenario.pair};
        p->times = ft_stage_costs_times;
        p->times_ctx = &f->times;
        p->draft.padded = !f->costs_path[0];
        p->verify.padded = !f->costs_path[1];
    }
    if (f->rolling) {
        p->flow = FT_PLAN_ROLLING;
        p->leave = true;
    }
    return status;
}

/* What a baseline cannot do is a row of the table. */
static ft_status compare(planning *f, ft_error *err)
{
    const ft_plan_baseline_opts opts = {
        .plan = &f->plan, .algorithm = f->algorithm, .static_size = STATIC_SIZE};
    for (int i = 0; f->baselines && i < FT_PLAN_BASELINES; i++) {
        const ft_status status = ft_plan_baseline_make(&f->problem, (ft_plan_baseline)i, &opts,
                                                       &f->refused[i], &f->compared[i]);
        if (status != FT_OK && status != FT_INVALID) {
            *err = f->refused[i];
            return status;
        }
    }
    return FT_OK;
}

static ft_status plan_scenario(planning *f, const char *path, ft_error *err)
{
    const ft_plan_watch watch = {.stop = ft_cmd_stopped,
                                 .progress = ft_progress_terminal("planning")};
    ft_status status = ft_plan_scenario_load(path, err, &f->scenario);
    if (status != FT_OK)
        return status;
    f->problem = ft_plan_scenario_problem(&f->scenario);
    status = set_times(f, err);
    if (status == FT_OK)
        status = ft_batch_plan_make(&f->problem, f->algorithm, &watch, err, &f->plan);
    if (status == FT_OK)
        status = compare(f, err);
    if (status == FT_OK && f->plot)
        status = ft_plan_plot(&f->problem, &f->plan, f->plot, err);
    return status;
}

static const ft_flag rows[] = {
    {"--algorithm", NULL, FT_FLAG_ENUM(planning, algorithm, ft_plan_algorithm_name), "NAME",
     "how batches are planned"},
    {"--baselines", NULL, FT_FLAG(planning, baselines), NULL,
     "also plan as the paper's benchmarks do"},
    {"--rolling", NULL, FT_FLAG(planning, rolling), NULL,
     "rounds have no barrier, complete tasks leave their batch"},
    {"--costs-draft", NULL, FT_FLAG(planning, costs_path[0]), "FILE",
     "costs of the draft station, as fit verify-time writes them"},
    {"--costs-verify", NULL, FT_FLAG(planning, costs_path[1]), "FILE",
     "costs of the verify station, as fit verify-time writes them"},
    {"--plot", NULL, FT_FLAG(planning, plot), "FILE", "Gantt chart, by gnuplot: .svg, .png or .txt",
     .plot = true},
    {"--selftest", NULL, FT_FLAG(planning, selftest), NULL,
     "instead of a scenario: check the planner on random problems against all plans"},
    {"--instances", NULL, FT_FLAG(planning, instances), "N", "random problems of --selftest", 1,
     1e6},
    {"--seed", NULL, FT_FLAG(planning, seed), "N", "of --selftest", 0, 1e9},
    {"--json", NULL, FT_FLAG(planning, json), NULL, "print one JSON object"},
};

static const planning defaults = {.instances = 5000, .seed = 1};

static int run(void *options, int n_words, char **words)
{
    planning *f = options;
    ft_error err = {0};
    ft_cmd_catch_signals();
    if (f->selftest && n_words == 0)
        return run_selftest(f);
    ft_status status = FT_OK;
    if (f->selftest || n_words == 0)
        status = ft_error_set(&err, FT_INVALID, "plan: give a SCENARIO.json or --selftest");
    if (status == FT_OK)
        status = plan_scenario(f, words[0], &err);
    json_t *report = status == FT_OK ? report_of(f) : NULL;
    if (status == FT_OK && !f->json) {
        const ft_plan_view view = view_of(f);
        ft_plan_view_print(&view);
        if (f->baselines)
            print_baselines(f);
    }
    ft_batch_plan_deinit(&f->plan);
    for (int i = 0; i < FT_PLAN_BASELINES; i++)
        ft_batch_plan_deinit(&f->compared[i]);
    ft_plan_scenario_deinit(&f->scenario);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_plan = {
    .name = "plan",
    .summary = "plan batches, length and bandwidth of an edge that drafts for many tasks",
    .usage = "SCENARIO.json|--selftest [flags]",
    .about =
        "Plans how a small station that drafts and a large one that verifies serve many tasks "
        "(Zhu et al.): which tasks are a batch, in which order batches go through both stations, "
        "how many tokens are drafted a round, and which share of the uplink each task's input "
        "gets. Prints when each task ends. docs/PLANNER.md describes scenarios and algorithms; "
        "sim/zhu-cell.json is an example.",
    FT_CMD_OPTIONS(rows, defaults),
    .max_words = 1,
    .run = run};
