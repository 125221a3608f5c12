// SPDX-License-Identifier: Apache-2.0
// `foretoken bench decode`: flags and the tables of bench/decode.h and bench/decode_schema.h.
#include "bench/decode.h"

#include <stdio.h>

#include "bench/decode_schema.h"
#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_decode_opts o;
    const char *schema;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_decode(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    ft_bench_print_speeds(row, "streams");
}

static ft_status measure_schema(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    const options *x = ctx;
    const ft_bench_decode_schema_opts o = {.common = x->o.common,
                                           .schema = x->schema,
                                           .n_predict = x->o.n_predict,
                                           .n_prompt = x->o.n_prompt};
    return ft_bench_decode_schema(&o, model, report, err);
}

static void print_schema_row(const json_t *row)
{
    printf("%11.1f %9.1f %21.1f %14.1f %12.2f %8.2f\n", ft_bench_number(row, "temperature"),
           ft_bench_number(row, "pass_us"), ft_bench_number(row, "draw_us"),
           ft_bench_number(row, "plain_us"), 100 * ft_bench_number(row, "share"),
           100 * ft_bench_number(row, "added_share"));
}

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--n-predict", "-n", FT_FLAG(options, o.n_predict), "N", "tokens of a stream in a round", 1,
     65536},
    {"--n-prompt", NULL, FT_FLAG(options, o.n_prompt), "N", "tokens of the prompt", 1,
     FT_BENCH_DECODE_PROMPT_MAX},
    {"--schema", NULL, FT_FLAG(options, schema), "FILE",
     "instead: what draws of JSON of this schema take beside a pass, of one text"},
    {"--streams", NULL, FT_FLAG(options, o.streams), "LIST", "parallel streams, as in 1,16"},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(8),
                                 .o = {.streams = "1", .n_predict = 128, .n_prompt = 64}};

static const ft_bench_cmd frame = {.name = "bench decode",
                                   .measure = measure,
                                   .header = "streams" FT_BENCH_SPEEDS,
                                   .print_row = print_row};

static const ft_bench_cmd schema_frame = {
    .name = "bench decode",
    .measure = measure_schema,
    .header = "temperature   pass us   draw with schema us   plain draw us   % of a pass  % added",
    .print_row = print_schema_row};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    x->o.common = &x->shared.opts;
    return x->schema ? ft_bench_main(&schema_frame, &x->shared, x)
                     : ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_decode = {
    .name = "bench decode",
    .summary = "decoding speed: this engine and libllama",
    .usage = "-m FILE [flags]",
    .about =
        "Greedy decoding by this engine and by libllama (in its fastest way) on the same "
        "file, threads and prompts: medians of tokens/s from interleaved rounds. With --schema: "
        "what a constraint costs.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
