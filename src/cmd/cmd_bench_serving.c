// SPDX-License-Identifier: Apache-2.0
// `foretoken bench serving`: flags of bench/serving.h.
#include "bench/serving.h"

#include <stdio.h>
#include <string.h>

#include "cmd/bench_main.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_serving_opts o;
    const char *modes, *rtts, *ratio, *predictor;
    int64_t seed;
    bool json;
    ft_predictor store;
} options;

static ft_status parse_modes(options *x, ft_error *err)
{
    const char *names[FT_BENCH_LOAD_MODES];
    for (int m = 0; m < FT_BENCH_LOAD_MODES; m++)
        names[m] = ft_bench_load_mode_name((ft_bench_load_mode)m);
    return ft_bench_names("--modes", x->modes, names, FT_BENCH_LOAD_MODES, err, x->o.mode);
}

static ft_status parse_rtts(options *x, ft_error *err)
{
    const ft_list_rule rule = {.flag = "--rtt",
                               .what = "times in ms",
                               .like = "0,15,40",
                               .most = 10000,
                               .n_max = FT_BENCH_LOAD_RTTS_MAX};
    double ms[FT_BENCH_LOAD_RTTS_MAX];
    ft_status status = ft_list_numbers(&rule, x->rtts, err, ms, &x->o.n_rtt);
    for (uint32_t i = 0; i < x->o.n_rtt && status == FT_OK; i++)
        x->o.rtt_us[i] = (uint32_t)(ms[i] * 1e3);
    return status;
}

static ft_status parse_ratio(options *x, ft_error *err)
{
    double draft = 0, verify = 0;
    if (x->o.draft_ms > 0)
        return FT_OK;
    if (sscanf(x->ratio, "%lf:%lf", &draft, &verify) != 2 || !(draft > 0) || !(verify > 0))
        return ft_error_set(err, FT_INVALID, "--ratio: '%s': write DRAFT:VERIFY, as in 11:94",
                            x->ratio);
    x->o.ratio = draft / verify;
    return FT_OK;
}

static ft_status check(options *x, ft_error *err)
{
    x->o.sampling.temperature = (float)x->o.temp;
    x->o.sampling.seed = (uint64_t)x->seed;
    ft_status status = ft_sampling_check(&x->o.sampling, err);
    if (status == FT_OK)
        status = parse_modes(x, err);
    if (status == FT_OK)
        status = ft_cmd_predictor(x->predictor, err, &x->store, &x->o.drafts.predictor);
    if (status == FT_OK && x->o.mode[FT_BENCH_LOAD_PREDICTOR] && !x->o.drafts.predictor)
        status = ft_error_set(err, FT_INVALID, "bench serving: edge+predictor needs --predictor");
    if (status == FT_OK)
        status = parse_rtts(x, err);
    return status == FT_OK ? parse_ratio(x, err) : status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "FILE", "target model", .required = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "FILE", "draft model", .required = true},
    {"--server-draft", NULL, FT_FLAG(options, o.server_draft), "FILE",
     "the draft that server-spec runs, where its cost is to be another: -md inflated (-md)"},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "JSON lines with `turns` or `prompt`, and `category`", .required = true},
    {"--limit", NULL, FT_FLAG(options, o.set.limit), "N",
     "so many prompts, spread over the file; 0: all", 0, 1e6},
    {"--per-category", NULL, FT_FLAG(options, o.set.each), "N",
     "instead of --limit: so many prompts of each category, whose ratios are then told apart; "
     "0: --limit",
     0, 1e6},
    {"--max-prompt", NULL, FT_FLAG(options, o.set.longest), "N",
     "prompts of more tokens are left out", 8, 1 << 20},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens a text", 2, 65536},
    {"--modes", NULL, FT_FLAG(options, modes), "LIST", "what to compare"},
    {"--rtt", NULL, FT_FLAG(options, rtts), "LIST", "round-trip times of the link in ms"},
    {"--batch", NULL, FT_FLAG(options, o.batch), "B",
     "sessions at once; edge+pipeline has twice as many", 1, FT_BENCH_LOAD_SLOTS_MAX / 2},
    {"--draft-depth", NULL, FT_FLAG(options, o.drafts.depth), "N",
     "draft forwards a tree (of edges: at most)", 1, 64},
    {"--depth", NULL, FT_FLAG_ENUM(options, o.drafts.rule, ft_bench_depth_name), "HOW",
     "edge, edge+proactive: draft until one more forward would bring less than its time costs, or "
     "always --draft-depth forwards"},
    {"--spec-draft-n-max", NULL, FT_FLAG(options, o.drafts.budget), "N", "nodes a tree", 1, 64},
    {"--proactive-from", NULL, FT_FLAG_ENUM(options, o.drafts.proactive, ft_proactive_from_choices),
     "WHERE",
     "proactive drafting begins where the text likeliest goes on, or at the tree's best leaf"},
    {"--draft-width", NULL, FT_FLAG(options, o.drafts.width), "N",
     "leaves that one forward continues", 1, 64},
    {"--chain", NULL, FT_FLAG(options, o.drafts.chain), NULL,
     "edges draft chains of --draft-depth tokens instead of trees"},
    {"--predictor", NULL, FT_FLAG(options, predictor), "FILE",
     "of edge+predictor: a file of train predictor; none"},
    {"--ratio", NULL, FT_FLAG(options, ratio), "D:V",
     "a device's draft forward takes D/V of what the server takes to verify a batch"},
    {"--draft-ms", NULL, FT_FLAG(options, o.draft_ms), "MS",
     "a device's draft forward takes so long, instead of --ratio", 0, 10000},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R", "times that everything is measured", 1,
     FT_BENCH_ROUNDS_MAX},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature; 0: greedy", 0, 100},
    {"--top-k", NULL, FT_FLAG(options, o.sampling.top_k), "K", "the K likeliest only; 0: all", 0,
     1e6},
    {"--top-p", NULL, FT_FLAG(options, o.sampling.top_p), "P", "1: off", 0.01, 1},
    {"--min-p", NULL, FT_FLAG(options, o.sampling.min_p), "P", "0: off", 0, 1},
    {"--seed", "-s", FT_FLAG(options, seed), "N", "of the draws", 0, 1e18},
    {"--json", NULL, FT_FLAG(options, json), NULL, "one JSON object"},
};

static const options defaults = {
    .o = {.set = {.limit = 6, .longest = 256},
          .drafts = {.depth = 7, .budget = 32, .width = 4},
          .n = 64,
          .batch = 1,
          .rounds = 3,
          .sampling.top_p = 1,
          .stop = ft_cmd_stopped},
    .modes = "plain,server-spec,edge,edge+proactive,edge+early,edge+pipeline",
    .rtts = "0,15,40,50",
    .ratio = "11:94",
    .predictor = "none"};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    int code = 2;
    if (check(x, &err) == FT_OK) {
        ft_cmd_catch_signals();
        x->o.text = x->json ? NULL : stdout;
        ft_status status = ft_bench_serving(&x->o, &err, &report);
        code = ft_cmd_report(status, &err, report, x->json, NULL);
    } else {
        ft_cmd_fail(&err);
    }
    ft_predictor_deinit(&x->store);
    return code;
}

const ft_command ft_cmd_bench_serving = {
    .name = "bench serving",
    .summary = "a server that decodes, drafts, or verifies what edges draft",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Serves the same prompts in several ways and compares what the server's core does "
             "with its time:\n"
             "plain (the server decodes), server-spec (it drafts, too), edge (devices draft and "
             "wait), edge+predictor\n"
             "(their drafts end at the first predicted rejection), edge+proactive (they draft "
             "on meanwhile), edge+early (and send\n"
             "some of that before the verdict), edge+pipeline (twice as many sessions take "
             "turns). Links are delayed, and devices take the time they are said to take; the\n"
             "server's work is real, on a core of its own.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
