// SPDX-License-Identifier: Apache-2.0
// `foretoken bench serving`: flags of bench/serving.h.
#include "bench/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/serving_plot.h"
#include "cmd/bench_main.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_serving_opts o;
    const char *modes, *rtts, *ratio, *predictor, *up_steps;
    const char *batch, *depths, *draft_ms, *shapes, *server_depth, *price, *plot;
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

/* What is varied. */
static ft_status parse_sweep(options *x, ft_error *err)
{
    const ft_list_rule times = {.flag = "--draft-ms",
                                .what = "times in ms",
                                .like = "5,11,20",
                                .most = 10000,
                                .n_max = FT_BENCH_SERVING_TIMES_MAX};
    ft_bench_serving_sweep *s = &x->o.sweep;
    ft_status status =
        ft_bench_list_parse("--batch", x->batch, FT_BENCH_LOAD_SLOTS_MAX / 2, err, &s->batch);
    if (status == FT_OK)
        status = ft_bench_list_parse("--draft-depth", x->depths, FT_BENCH_SERVING_DEPTH_MAX, err,
                                     &s->depth);
    if (status == FT_OK)
        status = ft_list_numbers(&times, x->draft_ms, err, s->draft_ms, &s->n_draft_ms);
    if (status == FT_OK)
        status = ft_bench_names("--shape", x->shapes, ft_bench_shape_name, FT_BENCH_SHAPES, err,
                                s->shape);
    return status;
}

static ft_status parse_server_depth(options *x, ft_error *err)
{
    ft_bench_list one;
    if (strcmp(x->server_depth, "auto") == 0)
        return FT_OK;
    ft_status status = ft_bench_list_parse("--server-depth", x->server_depth,
                                           FT_BENCH_SERVING_DEPTH_MAX, err, &one);
    if (status != FT_OK || one.n != 1)
        return ft_error_set(err, FT_INVALID, "--server-depth: '%s': write auto, or 1 to %d",
                            x->server_depth, FT_BENCH_SERVING_DEPTH_MAX);
    x->o.drafts.server_depth = one.value[0];
    return FT_OK;
}

/* The paper's machines and their rents (SpecEdge 5). */
static const struct {
    const char *name;
    double dollars;
} rents[] = {{"a100-40gb", 4.05}, {"a100-80gb", 5.05}, {"rtx4090", 0.35}};

/* A name of `rents`, or a number. False: neither. */
static bool parse_rent(const char *text, size_t n, double *out)
{
    char *end;
    for (size_t i = 0; i < FT_COUNT(rents); i++)
        if (strlen(rents[i].name) == n && strncmp(text, rents[i].name, n) == 0) {
            *out = rents[i].dollars;
            return true;
        }
    if (n == 0 || strspn(text, "0123456789.") != n)
        return false;
    *out = strtod(text, &end);
    return end == text + n && *out <= 1e6;
}

static ft_status parse_price(options *x, ft_error *err)
{
    const size_t n = strcspn(x->price, ":");
    ft_bench_load_price *p = &x->o.price;
    if (x->price[n] && parse_rent(x->price, n, &p->server) && p->server > 0 &&
        parse_rent(x->price + n + 1, strlen(x->price + n + 1), &p->edge))
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "--price: '%s': write SERVER:EDGE in dollars an hour, as in 4.05:0.35; "
                        "a100-40gb, a100-80gb and rtx4090 stand for SpecEdge's",
                        x->price);
}

static ft_status parse_ratio(options *x, ft_error *err)
{
    double draft = 0, verify = 0;
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
    if (status == FT_OK && x->o.memory && x->o.mode[FT_BENCH_LOAD_LAYER_SPLIT])
        status = ft_error_set(err, FT_INVALID,
                              "bench serving: --memory is for layers on the server: leave out "
                              "mode layer-split");
    if (status == FT_OK && x->o.schema && (x->plot || x->o.timeline))
        status = ft_error_set(err, FT_INVALID,
                              "bench serving: --schema has neither a plot nor a timeline");
    if (status == FT_OK && x->o.mode[FT_BENCH_LOAD_PREDICTOR] && !x->o.drafts.predictor)
        status = ft_error_set(err, FT_INVALID, "bench serving: edge+predictor needs --predictor");
    if (status == FT_OK)
        status = parse_rtts(x, err);
    if (status == FT_OK)
        status = parse_rates(x, err);
    if (status == FT_OK)
        status = parse_sweep(x, err);
    if (status == FT_OK)
        status = parse_server_depth(x, err);
    if (status == FT_OK)
        status = parse_price(x, err);
    if (status == FT_OK)
        status = parse_ratio(x, err);
    return status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--server-draft", NULL, FT_FLAG(options, o.server_draft), "FILE",
     "draft model of server-spec, if it must cost more: -md inflated; default: -md"},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "JSON lines with `turns` or `prompt`, and `category`", .required = true},
    {"--schema", NULL, FT_FLAG(options, o.schema), "FILE",
     "instead of modes: tokens a verification without a schema, with this JSON schema, and with it "
     "but without drafts of what it forces; by a real draft model, at the first --rtt"},
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
    {"--batch", NULL, FT_FLAG(options, batch), "LIST",
     "sessions at the same time; edge+pipeline has twice as many"},
    {"--draft-depth", NULL, FT_FLAG(options, depths), "LIST",
     "draft forwards on edges, at most; with several, edge+pipeline has each, and its own choice"},
    {"--server-depth", NULL, FT_FLAG(options, server_depth), "HOW",
     "draft forwards of server-spec; auto: tries depths and numbers of nodes, takes the fastest"},
    {"--shape", NULL, FT_FLAG(options, shapes), "LIST",
     "tree, chain: what edges and server-spec draft; a chain has as many tokens as forwards"},
    {"--depth", NULL, FT_FLAG_ENUM(options, o.drafts.rule, ft_bench_depth_name), "HOW",
     "draft as long as forwards and nodes bring more than their time costs; or always full trees "
     "of --draft-depth forwards, as in SpecEdge (all but edge+pipeline's own choice)"},
    {"--spec-draft-n-max", NULL, FT_FLAG(options, o.drafts.budget), "N", "nodes of a tree", 1, 64},
    {"--proactive-from", NULL, FT_FLAG_ENUM(options, o.drafts.proactive, ft_proactive_from_choices),
     "WHERE",
     "proactive drafting begins where the text likeliest goes on, or at the tree's best leaf"},
    {"--draft-width", NULL, FT_FLAG(options, o.drafts.width), "N",
     "leaves that one forward continues", 1, 64},
    {"--predictor", NULL, FT_FLAG(options, predictor), "FILE",
     "predictor of edge+predictor, a file of train predictor; none"},
    {"--memory", NULL, FT_FLAG(options, o.memory), "SIZE",
     "memory of each server, as serve --memory: weights that do not fit are read from disk"},
    {"--ratio", NULL, FT_FLAG(options, ratio), "D:V",
     "a device's draft forward takes D/V of the server's time to verify a batch"},
    {"--draft-ms", NULL, FT_FLAG(options, draft_ms), "LIST",
     "a device's draft forward takes this long, instead of --ratio; 0: --ratio"},
    {"--price", NULL, FT_FLAG(options, price), "SERVER:EDGE",
     "dollars an hour, or a100-40gb, a100-80gb, rtx4090, as SpecEdge rents them"},
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
    {"--plot", NULL, FT_FLAG(options, plot), "FILE",
     "the figures as SpecEdge's, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--timeline", NULL, FT_FLAG(options, o.timeline), "FILE",
     "write what devices and servers did when in the first round, for ui.perfetto.dev"},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .o = {.set = {.limit = 6, .longest = 256},
          .drafts = {.budget = 32, .width = 4},
          .n = 64,
          .rounds = 3,
          .sampling.top_p = 1,
          .stop = ft_cmd_stopped},
    .modes = "plain,server-spec,edge,edge+proactive,edge+early,edge+pipeline",
    .rtts = "0,15,40,50",
    .batch = "1",
    .depths = "7",
    .draft_ms = "0",
    .shapes = "tree",
    .server_depth = "auto",
    .price = "a100-80gb:rtx4090", /* of the pair whose times --ratio has */
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
        code = ft_cmd_report(status, &err, json_incref(report), x->json, NULL);
        if (status == FT_OK && x->plot && ft_bench_serving_plot(report, x->plot, &err) != FT_OK)
            code = ft_cmd_fail(&err);
        json_decref(report);
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
    .about =
        "Serves the same prompts in several modes and compares what the server's core does "
        "with its time. plain: the server decodes. server-spec: it also drafts. "
        "layer-split: it decodes, and a device computes a quarter of its layers. edge: devices "
        "draft, then wait for the verdict. edge+predictor: their drafts end at the first "
        "predicted rejection. edge+lookup: they draft what followed earlier in the text, "
        "without a draft model. edge+both: beside it. edge+misled: edge+lookup as `edge` "
        "does it by default, with a prediction that is the answer to another prompt. "
        "edge+proactive: they go on drafting while they wait. edge+early: they also send a "
        "part of that before the verdict. edge+pipeline: twice as many sessions, in two "
        "groups that alternate. Links are delayed and may have a rate. A draft forward "
        "takes as long as --ratio or --draft-ms says. The server's work is real, on a core "
        "of its own. Lists are measured in all combinations, in one interleaved run.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
