// SPDX-License-Identifier: Apache-2.0
// `foretoken bench codec`: flags and the table of bench/codec.h.
#include "bench/codec.h"

#include <stdio.h>

#include "cmd/bench_main.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_codec_opts o;
    const char *temps;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const json_t *rows = json_object_get(report, "rows"), *r;
    size_t i;
    printf("%-6s %5s %7s %5s %9s %8s %7s %22s %9s %20s\n", "source", "temp", "vocab", "l",
           "unchanged", "support", "bits", "encode, decode ms", "adaptive", "encode, decode ms");
    json_array_foreach(rows, i, r)
    {
        printf("%-6s %5.2g %7.0f %5.0f %4.0f/%-4.0f %8.1f %7.0f %11.2f %10.2f %9.3f %10.3f %9.3f\n",
               ft_bench_text(r, "source"), ft_bench_number(r, "temperature"),
               ft_bench_number(r, "vocab"), ft_bench_number(r, "l"),
               ft_bench_number(r, "unchanged"), ft_bench_number(r, "distributions"),
               ft_bench_number(r, "support"), ft_bench_number(r, "bits"),
               ft_bench_number(r, "encode_ms"), ft_bench_number(r, "decode_ms"),
               ft_bench_number(r, "adaptive_bits_ratio"), ft_bench_number(r, "adaptive_encode_ms"),
               ft_bench_number(r, "adaptive_decode_ms"));
    }
}

static const ft_flag rows[] = {
    {"--distributions", NULL, FT_FLAG(options, o.distributions), "N", "distributions of a row", 1,
     1e6},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL",
     "draft model whose distributions are coded, too", .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "JSON lines with `turns` or `prompt`, behind which the draft writes"},
    {"--temp", NULL, FT_FLAG(options, temps), "LIST", "temperatures at which the draft writes"},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "N",
     "the draft draws from its N most probable tokens only; 0: from all", 0, 1e9},
    {"--top-p", NULL, FT_FLAG(options, o.top_p), "P",
     "it draws from the most probable tokens whose sum reaches P only; 1: from all", 0, 1},
    {"--min-p", NULL, FT_FLAG(options, o.min_p), "P",
     "it draws from tokens of at least P times the highest probability only; 0: from all", 0, 1},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N",
     "context, tokens; longer prompts are left out", 128, 1e6},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads of the draft; 0: all cores", 0,
     1024},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of distributions and texts", 0, 9e15},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .temps = "0.7,1",
    .o = {.distributions = 10000, .n_ctx = 2048, .top_k = 40, .top_p = 1, .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    ft_cmd_catch_signals();
    x->o.loading = ft_progress_terminal("loading");
    x->o.progress = ft_progress_terminal("distributions");
    ft_status status = ft_list_temperatures("bench codec: --temp", x->temps, FT_BENCH_CODEC_TEMPS,
                                            &err, x->o.temps, &x->o.n_temps);
    if (status == FT_OK)
        status = ft_bench_codec(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_codec = {
    .name = "bench codec",
    .summary = "size and time of the codes that carry a draft's distributions",
    .usage = "[-md DRAFT --prompts FILE] [flags]",
    .about = "Quantizes distributions to lattice points, sends each point through both codes and "
             "back, and compares. Rows `zipf` are made-up distributions; with -md and --prompts "
             "rows `draft` are those from which the draft model draws its own texts.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
