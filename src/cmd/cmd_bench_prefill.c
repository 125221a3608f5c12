// SPDX-License-Identifier: Apache-2.0
// `foretoken bench prefill`: flags and the tables of bench/prefill.h and bench/prefill_solo.h.
#include "bench/prefill.h"

#include <stdio.h>

#include "bench/prefill_server.h"
#include "bench/prefill_solo.h"
#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_flags shared;
    ft_bench_prefill_opts o;
    bool solo;
    const char *plot;
} options;

static ft_status measure(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    return ft_bench_prefill(ctx, model, report, err);
}

static void print_row(const json_t *row)
{
    ft_bench_print_speeds(row, "tokens");
}

static double at(const json_t *object, const char *a, const char *b)
{
    const json_t *value = json_object_get(object, a);
    return json_number_value(b ? json_object_get(value, b) : value);
}

static void print_server(const json_t *report)
{
    const json_t *back = json_object_get(report, "returning"),
                 *arrival = json_object_get(report, "arrival");
    printf(
        "a text of %.0f tokens, of which %.0f come back: first token after %.1f ms, cold %.1f ms; "
        "ratio %.3f\n",
        at(back, "prompt_tokens", NULL), at(back, "cached_tokens", NULL),
        at(back, "returning_ms", NULL), at(back, "cold_ms", NULL), at(back, "ratio", NULL));
    printf(
        "a prompt of %.0f tokens arrives at %.0f sessions (first token after %.0f ms): rounds p50 "
        "%.1f -> %.1f ms, p99 %.1f -> %.1f ms; p99 grows by %.1f ms, budget %.0f ms\n",
        at(arrival, "prompt_tokens", NULL), at(arrival, "sessions", NULL),
        at(arrival, "prompt_ms", NULL), at(arrival, "before", "p50_ms"),
        at(arrival, "during", "p50_ms"), at(arrival, "before", "p99_ms"),
        at(arrival, "during", "p99_ms"), at(arrival, "growth_p99_ms", NULL),
        at(arrival, "budget_ms", NULL));
}

/* ---- --solo ---- */

static ft_status measure_solo(void *ctx, const ft_model *model, json_t *report, ft_error *err)
{
    const options *x = ctx;
    const ft_bench_prefill_solo_opts opts = {
        .common = &x->shared.opts, .model = model, .lengths = x->o.lengths, .plot = x->plot};
    return ft_bench_prefill_solo(&opts, report, err);
}

static void print_solo(const json_t *row)
{
    printf("%7.0f %10.2f %10.2f %10.2f %10.2f %14.2f %14.2f %16.2f\n",
           ft_bench_number(row, "tokens"), ft_bench_number(row, "a_ms"),
           ft_bench_number(row, "b_ms"), ft_bench_number(row, "both_ms"),
           ft_bench_number(row, "padded_ms"), ft_bench_number(row, "b_ratio"),
           ft_bench_number(row, "padding_ratio"), ft_bench_number(row, "batching_ratio"));
}

static const ft_bench_cmd solo_frame = {
    .name = "bench prefill --solo",
    .measure = measure_solo,
    .header = "   rows      A, ms      B, ms   both, ms padded, ms both / B alone padded / both "
              "(A + B) / both",
    .print_row = print_solo};

/* ---- the command ---- */

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(options, shared, ft_flags_bench),
    {"--lengths", NULL, FT_FLAG(options, o.lengths), "LIST", "tokens of the prompts"},
    {"--prefix", NULL, FT_FLAG(options, o.n_prefix), "N", "tokens of the text that comes back", 1,
     FT_BENCH_PREFILL_MAX},
    {"--sessions", NULL, FT_FLAG(options, o.n_sessions), "N",
     "sessions with rounds while a prompt arrives", 1, FT_BENCH_SESSIONS_MAX},
    {"--prompt", NULL, FT_FLAG(options, o.n_long), "N", "tokens of the prompt that arrives", 1,
     FT_BENCH_PREFILL_MAX},
    {"--prefill-ms", NULL, FT_FLAG(options, o.budget_ms), "MS",
     "the verifier's budget: a prompt delays a round by this at most", 1, 10000},
    {"--solo", NULL, FT_FLAG(options, solo), NULL,
     "instead: a new text of --lengths rows and a verification with cached KV, each alone, in one "
     "pass, and in one padded pass"},
    {"--plot", NULL, FT_FLAG(options, plot), "FILE",
     "with --solo: times over rows, by gnuplot: .svg, .png or .txt", .plot = true},
};

static const options defaults = {.shared = FT_BENCH_FLAGS_INIT(8),
                                 .o = {.lengths = "128,512,2048",
                                       .n_prefix = 1000,
                                       .n_sessions = 8,
                                       .n_long = 2048,
                                       .budget_ms = 50}};

static const ft_bench_cmd frame = {.name = "bench prefill",
                                   .measure = measure,
                                   .header = " tokens" FT_BENCH_SPEEDS,
                                   .print_row = print_row,
                                   .print = print_server};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    x->o.common = &x->shared.opts;
    if (x->plot && !x->solo) {
        (void)ft_error_set(&err, FT_INVALID, "bench prefill: --plot draws what --solo measures");
        return ft_cmd_fail(&err);
    }
    if (x->solo)
        return ft_bench_main(&solo_frame, &x->shared, x);
    return ft_bench_main(&frame, &x->shared, &x->o);
}

const ft_command ft_cmd_bench_prefill = {
    .name = "bench prefill",
    .summary = "what prompts cost: a new one, a returning one, one beside other sessions",
    .usage = "-m FILE [flags]",
    .about = "What prompts cost: reading one, compared with libllama in its fastest way; the "
             "time to the first token of a text that comes back; and how much a long prompt "
             "delays the rounds of other sessions.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
