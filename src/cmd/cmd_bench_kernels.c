// SPDX-License-Identifier: Apache-2.0
// `foretoken bench kernels`: flags and the table of bench/kernels.h.
#include "bench/kernels.h"

#include <stdio.h>
#include <string.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_kernels_opts o;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_kernels(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    if (strcmp(ft_bench_text(row, "op"), "matmul") == 0)
        printf("matmul    %-8s %-7s %5.0f x %-6.0f %5.0f ", ft_bench_text(row, "weight"),
               ft_bench_text(row, "type"), ft_bench_number(row, "n_in"),
               ft_bench_number(row, "n_out"), ft_bench_number(row, "rows"));
    else
        printf("attention          over %6.0f tokens    %5.0f ", ft_bench_number(row, "ctx"),
               ft_bench_number(row, "rows"));
    printf("%10.1f %10.1f %7.2f %9.2f\n", ft_bench_number(row, "foretoken_us"),
           ft_bench_number(row, "ggml_us"), ft_bench_number(row, "ratio"),
           ft_bench_number(row, "roofline"));
}

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--rows", NULL, FT_FLAG(options, o.rows), "LIST", "rows of a matrix product"},
    {"--ctx", NULL, FT_FLAG(options, o.ctx), "LIST", "tokens that attention reads"},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(0.5),
                                 .o = {.rows = "1,2,4,8,16,32,64", .ctx = "512,2048,8192"}};

static const ft_bench_cmd frame = {
    .name = "bench kernels",
    .measure = measure,
    .header = "operator                                rows    ours us    ggml us   ratio  "
              "roofline",
    .print_row = print_row};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    x->o.common = &x->shared.opts;
    return ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_kernels = {
    .name = "bench kernels",
    .summary = "single operators: this engine's kernels and ggml's",
    .usage = "-m FILE [flags]",
    .about = "Matrix products with every kind of matrix of the file, and attention, each by "
             "itself: microseconds of one call of this engine's kernel and of ggml's own "
             "(repacked if ggml can).",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
