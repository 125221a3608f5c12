// SPDX-License-Identifier: Apache-2.0
// `foretoken bench law`: flags and the table of bench/law.h.
#include "bench/law.h"

#include <stdio.h>

#include "cmd/bench_main.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_law_opts o;
    const char *temps;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const json_t *rows = json_object_get(report, "rows"), *r;
    size_t i;
    printf("%.0f texts, %.0f rounds behind each\n", ft_bench_number(report, "prefixes"),
           ft_bench_number(report, "rounds"));
    printf("%-6s %5s %5s %22s %22s %20s %16s\n", "method", "l", "temp", "first off, direct",
           "second off, direct", "p first, second", "entropy, target");
    json_array_foreach(rows, i, r)
    {
        printf("%-6s %5.0f %5.2g %11.4f %10.4f %11.4f %10.4f %10.2g %9.2g %8.3f %7.3f\n",
               ft_bench_text(r, "method"), ft_bench_number(r, "l"),
               ft_bench_number(r, "temperature"), ft_bench_number(r, "tv_first"),
               ft_bench_number(r, "tv_direct"), ft_bench_number(r, "tv_second"),
               ft_bench_number(r, "tv_direct_second"), ft_bench_number(r, "p_first"),
               ft_bench_number(r, "p_second"), ft_bench_number(r, "entropy"),
               ft_bench_number(r, "entropy_target"));
    }
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.target), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--prefixes", NULL, FT_FLAG(options, o.prefixes), "N", "texts", 1, 1000},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "N", "rounds behind each text", 1, 1e6},
    {"--l", NULL, FT_FLAG(options, o.l), "LIST", "resolutions of the points"},
    {"--temp", NULL, FT_FLAG(options, temps), "LIST", "temperatures of draft and target"},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "N",
     "both draw from their N most probable tokens only", 1, FT_LAW_TOP_K_MAX},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N",
     "context, tokens; longer prompts are left out", 64, 1e6},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads of the models; 0: all cores",
     0, 1024},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of the rounds", 0, 2e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.temps = "0.3,0.6,1",
                                 .o = {.prefixes = 20,
                                       .rounds = 20000,
                                       .l = "8,100,240,720",
                                       .top_k = 40,
                                       .n_ctx = 2048,
                                       .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    ft_cmd_catch_signals();
    x->o.loading = ft_progress_terminal("loading");
    x->o.progress = ft_progress_terminal("rounds");
    ft_status status = ft_list_temperatures("bench law: --temp", x->temps, FT_BENCH_LAW_TEMPS, &err,
                                            x->o.temps, &x->o.n_temps);
    if (status == FT_OK)
        status = ft_bench_law(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_law = {
    .name = "bench law",
    .summary = "whether tokens have the target's distribution, by rule",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Runs many rounds behind the same texts, with the rules' own functions, and compares "
             "the first and the second token that come out with the target's distribution: rules "
             "`ratio` and `exact`, and S-Q, which draws the token before it quantizes.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
