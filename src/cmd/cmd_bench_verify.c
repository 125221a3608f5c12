// SPDX-License-Identifier: Apache-2.0
// `foretoken bench verify`: flags and the table of bench/verify_rows.h.
#include "bench/verify_rows.h"

#include <stdio.h>

#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_verify_opts o;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_verify(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    const char *way = ft_bench_text(row, "libllama");
    const char *why = ft_bench_text(row, "why");
    const char *our_why = ft_bench_text(row, "foretoken_why");
    printf("%-5s %8.0f %5.0f %5.0f %12.1f %12.1f %7.2f %9.2f %8.2f  %s%s%s\n",
           ft_bench_text(row, "shape"), ft_bench_number(row, "sessions"),
           ft_bench_number(row, "ctx"), ft_bench_number(row, "tree"),
           ft_bench_number(row, "foretoken_tok_s"), ft_bench_number(row, "libllama_tok_s"),
           ft_bench_number(row, "ratio"), ft_bench_number(row, "contexts_ratio"),
           ft_bench_number(row, "roofline"),
           way   ? way
           : why ? why
                 : "",
           our_why ? "; " : "", our_why ? our_why : "");
}

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--sessions", NULL, FT_FLAG(options, o.sessions), "LIST", "sessions of a round"},
    {"--ctx", NULL, FT_FLAG(options, o.ctx), "LIST", "committed tokens of a session"},
    {"--tree", NULL, FT_FLAG(options, o.tree), "LIST", "nodes of a session's tree"},
    {"--shape", NULL, FT_FLAG(options, o.shape), "LIST", "tree, chain or tree,chain"},
    {"--vs", NULL, FT_FLAG(options, o.vs), "WHAT", "the other side: libllama or none"},
    {"--logits", NULL, FT_FLAG(options, o.logits), "WHICH",
     "this engine computes: walk (the logits that the verification rule looks at) or all"},
    {"--limit-s", NULL, FT_FLAG(options, o.limit_s), "S",
     "give up a pass of libllama that takes longer than this many seconds", 0.01, 86400},
    {"--memory-gb", NULL, FT_FLAG(options, o.memory_gb), "GB",
     "memory that this program may use; 0: what the machine has free", 0, 1e6},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(8),
                                 .o = {.sessions = "1,4,16,64",
                                       .ctx = "512",
                                       .tree = "8,32",
                                       .shape = "tree,chain",
                                       .vs = "libllama",
                                       .logits = "walk",
                                       .limit_s = 60}};

static const ft_bench_cmd frame = {
    .name = "bench verify",
    .measure = measure,
    .header = "shape sessions   ctx  tree  foretoken/s   libllama/s   ratio  contexts roofline  "
              "libllama",
    .print_row = print_row};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    x->o.common = &x->shared.opts;
    return ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_verify = {
    .name = "bench verify",
    .summary = "verification of many sessions' trees: this engine and libllama",
    .usage = "-m FILE [flags]",
    .about = "Nodes verified a second. All sessions' trees, each behind a context of its own, "
             "are verified in one pass and walked. libllama verifies the same trees in its "
             "fastest way for the row. docs/BENCHMARKS.md says what is timed.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
