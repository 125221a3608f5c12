// SPDX-License-Identifier: Apache-2.0
// `foretoken bench capacity`: flags of bench/capacity.h.
#include "bench/capacity.h"

#include <stdio.h>
#include <string.h>

#include "cmd/bench_main.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_capacity_opts o;
    const char *policies;
    ft_edge_flags how; /* of wisp's and edf's devices */
    int64_t seed;
    bool json;
} options;

static ft_status check(options *x, ft_error *err)
{
    ft_bench_capacity_opts *f = &x->o;
    f->sampling =
        (ft_sampling){.temperature = (float)x->o.temp, .top_p = 1, .seed = (uint64_t)x->seed};
    if (f->mixed_only && f->plot && !f->sweep)
        return ft_error_set(err, FT_INVALID,
                            "--plot draws devices over speed: not with --mixed-only, unless with "
                            "--sweep");
    if (strcmp(x->how.predictor, "auto") == 0)
        return ft_error_set(err, FT_INVALID,
                            "--predictor auto: a bench compares what is fixed: name a file, or "
                            "pass none");
    ft_status status = ft_sampling_check(&f->sampling, err);
    if (status == FT_OK)
        status = ft_edge_flags_check(&x->how, err);
    if (status == FT_OK)
        status = ft_edge_flags_open(&x->how, err);
    f->edge = x->how.opts;
    if (status == FT_OK)
        status = ft_bench_names("--policies", x->policies, ft_bench_capacity_way_name,
                                FT_BENCH_CAPACITY_WAYS, err, f->way);
    f->names = (ft_bench_capacity_names){x->how.draft, x->how.predictor};
    return status == FT_OK ? ft_list_speeds("--slo", f->slo, err, f->tokens_per_s, &f->n_classes)
                           : status;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--limit", NULL, FT_FLAG(options, o.limit), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e6},
    {"--max-prompt", NULL, FT_FLAG(options, o.longest), "N", "leave out prompts of more tokens", 8,
     1 << 20},
    {"--min-prompt", NULL, FT_FLAG(options, o.shortest), "N", "leave out prompts of fewer tokens",
     0, 1 << 20},
    {"--predict", "-n", FT_FLAG(options, o.n), "N",
     "tokens of a text at most; fewer if the promised speed makes fewer in half of --probe-s",
     FT_BENCH_TEXT_LEAST, 65536},
    {"--slo", NULL, FT_FLAG(options, o.slo), "SPEEDS",
     "classes of promised token speeds, tokens/s"},
    {"--mixed", NULL, FT_FLAG(options, o.mixed), NULL,
     "also measure devices of all classes together"},
    {"--mixed-only", NULL, FT_FLAG(options, o.mixed_only), NULL,
     "measure only devices of all classes together"},
    {"--policies", NULL, FT_FLAG(options, policies), "LIST", "policies to compare"},
    {"--epsilon", NULL, FT_FLAG(options, o.search.epsilon), "P",
     "share of texts that may be slower than promised", 0, 0.5},
    {"--precision", NULL, FT_FLAG(options, o.search.precision), "P",
     "end a search when the number of devices is known within this share", 0, 1},
    {"--probe-s", NULL, FT_FLAG(options, o.search.probe_s), "S",
     "seconds of a probe; more if it has too few texts", 0.1, 3600},
    {"--devices-most", NULL, FT_FLAG(options, o.search.most), "N", "devices at most", 1,
     FT_BENCH_CROWD_MOST},
    {"--rtt", NULL, FT_FLAG(options, o.rtt_ms), "MS", "round-trip time of the link", 0, 10000},
    {"--draft-ms", NULL, FT_FLAG(options, o.draft_ms), "MS", "time of a device's draft forward", 0,
     10000},
    {"--draft", NULL, FT_FLAG(options, how.draft), "HOW",
     "drafts with wisp and edf: auto: what pays; N: chains of N; tree:BUDGET[:DEPTH]"},
    {"--draft-fixed", NULL, FT_FLAG(options, o.fixed), "N",
     "drafted tokens a round with fcfs, sled and static", 1, 64},
    {"--predictor", NULL, FT_FLAG(options, how.predictor), "FILE",
     "with wisp and edf: end a draft where this predictor expects a rejection; none: do not"},
    {"--cache-type", NULL, FT_FLAG(options, o.cache_type), "TYPE",
     "type of the servers' K and V: f16, bf16 or q8_0"},
    {"--costs", NULL, FT_FLAG(options, o.costs), "FILE",
     "what passes cost on the servers, from foretoken fit verify-time"},
    {"--memory", NULL, FT_FLAG(options, o.memory), "SIZE",
     "memory of each server, as serve --memory: weights that do not fit are read from disk"},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature; 0: greedy", 0, 100},
    {"--seed", "-s", FT_FLAG(options, seed), "N", "seed of the draws", 0, 1e18},
    {"--sweep", NULL, FT_FLAG(options, o.sweep), NULL,
     "after each search, also the share of slow texts over the number of devices, and late rounds "
     "by cause; --plot draws both"},
    {"--plot", NULL, FT_FLAG(options, o.plot), "FILE",
     "devices held over speed, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .o = {.slo = "2,4,6,8",
          .cache_type = "f16",
          .limit = 24,
          .longest = 256,
          .n = 64,
          .fixed = 4,
          .rtt_ms = 20,
          .draft_ms = 5,
          .search = {.epsilon = 0.05, .precision = 0.1, .probe_s = 8, .most = 128},
          .stop = ft_cmd_stopped},
    .policies = "wisp,edf,fcfs,sled,static,centralized",
    .how = {FT_EDGE_FLAGS_INIT(false, "none")}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    int code = 2;
    if (check(x, &err) == FT_OK) {
        ft_cmd_catch_signals();
        x->o.text = x->json ? NULL : stdout;
        x->o.log = stderr;
        ft_status status = ft_bench_capacity(&x->o, &err, &report);
        code = ft_cmd_report(status, &err, report, x->json, NULL);
    } else {
        ft_cmd_fail(&err);
    }
    ft_edge_flags_close(&x->how);
    return code;
}

const ft_command ft_cmd_bench_capacity = {
    .name = "bench capacity",
    .summary = "how many devices a server holds at promised speeds, by policy",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Searches how many devices a server on one core can hold: the largest number at "
             "which at most --epsilon of the texts are slower than promised. Devices are real "
             "edges over delayed links. Their drafts are recorded and take as long as "
             "--draft-ms says. wisp, edf, fcfs: devices draft, the server has that policy. "
             "sled: as fcfs, and every round computes the whole text again. static: batches "
             "that are full or have waited. centralized: the server decodes by itself.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
