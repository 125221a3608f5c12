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
    const char *modes, *rtts, *ratio, *predictor, *up_steps;
    double up_mbit, down_mbit, up_step_ms, up_stay;
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

static ft_status parse_rates(options *x, ft_error *err)
{
    x->o.up = (ft_line_rate){.bits_per_s = {x->up_mbit * 1e6}, .seed = (uint64_t)x->seed};
    x->o.down = (ft_line_rate){.bits_per_s = {x->down_mbit * 1e6}};
    if (!x->up_steps)
        return FT_OK;
    if (x->up_mbit > 0)
        return ft_error_set(err, FT_INVALID, "--up-mbit and --up-steps exclude each other");
    x->o.up.step_ns = (int64_t)(x->up_step_ms * 1e6);
    x->o.up.stay = x->up_stay;
    return ft_line_parse_steps("--up-steps", x->up_steps, err, &x->o.up);
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
    if (status == FT_OK)
        status = parse_rates(x, err);
    return status == FT_OK ? parse_ratio(x, err) : status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "FILE", "target model", .required = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "FILE", "draft model", .required = true},
    {"--server-draft", NULL, FT_FLAG(options, o.server_draft), "FILE",
     "draft model of server-spec, if it must cost more: -md inflated; default: -md"},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "JSON lines with `turns` or `prompt`, and `category`", .required = true},
    {"--limit", NULL, FT_FLAG(options, o.set.limit), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e6},
    {"--per-category", NULL, FT_FLAG(options, o.set.each), "N",
     "use N prompts of each category instead of --limit, with ratios by category; 0: --limit", 0,
     1e6},
    {"--max-prompt", NULL, FT_FLAG(options, o.set.longest), "N", "leave out prompts of more tokens",
     8, 1 << 20},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of a text", 2, 65536},
    {"--modes", NULL, FT_FLAG(options, modes), "LIST", "modes to compare"},
    {"--rtt", NULL, FT_FLAG(options, rtts), "LIST", "round-trip times of the link, ms"},
    {"--up-mbit", NULL, FT_FLAG(options, up_mbit), "R", "rate of each device's uplink; 0: no limit",
     0, 100000},
    {"--down-mbit", NULL, FT_FLAG(options, down_mbit), "R",
     "rate of each device's downlink; 0: no limit", 0, 100000},
    {"--up-steps", NULL, FT_FLAG(options, up_steps), "MBIT,MBIT",
     "instead of --up-mbit: a rate that changes between two; the same in all modes, by --seed"},
    {"--up-step-ms", NULL, FT_FLAG(options, up_step_ms), "MS",
     "with --up-steps: the rate may change once in so long", 1, 1e6},
    {"--up-stay", NULL, FT_FLAG(options, up_stay), "P",
     "with --up-steps: chance that the rate stays, from one step to the next", 0, 1},
    {"--batch", NULL, FT_FLAG(options, o.batch), "B",
     "sessions at the same time; edge+pipeline has twice as many", 1, FT_BENCH_LOAD_SLOTS_MAX / 2},
    {"--draft-depth", NULL, FT_FLAG(options, o.drafts.depth), "N",
     "draft forwards of a tree; on edges at most", 1, 64},
    {"--depth", NULL, FT_FLAG_ENUM(options, o.drafts.rule, ft_bench_depth_name), "HOW",
     "draft as long as forwards and nodes bring more than their time costs; or always full trees "
     "of --draft-depth forwards, as in SpecEdge"},
    {"--spec-draft-n-max", NULL, FT_FLAG(options, o.drafts.budget), "N", "nodes of a tree", 1, 64},
    {"--proactive-from", NULL, FT_FLAG_ENUM(options, o.drafts.proactive, ft_proactive_from_choices),
     "WHERE",
     "proactive drafting begins where the text likeliest goes on, or at the tree's best leaf"},
    {"--draft-width", NULL, FT_FLAG(options, o.drafts.width), "N",
     "leaves that one forward continues", 1, 64},
    {"--chain", NULL, FT_FLAG(options, o.drafts.chain), NULL,
     "edges draft chains of --draft-depth tokens instead of trees"},
    {"--predictor", NULL, FT_FLAG(options, predictor), "FILE",
     "predictor of edge+predictor, a file of train predictor; none"},
    {"--ratio", NULL, FT_FLAG(options, ratio), "D:V",
     "a device's draft forward takes D/V of the server's time to verify a batch"},
    {"--draft-ms", NULL, FT_FLAG(options, o.draft_ms), "MS",
     "a device's draft forward takes this long, instead of --ratio; 0: --ratio", 0, 10000},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "R", "rounds: times that each mode is measured",
     1, FT_BENCH_ROUNDS_MAX},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature; 0: greedy", 0, 100},
    {"--top-k", NULL, FT_FLAG(options, o.sampling.top_k), "K",
     "draw from the K most probable tokens only; 0: from all", 0, 1e6},
    {"--top-p", NULL, FT_FLAG(options, o.sampling.top_p), "P",
     "draw from the most probable tokens whose sum reaches P only; 1: from all", 0.01, 1},
    {"--min-p", NULL, FT_FLAG(options, o.sampling.min_p), "P",
     "draw from tokens of at least P times the highest probability only; 0: from all", 0, 1},
    {"--seed", "-s", FT_FLAG(options, seed), "N", "seed of the draws", 0, 1e18},
    {"--timeline", NULL, FT_FLAG(options, o.timeline), "FILE",
     "write what devices and servers did when in the first round, for ui.perfetto.dev"},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
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
    .up_step_ms = 100,
    .up_stay = 0.9,
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
    .summary = "a server that decodes, drafts itself, or verifies drafts of edges",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Serves the same prompts in several modes and compares what the server's core "
             "does with its time. plain: the server decodes. server-spec: it also drafts. "
             "edge: devices draft, then wait for the verdict. edge+predictor: their drafts end "
             "at the first predicted rejection. edge+proactive: they go on drafting while they "
             "wait. edge+early: they also send a part of that before the verdict. "
             "edge+pipeline: twice as many sessions, in two groups that alternate. Links are "
             "delayed and may have a rate. A draft forward takes as long as --ratio or --draft-ms "
             "says. The server's work is real, on a core of its own.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
