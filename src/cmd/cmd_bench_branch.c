// SPDX-License-Identifier: Apache-2.0
// `foretoken bench branch`: flags and the table of bench/branch.h.
#include "bench/branch.h"

#include <stdio.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_branch_opts o;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_branch(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    printf("%6.0f  %8.0f us  %8.0f us  %5.3f\n", ft_bench_number(row, "n_past"),
           ft_bench_number(row, "same_us"), ft_bench_number(row, "other_us"),
           ft_bench_number(row, "ratio"));
}

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--n-past", NULL, FT_FLAG(options, o.n_past), "LIST", "tokens of text behind the tree"},
    {"--nodes", NULL, FT_FLAG(options, o.n_nodes), "N", "nodes of a tree", 4, 256},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(8),
                                 .o = {.n_past = "64,512", .n_nodes = 32}};

static const ft_bench_cmd frame = {.name = "bench branch",
                                   .measure = measure,
                                   .header = "n_past  same branch  other branch  ratio",
                                   .print_row = print_row};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    x->o.common = &x->shared.opts;
    return ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_branch = {
    .name = "bench branch",
    .summary = "a draft forward on another branch, and on the same one",
    .usage = "-m FILE [flags]",
    .about = "A tree is grown by one node a forward: as one chain, and as four chains that take "
             "turns. Medians of the time of a forward from interleaved rounds.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
