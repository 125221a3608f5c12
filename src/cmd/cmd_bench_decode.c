// SPDX-License-Identifier: Apache-2.0
// `foretoken bench decode`: flags and the table of bench/decode.h.
#include "bench/decode.h"

#include <stdio.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_decode_opts o;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_decode(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    ft_bench_print_speeds(row, "streams");
}

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--n-predict", "-n", FT_FLAG(options, o.n_predict), "N", "tokens of a stream in a round", 1,
     65536},
    {"--n-prompt", NULL, FT_FLAG(options, o.n_prompt), "N", "tokens of the prompt", 1,
     FT_BENCH_DECODE_PROMPT_MAX},
    {"--streams", NULL, FT_FLAG(options, o.streams), "LIST", "parallel streams, as in 1,16"},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(8),
                                 .o = {.streams = "1", .n_predict = 128, .n_prompt = 64}};

static const ft_bench_cmd frame = {.name = "bench decode",
                                   .measure = measure,
                                   .header = "streams" FT_BENCH_SPEEDS,
                                   .print_row = print_row};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    x->o.common = &x->shared.opts;
    return ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_decode = {
    .name = "bench decode",
    .summary = "decoding speed: this engine and libllama",
    .usage = "-m FILE [flags]",
    .about = "Greedy decoding by this engine and by libllama (in its fastest way) on the same "
             "file, threads and prompts: medians of tokens/s from interleaved rounds.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
