// SPDX-License-Identifier: Apache-2.0
// `foretoken bench memory`: flags and the table of bench/memory.h.
#include "bench/memory.h"

#include <stdio.h>

#include "cmd/bench_main.h"
#include "cmd/gen_flags.h"

typedef struct options {
    ft_bench_memory_opts o;
    const char *methods;
    bool json;
} options;

static ft_status parse_methods(options *x, ft_error *err)
{
    const char *names[FT_BENCH_MEMORY_METHODS];
    for (size_t i = 0; i < ft_bench_n_memory_methods; i++) {
        names[i] = ft_bench_memory_methods[i].name;
        x->o.method[i] = !x->methods;
    }
    return x->methods ? ft_bench_names("--methods", x->methods, names, ft_bench_n_memory_methods,
                                       err, x->o.method)
                      : FT_OK;
}

static void print_row(const json_t *r)
{
    if (!ft_bench_number(r, "texts")) {
        printf("%-6s %-18s %s\n", ft_bench_text(r, "budget"), ft_bench_text(r, "method"),
               ft_bench_text(r, "why"));
        return;
    }
    printf("%-6s %-18s %9.1f %8.2f %9.1f %8.0f %9.1f %8.3f %8.1f %8.2f  %s\n",
           ft_bench_text(r, "budget"), ft_bench_text(r, "method"),
           ft_bench_number(r, "ms_per_token"), ft_bench_number(r, "tokens_per_pass"),
           ft_bench_number(r, "bytes_per_token") / 1e6, ft_bench_number(r, "read_mb_s"),
           ft_bench_number(r, "peak_bytes") / 1e6, ft_bench_number(r, "cpu_s_per_token"),
           ft_bench_number(r, "bound"), ft_bench_number(r, "speedup_vs_llamacpp"),
           ft_bench_identical(r));
}

static void print_text(const json_t *report)
{
    const json_t *r;
    size_t i;
    printf("weights of %.1f MB, read at %.0f MB/s at most; the resident target takes %.1f ms a "
           "token\n",
           ft_bench_number(report, "weights_bytes") / 1e6, ft_bench_number(report, "disk_mb_s"),
           ft_bench_number(report, "resident_ms_per_token"));
    printf("%-6s %-18s %9s %8s %9s %8s %9s %8s %8s %8s  %s\n", "budget", "method", "ms/token",
           "tok/pass", "MB/token", "MB/s", "peak MB", "CPU s", "bound", "llamacpp", "text");
    json_array_foreach(json_object_get(report, "rows"), i, r) print_row(r);
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--packed", NULL, FT_FLAG(options, o.packed), "FILE",
     "the same target as model pack writes it: ours reads this file, libllama the other one"},
    {"--budget", NULL, FT_FLAG(options, o.budgets), "LIST",
     "memory of a process: shares of the target's weights, or sizes, as in 25%,600M"},
    {"--methods", NULL, FT_FLAG(options, methods), "LIST", "methods to compare; default: all"},
    {"--prompt", "-p", FT_FLAG(options, o.prompt), "TEXT", "what to answer"},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "JSON lines with `turns` or `prompt`, instead of -p"},
    {"--limit", NULL, FT_FLAG(options, o.limit), "N", "use N prompts, evenly spread over the file",
     1, FT_BENCH_MEMORY_SAMPLES},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of a text", 8, 4096},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N", "tokens of prompt and text", 64, 1e5},
    {"--cache-type", NULL, FT_FLAG_ENUM(options, o.kv, ft_kv_choices), "TYPE",
     "type of the target's K and V, of either side"},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R", "times that each text is written", 1,
     FT_BENCH_MEMORY_SAMPLES},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T",
     "temperature of the second text of each method, which is compared, not timed", 0, 100},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "its seed", 0, 1e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.budgets = "25%,50%,75%,100%",
                                       .prompt = "Explain why the sky is blue.",
                                       .limit = 4,
                                       .n = 64,
                                       .n_ctx = 128,
                                       .rounds = 3,
                                       .seed = 1,
                                       .temp = 0.8,
                                       .kv = FT_KV_Q8_0,
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
    x->o.progress = ft_progress_terminal("writing texts");
    ft_cmd_catch_signals();
    const ft_status status = ft_bench_memory(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_memory = {
    .name = "bench memory",
    .summary = "a target larger than the memory: this engine and libllama",
    .usage = "-m TARGET -md DRAFT [flags]",
    .about =
        "Writes the same texts under memory budgets by several methods. Each is a process of its "
        "own in a memory cgroup. foretoken: run --memory. std, spl: a token a pass, without and "
        "with reading ahead. sp:N: chains of N. specinfer: trees of fixed widths. no-tree, "
        "no-proactive, pacer, fallback, fixed-alpha: foretoken without one of its parts, or with "
        "another one. draft: the draft model alone. llamacpp, llamacpp-spec: libllama, which maps "
        "the file, without and with the draft model. docs/BENCHMARKS.md says what is measured.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
