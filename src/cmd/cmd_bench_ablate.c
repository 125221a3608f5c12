// SPDX-License-Identifier: Apache-2.0
// `foretoken bench ablate`: flags and the rows of bench/ablate.h.
#include "bench/ablate.h"

#include <stdio.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_ablate_opts o;
    bool json;
} options;

static void print_row(void *ctx, const json_t *row)
{
    (void)ctx;
    printf("%-5s %-7s %-20s %-6s %-11s %-13s %10.4g %10.4g %+8.2f %+8.2f %+8.2f %3.0f %s\n",
           ft_bench_text(row, "room"), ft_bench_text(row, "group"), ft_bench_text(row, "name"),
           ft_bench_text(row, "change"), ft_bench_text(row, "condition"),
           ft_bench_text(row, "figure"), ft_bench_number(row, "baseline"),
           ft_bench_number(row, "changed"), ft_bench_number(row, "effect_percent"),
           ft_bench_number(row, "low"), ft_bench_number(row, "high"), ft_bench_number(row, "lives"),
           json_is_true(json_object_get(row, "keep")) ? "keep" : "");
    fflush(stdout);
}

static void print_regret(void *ctx, const json_t *row)
{
    (void)ctx;
    printf("%-9s %5.0f %10.4g %10.4g %-8s %10.4g %8.2f %8.2f\n", ft_bench_text(row, "condition"),
           ft_bench_number(row, "lives"), ft_bench_number(row, "default"),
           ft_bench_number(json_object_get(row, "fixed"), "plain"), ft_bench_text(row, "best"),
           ft_bench_number(row, "best_tokens_per_s"), 100 * ft_bench_number(row, "regret"),
           100 * ft_bench_number(row, "regret_first"));
    fflush(stdout);
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.target), "MODEL",
     "target model, which writes the texts of the edges' conditions", .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL",
     "draft model; its drafts are recorded at the first use, then replayed", .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`"},
    {"--config", NULL, FT_FLAG(options, o.config), "FILE",
     "setting of simulate wisp, for the servers' conditions (sim/wisp-paper-32b.json)"},
    {"--only", NULL, FT_FLAG(options, o.only), "LIST",
     "parts of names (spec.trees, smooth), with commas between them"},
    {"--conditions", NULL, FT_FLAG(options, o.conditions), "LIST",
     "names of conditions, with commas between them"},
    {"--regret", NULL, FT_FLAG(options, o.regret), NULL,
     "instead: how much slower edges' own choices are than the best fixed draft of each text"},
    {"--texts", NULL, FT_FLAG(options, o.texts), "N", "texts of each temperature", 1, 1000},
    {"--n-predict", "-n", FT_FLAG(options, o.tokens), "N", "tokens of a text at most", 16, 4096},
    {"--lives", NULL, FT_FLAG(options, o.lives), "N",
     "try a change with this many seeds in a condition at most", 4, FT_BENCH_ABLATE_LIVES},
    {"--threads", "-t", FT_FLAG(options, o.threads), "N", "threads of the models; 0: all cores", 0,
     1024},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .o = {.texts = 12, .tokens = 160, .lives = 24, .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_bench_ablate_opts *o = &x->o;
    if (!o->target != !o->draft || !o->target != !o->prompts) {
        fprintf(stderr, "foretoken bench ablate: -m, -md and --prompts are needed together\n");
        return 2;
    }
    if (o->regret && !o->target) {
        fprintf(stderr, "foretoken bench ablate: --regret needs -m, -md and --prompts\n");
        return 2;
    }
    ft_cmd_catch_signals();
    ft_error err = {0};
    json_t *report;
    o->loading = ft_progress_terminal("loading");
    o->progress = ft_progress_terminal("texts");
    if (!x->json && o->regret) {
        o->on_row = print_regret;
        printf("%-9s %5s %10s %10s %-8s %10s %8s %8s\n", "condition", "lives", "default", "plain",
               "best", "its", "regret %", "first %");
    } else if (!x->json) {
        o->on_row = print_row;
        printf("%-5s %-7s %-20s %-6s %-11s %-13s %10s %10s %8s %8s %8s %3s\n", "room", "group",
               "name", "change", "condition", "figure", "baseline", "changed", "effect %", "low",
               "high", "n");
    }
    ft_status status = ft_bench_ablate(o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, NULL);
}

const ft_command ft_cmd_bench_ablate = {
    .name = "bench ablate",
    .summary = "what each tuning constant and mechanism is worth, on a virtual clock",
    .usage = "[-m TARGET -md DRAFT --prompts FILE] [--config FILE] [flags]",
    .about = "Sets each tuning constant to half and to double, switches each mechanism off, "
             "and says what that does to tokens/s and to texts on time. The clock is virtual. "
             "Edges are real, with recorded drafts and a modelled server; servers are the "
             "simulator's; parts of a server meet a modelled load. All of it takes hours; "
             "--only and --conditions take a part.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
