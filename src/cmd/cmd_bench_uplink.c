// SPDX-License-Identifier: Apache-2.0
// `foretoken bench uplink`: flags and the table of bench/uplink.h.
#include "bench/uplink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load_server.h"
#include "cmd/bench_main.h"

typedef struct options {
    ft_bench_uplink_opts o;
    const char *methods, *up, *up_steps, *policy;
    double up_step_ms, up_stay;
    bool json;
    ft_policy store;
} options;

static const ft_qsv_method can[] = {FT_QSV_METHOD_PLAIN, FT_QSV_METHOD_POLICY, FT_QSV_METHOD_FIXED,
                                    FT_QSV_METHOD_CHAIN, FT_QSV_METHOD_TREE};

static ft_status parse_methods(options *x, ft_error *err)
{
    const char *names[FT_COUNT(can)];
    bool chosen[FT_COUNT(can)] = {false};
    for (size_t i = 0; i < FT_COUNT(can); i++)
        names[i] = ft_qsv_method_name[can[i]];
    ft_status status = FT_OK;
    if (x->methods)
        status = ft_bench_names("--methods", x->methods, names, FT_COUNT(can), err, chosen);
    for (size_t i = 0; i < FT_COUNT(can) && status == FT_OK; i++)
        x->o.method[can[i]] = x->methods ? chosen[i] : can[i] != FT_QSV_METHOD_POLICY || x->policy;
    if (status == FT_OK && x->o.method[FT_QSV_METHOD_POLICY] != !!x->policy)
        return ft_error_set(err, FT_INVALID,
                            "bench uplink: method policy needs --policy, and "
                            "--policy the method");
    return status;
}

static ft_status load_policy(options *x, ft_error *err)
{
    if (!x->policy)
        return FT_OK;
    x->o.policy = &x->store;
    return ft_policy_load(x->policy, err, &x->store);
}

/* A rate in Mbit/s, or "markov". */
static bool parse_link(const char *at, size_t n, const ft_line_rate *markov, ft_qsv_link *out)
{
    char *end;
    if (n == 0 || n >= sizeof out->name)
        return false;
    *out = (ft_qsv_link){0};
    memcpy(out->name, at, n);
    if (strcmp(out->name, "markov") == 0) {
        out->rate = *markov;
        return true;
    }
    if (strspn(out->name, "0123456789.") < n)
        return false;
    out->rate.bits_per_s[0] = strtod(out->name, &end) * 1e6;
    return !*end && out->rate.bits_per_s[0] >= 1e3 && out->rate.bits_per_s[0] <= 1e10;
}

static ft_status parse_links(options *x, ft_error *err)
{
    ft_line_rate markov = {.step_ns = (int64_t)(x->up_step_ms * 1e6), .stay = x->up_stay};
    ft_status status = ft_line_parse_steps("--up-steps", x->up_steps, err, &markov);
    const char *at = x->up;
    while (status == FT_OK) {
        const size_t n = strcspn(at, ",");
        if (x->o.n_links == FT_BENCH_UPLINK_LINKS ||
            !parse_link(at, n, &markov, &x->o.link[x->o.n_links++]))
            return ft_error_set(err, FT_INVALID,
                                "--up: '%s' is no list of at most %d rates of 0.001 to 10000 "
                                "Mbit/s or markov, as in 2,6,markov",
                                x->up, FT_BENCH_UPLINK_LINKS);
        at += n;
        if (!*at)
            break;
        at++;
    }
    return status;
}

static void print_row(const json_t *r)
{
    printf("%-8s %-12s %9.2f %10.2f %12.1f %9.3f  %s\n", ft_bench_text(r, "uplink"),
           ft_bench_text(r, "method"), ft_bench_number(r, "tokens_per_s"),
           ft_bench_number(r, "simulated_tokens_per_s"), ft_bench_number(r, "bytes_per_round"),
           ft_bench_number(r, "rate_estimate_mbit"), ft_bench_identical(r));
}

static void print_text(const json_t *report)
{
    const json_t *r;
    size_t i;
    printf("%.0f texts of at most %.0f tokens, temperature %g, %.0f round(s)\n",
           ft_bench_number(report, "texts"), ft_bench_number(report, "n"),
           ft_bench_number(report, "temperature"), ft_bench_number(report, "rounds"));
    ft_bench_load_print_cores((int)ft_bench_number(report, "server_core"),
                              (int)ft_bench_number(report, "driver_cores"), stdout);
    printf("%-8s %-12s %9s %10s %12s %9s  %s\n", "uplink", "method", "tokens/s", "simulated",
           "bytes/round", "Mbit/s", "text");
    json_array_foreach(json_object_get(report, "rows"), i, r) print_row(r);
    json_array_foreach(json_object_get(report, "rates"), i, r)
        printf("uplink %s: %.3f Mbit/s estimated after %.0f Drafts of %.0f bytes\n",
               ft_bench_text(r, "uplink"), ft_bench_number(r, "rate_estimate_mbit"),
               ft_bench_number(r, "large_rounds"), ft_bench_number(r, "bytes_per_large_round"));
    json_array_foreach(json_object_get(report, "claims"), i, r)
    {
        const bool holds = json_is_true(json_object_get(r, "holds"));
        printf("%-8s %+7.3f  %s%s%s\n", holds ? "holds" : "does not", ft_bench_number(r, "margin"),
               ft_bench_text(r, "name"), holds ? "" : ": ",
               holds ? "" : ft_bench_text(r, "reason"));
    }
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--policy", NULL, FT_FLAG(options, policy), "FILE",
     "draft policy of method policy, a file of train policy"},
    {"--up", NULL, FT_FLAG(options, up), "LIST",
     "uplinks: rates in Mbit/s, and markov, whose rate changes"},
    {"--up-steps", NULL, FT_FLAG(options, up_steps), "MBIT,MBIT", "the two rates of markov"},
    {"--up-step-ms", NULL, FT_FLAG(options, up_step_ms), "MS",
     "the rate of markov may change once in so long", 1, 1e6},
    {"--up-stay", NULL, FT_FLAG(options, up_stay), "P",
     "chance that the rate of markov stays, from one step to the next", 0, 1},
    {"--rtt", NULL, FT_FLAG(options, o.rtt_ms), "MS", "round trip of the link, without bytes", 0,
     10000},
    {"--methods", NULL, FT_FLAG(options, methods), "LIST",
     "methods to compare; default: all, policy with --policy"},
    {"--draft-length", NULL, FT_FLAG(options, o.length), "N",
     "tokens of a chain, levels of a tree; not of policy", 1, 32},
    {"--tree-width", NULL, FT_FLAG(options, o.width), "N", "nodes of a tree's level", 2, 8},
    {"--l", NULL, FT_FLAG(options, o.l), "N", "parts of the points of method fixed", 1, 1024},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of a text at most", 2, 4096},
    {"--limit", NULL, FT_FLAG(options, o.n_prompts), "N",
     "use N prompts, evenly spread over the file", 1, 1000},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R",
     "times that each text is written by each method", 1, FT_BENCH_UPLINK_ROUNDS_MAX},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N",
     "context, tokens; longer prompts are left out", 64, 1e5},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature", 0.01, 100},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "K",
     "draw from the K most probable tokens only; 0: from all", 0, 1e6},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of draws and uplinks", 0, 1e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.length = 4,
                                       .width = 3,
                                       .l = 240,
                                       .n = 64,
                                       .n_prompts = 8,
                                       .rounds = 3,
                                       .n_ctx = 1024,
                                       .temp = 1,
                                       .top_k = 40,
                                       .seed = 1,
                                       .stop = ft_cmd_stopped},
                                 .up = "2,6,markov",
                                 .up_steps = "2,6",
                                 .up_step_ms = 100,
                                 .up_stay = 0.9};

static ft_status check(options *x, ft_error *err)
{
    ft_status status = parse_methods(x, err);
    if (status == FT_OK)
        status = parse_links(x, err);
    return status == FT_OK ? load_policy(x, err) : status;
}

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    int code = 2;
    if (check(x, &err) == FT_OK) {
        ft_cmd_catch_signals();
        const ft_status status = ft_bench_uplink(&x->o, &err, &report);
        code = ft_cmd_report(status, &err, report, x->json, print_text);
    } else {
        ft_cmd_fail(&err);
    }
    ft_policy_deinit(&x->store);
    return code;
}

const ft_command ft_cmd_bench_uplink = {
    .name = "bench uplink",
    .summary = "ways to draft over a thin uplink, beside the simulator",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about =
        "Writes the same texts over emulated uplinks by several methods, one edge at a time. "
        "plain: the server decodes. policy: rule ratio, where the policy chooses length and l. "
        "fixed: rule ratio, chains of --draft-length tokens with "
        "points of --l parts. exact chain, exact tree: rule exact. The server is real and has "
        "a core of its own; edge and draft model have the others. Beside each measured speed "
        "stands the one of simulate qsv with the times of this run. claims tell whether the "
        "simulator is right, edges find the uplink's rate, and texts under rule exact are the "
        "target's own. docs/BENCHMARKS.md says what is measured.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
