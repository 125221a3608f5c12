// SPDX-License-Identifier: Apache-2.0
// `foretoken bench fleet`: flags of bench/fleet.h.
#include "bench/fleet.h"

#include <stdio.h>

#include "bench/load_crowd.h"
#include "cmd/bench_main.h"
#include "cmd/gen_flags.h"

typedef struct options {
    ft_bench_fleet_opts o;
    double temp;
    int64_t seed;
    bool json;
} options;

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL",
     "a target whose texts are the servers': it tells them once before the measurement",
     .required = true, .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "what users say: JSON lines with `turns` or `prompt`", .required = true},
    {"--server", NULL, FT_FLAG(options, o.servers), "HOST:PORT,...",
     "servers or proxies to compare, up to 4", .required = true},
    FT_FLAG_INCLUDE(options, o.wire, ft_flags_wire),
    {"--devices", NULL, FT_FLAG(options, o.devices), "N", "devices, each with a user who chats", 1,
     FT_BENCH_CROWD_MOST},
    {"--chats", NULL, FT_FLAG(options, o.chats), "N",
     "chats that are told before; each round has a part of them", 1, 100000},
    {"--turns", NULL, FT_FLAG(options, o.turns), "N",
     "texts of a chat: mean; a chat has 1 to twice that - 1", 1, 100},
    {"--think-s", NULL, FT_FLAG(options, o.think_s), "S",
     "mean pause from a text to the user's next prompt", 0, 3600},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of a text at most", 1, 65536},
    {"--ctx-size", "-c", FT_FLAG(options, o.ctx), "N", "tokens of a chat at most", 64, 1 << 20},
    {"--draft", NULL, FT_FLAG(options, o.draft_tok), "N", "tokens of a draft, a chain", 1, 64},
    {"--slo", NULL, FT_FLAG(options, o.speed), "SPEED",
     "token speed that devices ask for; a slower text is late; 0: none", 0, 1e4},
    {"--rtt", NULL, FT_FLAG(options, o.rtt_ms), "MS", "round-trip time of the devices' links", 0,
     10000},
    {"--draft-ms", NULL, FT_FLAG(options, o.draft_ms), "MS", "time of a device's draft forward", 0,
     10000},
    {"--warm-s", NULL, FT_FLAG(options, o.warm_s), "S",
     "seconds before each measurement, in which users begin", 0.01, 3600},
    {"--measure-s", NULL, FT_FLAG(options, o.measure_s), "S", "seconds of each measurement", 0.1,
     3600},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "N", "measurements of each; they take turns", 1,
     FT_BENCH_ROUNDS_MAX},
    {"--temp", NULL, FT_FLAG(options, temp), "T", "temperature; 0: greedy", 0, 100},
    {"--seed", "-s", FT_FLAG(options, seed), "N", "seed of texts, chats and pauses", 0, 1e9},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.devices = 16,
                                       .chats = 64,
                                       .turns = 3,
                                       .n = 48,
                                       .ctx = 4096,
                                       .draft_tok = 4,
                                       .think_s = 2,
                                       .rtt_ms = 20,
                                       .draft_ms = 5,
                                       .warm_s = 20,
                                       .measure_s = 30,
                                       .rounds = 3,
                                       .stop = ft_cmd_stopped},
                                 .temp = 0.8};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    (void)n_words, (void)words;
    x->o.sampling =
        (ft_sampling){.temperature = (float)x->temp, .top_p = 1, .seed = (uint64_t)x->seed};
    ft_status status = ft_sampling_check(&x->o.sampling, &err);
    if (status == FT_OK && x->o.chats < x->o.rounds)
        status = ft_error_set(&err, FT_INVALID, "--chats: fewer than --rounds");
    if (status != FT_OK)
        return ft_cmd_fail(&err), 2;
    ft_cmd_catch_signals();
    x->o.text = x->json ? NULL : stdout;
    x->o.log = stderr;
    status = ft_bench_fleet(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, NULL);
}

const ft_command ft_cmd_bench_fleet = {
    .name = "bench fleet",
    .summary = "tokens a second of users who chat, from one server and from several behind a proxy",
    .usage = "-m TARGET -md DRAFT --prompts FILE --server HOST:PORT,... [flags]",
    .about = "Users chat with servers that run already, or with proxies before them. Devices are "
             "real edges over delayed links. Their drafts are recorded and take as long as "
             "--draft-ms says. A server of this program first tells all texts once. Then each "
             "of --server has the same devices, in turn. "
             "tests/fleet/run twice starts servers and a proxy for it.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
