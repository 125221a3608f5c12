// SPDX-License-Identifier: Apache-2.0
// `foretoken bench local`: flags and the table of bench/local.h.
#include "bench/local.h"

#include <stdio.h>

#include "bench/local_report.h"
#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_local_opts o;
    const char *methods;
    bool json;
} options;

static ft_status parse_methods(options *x, ft_error *err)
{
    const char *names[FT_BENCH_LOCAL_METHODS];
    for (size_t i = 0; i < ft_bench_n_local_methods; i++) {
        names[i] = ft_bench_local_methods[i].name;
        x->o.method[i] = !x->methods;
    }
    return x->methods ? ft_bench_names("--methods", x->methods, names, ft_bench_n_local_methods,
                                       err, x->o.method)
                      : FT_OK;
}

static void print_row(const json_t *r)
{
    if (!ft_bench_number(r, "answers")) {
        printf("%-24s %s\n", ft_bench_text(r, "method"), ft_bench_text(r, "why"));
        return;
    }
    printf("%-24s %9.1f %9.1f %9.0f %10.2f %9.2f  %s\n", ft_bench_text(r, "method"),
           ft_bench_number(r, "tokens_per_s"), ft_bench_number(r, "ttft_ms"),
           ft_bench_number(r, "start_ms"), ft_bench_number(r, "tokens_per_round"),
           ft_bench_number(r, "accepted"), ft_bench_identical(r));
}

static void print_text(const json_t *report)
{
    static const char *const figures[] = {"ratio", "regret", "regret_first", "regret_next"};
    const json_t *r;
    size_t i;
    printf("%-24s %9s %9s %9s %10s %9s  %s\n", "method", "tokens/s", "ttft ms", "start ms",
           "tok/round", "accepted", "text");
    json_array_foreach(json_object_get(report, "rows"), i, r) print_row(r);
    for (i = 0; i < sizeof figures / sizeof *figures; i++) {
        const json_t *value = json_object_get(report, figures[i]);
        if (json_is_number(value))
            printf("%s %.3f\n", figures[i], json_number_value(value));
    }
    const json_t *start = json_object_get(report, "start");
    if (json_is_object(start))
        printf("start: first %.0f ms, second %.0f ms, ratio %.3f\n",
               ft_bench_number(start, "first_ms"), ft_bench_number(start, "second_ms"),
               ft_bench_number(start, "ratio"));
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "what to answer: JSON lines with `turns` or `prompt`", .required = true},
    {"--categories", NULL, FT_FLAG(options, o.categories), "LIST",
     "use only prompts of these categories, as in coding,math; default: all"},
    {"--limit", NULL, FT_FLAG(options, o.limit), "N",
     "use N prompts, as many of each category as of another; 0: all", 0, 10000},
    {"--methods", NULL, FT_FLAG(options, methods), "LIST", "methods to compare; default: all"},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of an answer at most", 2, 4096},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N", "tokens of prompt and answer", 64, 1e5},
    {"--answers", NULL, FT_FLAG(options, o.answers), "N", "answers of a process", 1,
     FT_BENCH_LOCAL_ANSWERS},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R", "times that each prompt is answered", 1,
     FT_BENCH_LOCAL_ROUNDS},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature; 0: greedy", 0, 100},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "its seed", 0, 1e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.limit = 24,
                                       .n = 128,
                                       .n_ctx = 4096,
                                       .answers = 4,
                                       .rounds = 4,
                                       .seed = 1,
                                       .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    if (parse_methods(x, &err) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    x->o.progress = ft_progress_terminal("answering");
    ft_cmd_catch_signals();
    const ft_status status = ft_bench_local(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_local = {
    .name = "bench local",
    .summary = "both models on this machine: this engine's speculation and llama.cpp's",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about =
        "Answers the same prompts by several methods, each a process of its own on all cores. "
        "plain: without speculation. default: as run does it. no-memory: the same, and "
        "each process begins knowing nothing. chain:N, tree:N: each draft of this shape. "
        "llamacpp: llama.cpp without speculation, llamacpp-draft:N with the draft "
        "model, llamacpp-ngram-*: with each of its ways that need none. ratio: default over "
        "llama.cpp's fastest. regret: by how much default is slower than the best fixed choice "
        "for each prompt; regret_first: the same of the first answer of a process that knows "
        "nothing; regret_next: of one that begins with what the one before has learnt. "
        "start: from the start of a process to its first token, with an empty cache folder and "
        "with what that start has left. "
        "docs/BENCHMARKS.md says what is measured.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
