// SPDX-License-Identifier: Apache-2.0
// foretoken bench batch: what drafting for many tasks, and a pipeline of their batches, is worth.
// Main thread only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/batch.h"
#include "cmd/bench_main.h"
#include "cmd/cmd.h"
#include "edge/batch.h"

typedef struct options {
    ft_bench_batch_opts o;
    const char *modes;
    double temp;
    int64_t top_k, seed;
    bool json;
} options;

static ft_status parse_modes(options *x, ft_error *err)
{
    char *list = strdup(x->modes), *rest = list, *word;
    ft_status status = list ? FT_OK : ft_error_set(err, FT_NOMEM, "bench batch: out of memory");
    while (status == FT_OK && (word = strsep(&rest, ","))) {
        int mode = 0;
        while (mode < FT_BENCH_BATCH_MODES && strcmp(ft_bench_batch_name[mode], word) != 0)
            mode++;
        if (mode == FT_BENCH_BATCH_MODES)
            status = ft_error_set(err, FT_INVALID,
                                  "bench batch: --modes: no mode '%s': there are pipeline, "
                                  "no-pipeline, no-batching and ad",
                                  word);
        else
            x->o.mode[mode] = true;
    }
    free(list);
    return status;
}

static void print_text(const json_t *report)
{
    size_t i;
    json_t *m;
    printf("%-12s %11s %10s %9s %9s %6s %12s %9s %9s  texts\n", "mode", "makespan s", "planned s",
           "draft s", "verify s", "length", "passes/batch", "accepted", "tokens/s");
    json_array_foreach(json_object_get(report, "modes"), i, m)
    {
        printf("%-12s %11.2f %10.2f %9.2f %9.2f %6lld %12.2f %8.1f%% %9.1f  %s\n",
               json_string_value(json_object_get(m, "mode")),
               json_number_value(json_object_get(m, "makespan_s")),
               json_number_value(json_object_get(m, "planned_s")),
               json_number_value(json_object_get(m, "draft_s")),
               json_number_value(json_object_get(m, "verify_s")),
               (long long)json_integer_value(json_object_get(m, "length")),
               json_number_value(json_object_get(m, "passes_per_batch")),
               100 * json_number_value(json_object_get(m, "acceptance")),
               json_number_value(json_object_get(m, "tokens_per_s")), ft_bench_identical(m));
    }
    if (json_object_get(report, "pipeline_gain"))
        printf("\nthe pipeline makes it %.1f %% shorter; its stages would allow %.1f %% (draft / "
               "verify %.2f)\n",
               100 * json_number_value(json_object_get(report, "pipeline_gain")),
               100 * json_number_value(json_object_get(report, "bound")),
               json_number_value(json_object_get(report, "stage_ratio")));
    if (!json_is_true(json_object_get(report, "own_core")))
        printf("this machine has one core: server and edge shared it\n");
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--tasks", NULL, FT_FLAG(options, o.tasks), "FILE", "tasks, as foretoken batch takes them",
     .required = true},
    {"--modes", NULL, FT_FLAG(options, modes), "LIST",
     "of pipeline, no-pipeline, no-batching and ad"},
    {"--batch", "-b", FT_FLAG(options, o.batch), "N",
     "tasks that are drafted for at once, at most; 0: as planned", 0, FT_BATCH_TASKS_MAX},
    {"--length", "-l", FT_FLAG(options, o.length), "N",
     "tokens drafted for a task in a round; 0: no drafts; -1: as planned", -1, FT_PLAN_LENGTH_MAX},
    {"--costs-draft", NULL, FT_FLAG(options, o.costs[FT_STATION_DRAFT]), "FILE",
     "costs of the draft model on one core, of fit verify-time; without: measured by a first run"},
    {"--costs-verify", NULL, FT_FLAG(options, o.costs[FT_STATION_VERIFY]), "FILE",
     "the same of the target"},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R", "times that each mode answers all tasks", 1,
     FT_BENCH_ROUNDS_MAX},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N", "context, tokens", 64, 1e5},
    {"--temp", NULL, FT_FLAG(options, temp), "T", "temperature; 0: the most probable token", 0,
     100},
    {"--top-k", NULL, FT_FLAG(options, top_k), "K",
     "draw from the K most probable tokens only; 0: from all", 0, 1e6},
    {"--seed", "-s", FT_FLAG(options, seed), "N", "seed of tasks without one", 0, 1e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .o = {.length = -1, .n_ctx = 1024, .rounds = 3, .stop = ft_cmd_stopped},
    .modes = "pipeline,no-pipeline,no-batching,ad",
    .temp = 0.8,
    .top_k = 40,
    .seed = 1};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    x->o.sampling = ft_sampling_default();
    x->o.sampling.temperature = (float)x->temp;
    x->o.sampling.top_k = (int32_t)x->top_k;
    x->o.sampling.seed = (uint64_t)x->seed;
    if (parse_modes(x, &err) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    ft_cmd_catch_signals();
    const ft_status status = ft_bench_batch(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_batch = {
    .name = "bench batch",
    .summary = "what drafting for many tasks, and a pipeline of their batches, is worth",
    .usage = "-m TARGET -md DRAFT --tasks FILE [flags]",
    .about =
        "Answers the same tasks in several ways, in turns: with all batches under way, so that "
        "edge and server work at the same time; with the same batches, one at a time; with one "
        "task at a time; and without drafts. Batches and lengths are planned as foretoken batch "
        "does; how long the answers are is known. The server is real and has a core of its own. "
        "The texts must be those of the server alone.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
