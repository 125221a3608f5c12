// SPDX-License-Identifier: Apache-2.0
// The conditions and mechanisms of `bench ablate`. Constant data.
#include "bench/ablate_cases.h"

#include "base/num.h"
#include "sim/wisp.h"

/* Costs of a pass in us. On an accelerator rows are cheap. On a processor they are dear: of a small
 * target, of one with many more layers, and of one that shares the processor with its draft. A pass
 * that reads its weights from disk takes what reading takes. TWO_CORES is the demo's target on two
 * cores with AVX2. The last are WISP's, of Qwen3-32B on an A100 (docs/SIMULATOR.md). */
#define CHEAP_ROWS                                                               \
    {                                                                            \
        [FT_COST_PASS] = 60000, [FT_COST_ROW] = 150, [FT_COST_CACHED_TOK] = 0.05 \
    }
#define SMALL                                                                  \
    {                                                                          \
        [FT_COST_PASS] = 4000, [FT_COST_ROW] = 350, [FT_COST_CACHED_TOK] = 0.5 \
    }
#define FAST                                                                     \
    {                                                                            \
        [FT_COST_PASS] = 10000, [FT_COST_ROW] = 100, [FT_COST_CACHED_TOK] = 0.05 \
    }
#define DEAR_ROWS                                                                \
    {                                                                            \
        [FT_COST_PASS] = 45000, [FT_COST_ROW] = 2000, [FT_COST_CACHED_TOK] = 0.5 \
    }
#define QWEN                                                                             \
    {                                                                                    \
        [FT_COST_PASS] = 14860, [FT_COST_ROW] = 143.39, [FT_COST_INTERACTION] = 0.00253, \
        [FT_COST_CACHED_TOK] = 2.67                                                      \
    }
#define LOCAL                                                                   \
    {                                                                           \
        [FT_COST_PASS] = 12500, [FT_COST_ROW] = 700, [FT_COST_CACHED_TOK] = 0.5 \
    }
#define TWO_CORES                                                             \
    {                                                                         \
        [FT_COST_PASS] = 8400, [FT_COST_ROW] = 4000, [FT_COST_CACHED_TOK] = 1 \
    }
#define READ                                                                      \
    {                                                                             \
        [FT_COST_PASS] = 150000, [FT_COST_ROW] = 1000, [FT_COST_CACHED_TOK] = 0.5 \
    }
#define STREAMED                                                                \
    {                                                                           \
        [FT_COST_PASS] = 500000, [FT_COST_ROW] = 1500, [FT_COST_CACHED_TOK] = 1 \
    }
#define SERVER(costs) .cost_us = costs, .noise = 0.05, .spikes = 0.002, .hints = true
#define GOOD          .right = 0.6 /* the demo's draft alone is a weak one */
#define DEVICE        .forward_us = 5000, .read_us = 40
#define NEAR                            \
    {                                   \
        .rtt_us = 15000, .jitter = 0.05 \
    }

#define HERE         \
    {                \
        .rtt_us = 30 \
    }

/* clang-format off */
const ft_ablate_case ft_ablate_cases[] = {
    {"near", "a network of 15 ms, a verification of 60, cheap rows", {DEVICE, GOOD}, NEAR,
     {SERVER(CHEAP_ROWS)}, .texts = 4},
    {"warm", "temperature 1", {DEVICE, GOOD}, NEAR, {SERVER(CHEAP_ROWS)}, .warmth = 1, .texts = 4},
    {"weak", "temperature 1, the draft as it is", {DEVICE}, NEAR, {SERVER(CHEAP_ROWS)},
     .warmth = 1, .texts = 4},
    {"far", "a network of 120 ms", {DEVICE, GOOD}, {.rtt_us = 120000, .jitter = 0.05},
     {SERVER(CHEAP_ROWS)}, .texts = 4},
    {"jitter", "a network of 40 ms that varies, and 1 % of messages lost", {DEVICE, GOOD},
     {.rtt_us = 40000, .jitter = 0.5, .lost = 0.01}, {SERVER(CHEAP_ROWS)}, .texts = 4},
    {"slow", "a draft forward of 25 ms", {.forward_us = 25000, .read_us = 200, GOOD}, NEAR,
     {SERVER(CHEAP_ROWS)}, .texts = 4},
    {"dear", "rows that cost a lot", {DEVICE, GOOD}, NEAR, {SERVER(DEAR_ROWS)}, .texts = 4},
    {"small", "a small target on a processor, a fast draft",
     {.forward_us = 400, .read_us = 10, GOOD},
     {.rtt_us = 1000, .jitter = 0.05}, {SERVER(SMALL)}, .texts = 4},
    {"wrong", "temperature 1, a draft that knows nothing in half of all places",
     {DEVICE, .wrong = 0.5}, NEAR, {SERVER(CHEAP_ROWS)}, .warmth = 1, .texts = 4},
    {"kinds", "text changes: of every second 60 tokens the draft knows little",
     {DEVICE, GOOD, .wrong = 0.8, .wrong_tok = 60}, NEAR, {SERVER(CHEAP_ROWS)}, .texts = 4},
    {"cold", "one text, cold caches", {DEVICE, GOOD, .cold = 6}, NEAR,
     {SERVER(CHEAP_ROWS), .cold = 6}, .texts = 1},
    {"turns", "one other session, whose passes alternate with this one's", {DEVICE, GOOD}, NEAR,
     {SERVER(CHEAP_ROWS)}, {.n = 1, .group = 1, .rows = 16, .think_us = 35000}, .texts = 4},
    {"crowd", "6 other sessions in the same passes, rows have a price", {DEVICE, GOOD}, NEAR,
     {SERVER(QWEN), .prices = true}, {.n = 6, .rows = 8, .think_us = 60000}, .texts = 4},
    {"tide", "passes 4 times as long in every second 3 s, and no hints", {DEVICE, GOOD}, NEAR,
     {.cost_us = CHEAP_ROWS, .noise = 0.05, .spikes = 0.002, .load = 4, .load_us = 3e6},
     .texts = 4},
    {"relay", "depth rule pipeline, one other session", {.forward_us = 11000, .read_us = 90, GOOD},
     {.rtt_us = 15000, .jitter = 0.05}, {SERVER(CHEAP_ROWS)},
     {.n = 1, .rows = 32, .think_us = 60000}, .depth_rule = FT_DEPTH_PIPELINE, .texts = 4},
    {"pipeline", "depth rule pipeline: drafting takes at least as long as a verification",
     {.forward_us = 11000, .read_us = 90, GOOD}, {.rtt_us = 15000, .jitter = 0.05},
     {SERVER(CHEAP_ROWS)}, .depth_rule = FT_DEPTH_PIPELINE, .texts = 4},
    {"ebb", "as tide, on a server where trees pay only while passes are slow", {DEVICE, GOOD},
     {.rtt_us = 40000, .jitter = 0.05},
     {.cost_us = FAST, .noise = 0.05, .spikes = 0.002, .load = 6, .load_us = 3e6}, .texts = 4},
    {"local", "one machine for draft and target", {.forward_us = 900, .read_us = 10}, HERE,
     {.cost_us = LOCAL, .noise = 0.05, .spikes = 0.01, .hints = true}, .alone = true, .texts = 4},
    {"even", "the same, a draft that hardly pays",
     {.forward_us = 2000, .read_us = 10, .wrong = 0.3}, HERE, {SERVER(LOCAL)}, .alone = true,
     .texts = 4},
    {"kink", "one machine with dear rows; passes of more than 4 take 1.5 times as long",
     {.forward_us = 900, .read_us = 10}, HERE,
     {SERVER(TWO_CORES), .kink_rows = 4, .kink = 1.5}, .alone = true, .texts = 4},
    {"disk", "a target whose weights are read in every pass, a cheap draft",
     {.forward_us = 3000, .read_us = 20}, HERE,
     {.cost_us = STREAMED, .noise = 0.15, .hints = true}, .alone = true, .texts = 4},
    {"agree", "the same, a draft that is dearer and mostly right",
     {.forward_us = 20000, .read_us = 200, .right = 0.85}, HERE,
     {.cost_us = STREAMED, .noise = 0.15, .hints = true}, .alone = true, .texts = 4},
};
const size_t ft_ablate_n_cases = FT_COUNT(ft_ablate_cases);

#define COSTS(us) .cost_us = (const double[FT_COST_FACTORS])us
/* What an edge does by default: it asks again for 10 s. The pool holds the texts that fit. */
#define ADMIT {FT_SIM_ADMISSION_MS, 10000}
#define POOL  {FT_SIM_KV_BLOCKS, 100000}

/* As many devices as make about one text in ten late, with the constants as they are. */
const ft_ablate_crowd ft_ablate_crowds[] = {
    {"sim slowest", "devices of the slowest class", .devices = 328},
    {"sim fastest", "devices of the fastest class", 86, .class = 3},
    {"sim mixed", "devices of all classes", 138, .class = FT_SIM_MIXED},
    {"sim prompts", "all classes, prompts of 4,000 tokens", 50, FT_SIM_MIXED,
     .change = {{FT_SIM_PROMPT_TOK, 4000}}},
    {"sim far", "all classes, a network of 150 ms that varies by 75", 90, FT_SIM_MIXED,
     .change = {{FT_SIM_RTT_MS, 150}, {FT_SIM_JITTER_MS, 75}}},
    {"sim short", "all classes, a third of the KV pool", 95, FT_SIM_MIXED,
     .change = {{FT_SIM_KV_BLOCKS, 6000}}},
    {"sim read", "all classes, weights are read in each pass, quick edges", 14, FT_SIM_MIXED,
     .change = {{FT_SIM_DRAFT_PER_S, 200}}, COSTS(READ)},
    {"sim read on", "all classes, weights are read in each pass, slow edges", 10, FT_SIM_MIXED,
     COSTS(READ)},
    {"asked twice", "all classes, twice the devices, admission", 276, FT_SIM_MIXED,
     .change = {ADMIT}},
    {"asked slowest", "the slowest class, 1.5 times the devices, admission", 492,
     .change = {ADMIT}},
    {"asked fastest", "the fastest class, 1.5 times the devices, admission", 129, .class = 3,
     .change = {ADMIT}},
    {"asked prompts", "all classes, prompts of 4,000 tokens, twice the devices, admission", 100,
     FT_SIM_MIXED, .change = {ADMIT, {FT_SIM_PROMPT_TOK, 4000}}},
    {"asked more", "all classes, by and by three times the devices, admission", 414, FT_SIM_MIXED,
     .change = {ADMIT}, .rises = true},
    {"asked cheap", "as asked twice, cheap rows", 500, FT_SIM_MIXED, .change = {ADMIT, POOL},
     COSTS(CHEAP_ROWS)},
    {"asked small", "as asked twice, a small target on a processor", 400, FT_SIM_MIXED,
     .change = {ADMIT, POOL}, COSTS(SMALL)},
    {"asked dear", "as asked twice, dear rows", 80, FT_SIM_MIXED, .change = {ADMIT, POOL},
     COSTS(DEAR_ROWS)},
    {"asked some", "all classes, as many devices as nearly fit, admission", 138, FT_SIM_MIXED,
     .change = {ADMIT}},
};
const size_t ft_ablate_n_crowds = FT_COUNT(ft_ablate_crowds);

#define FIT(...) ft_ablate_fit, &(const ft_ablate_fit_load) { __VA_ARGS__ }
#define FAIR(...) ft_ablate_fair, &(const ft_ablate_fair_load) { __VA_ARGS__ }
#define HEAD(...) ft_ablate_head, &(const ft_ablate_head_load) { __VA_ARGS__ }
#define TREES     .nodes = 32, .width = 3
#define CHAINS    .nodes = 12, .width = 1
#define OWN(...) ft_ablate_own, &(const ft_ablate_own_load) { __VA_ARGS__ }
#define CHAT     .prompt_tok = 200, .text_tok = 250
#define ON_ACCELERATOR \
    .cost_us = {[FT_COST_PASS] = 18000, [FT_COST_ROW] = 120, [FT_COST_CACHED_TOK] = 0.3}
#define ACCELERATOR ON_ACCELERATOR, .forward_us = 2000, .forward_row_us = 10
#define SLOW_DRAFT  ON_ACCELERATOR, .forward_us = 6000, .forward_row_us = 30
#define PROCESSOR                                                                          \
    .cost_us = {[FT_COST_PASS] = 45000, [FT_COST_ROW] = 2000, [FT_COST_CACHED_TOK] = 0.5}, \
    .forward_us = 2500, .forward_row_us = 100
const ft_ablate_part ft_ablate_parts[] = {
    {"fit rounds", "passes of rounds alone", "cost", "accuracy",
     FIT(.first = 200, .passes = 400, .sessions = 16)},
    {"fit start", "the first passes of a server", "cost", "accuracy",
     FIT(.first = 4, .passes = 60, .sessions = 8, .prompts = 0.3)},
    {"fit prompts", "chunks of prompts in every second pass", "cost", "accuracy",
     FIT(.first = 200, .passes = 400, .sessions = 16, .prompts = 0.5)},
    {"fit spikes", "one pass in 30 takes 4 times as long", "cost", "accuracy",
     FIT(.first = 200, .passes = 400, .sessions = 16, .prompts = 0.1, .spikes = 0.03)},
    {"fit load", "passes take twice as long in every second 400", "cost", "accuracy",
     FIT(.first = 400, .passes = 800, .sessions = 16, .prompts = 0.1, .slow_every = 400)},
    {"fit growth", "more sessions by and by", "cost", "accuracy",
     FIT(.first = 100, .passes = 1100, .sessions = 12, .prompts = 0.02, .grows = true)},
    {"fair dear", "tenants with 8, 16 and 48 sessions, dear rows", "fair", "least_share",
     FAIR({8, 16, 48}, COSTS(DEAR_ROWS), .max_rows = 512, .least_drafted = 8)},
    {"fair rows", "the same, cheap rows, and passes of 64 rows at most", "fair", "least_share",
     FAIR({8, 16, 48}, COSTS(CHEAP_ROWS), .max_rows = 64, .least_drafted = 1)},
    {"fair promised", "tenants with 16, 32 and 80 promises of 8 tokens/s", "fair", "least_share",
     FAIR({16, 32, 80}, COSTS(QWEN), .max_rows = 512, .least_drafted = 1, .tokens_per_s = 8)},
    {"fair pauses", "two tenants alike, one is away in every second 10 s, dear rows", "fair",
     "least_share",
     FAIR({40, 44}, COSTS(DEAR_ROWS), .max_rows = 512, .least_drafted = 8, .pause_us = 10000000)},
    {"fair comes", "as fair rows, the largest tenant is away in every second 50 s", "fair",
     "least_share",
     FAIR({48, 16, 8}, COSTS(CHEAP_ROWS), .max_rows = 64, .least_drafted = 1,
          .pause_us = 50000000)},
    {"fit busy", "times vary by 20 %, one pass in 10 takes 4 times as long", "cost", "accuracy",
     FIT(.first = 200, .passes = 400, .sessions = 16, .prompts = 0.1, .noise = 0.2, .spikes = 0.1)},
    {"fit quiet", "one session decodes in every second 3000 passes", "cost", "accuracy",
     FIT(.first = 6000, .passes = 60, .sessions = 16, .prompts = 0.3, .quiet_every = 3000)},
    {"fit primed", "the first passes of a server whose costs were measured before", "cost",
     "accuracy", FIT(.passes = 200, .sessions = 8, .prompts = 0.1, .primed = true)},
    {"fit budget", "chunks of prompts within 100 ms", "cost", "chunks",
     FIT(.first = 200, .passes = 400, .sessions = 8, .prompts = 0.3, .spikes = 0.01,
         .budget = true)},
    {"fit tide", "the same, passes take twice as long in every second 100", "cost", "chunks",
     FIT(.first = 200, .passes = 800, .sessions = 8, .prompts = 0.3, .slow_every = 100,
         .budget = true)},
    {"fit cold", "the same in the first passes of a server", "cost", "chunks",
     FIT(.passes = 100, .sessions = 4, .prompts = 0.5, .budget = true)},
    {"head cheap", "4 sessions, trees, rows of the head are cheap", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 300, .sessions = 4, TREES, .right = 0.65, .row = 0.03)},
    {"head dear", "4 sessions, trees, rows of the head are dear", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 300, .sessions = 4, TREES, .right = 0.65, .row = 0.5)},
    {"head alone", "one session, a chain", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 500, .sessions = 1, CHAINS, .right = 0.75, .row = 0.15)},
    {"head crowd", "up to 32 sessions, chains", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 200, .sessions = 32, CHAINS, .right = 0.65, .row = 0.15)},
    {"head poor", "drafts that know little, trees", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 400, .sessions = 4, TREES, .right = 0.3, .row = 0.15)},
    {"head good", "drafts that are nearly always right, chains", "heads", "tokens_per_s",
     HEAD(.first = 50, .passes = 400, .sessions = 4, CHAINS, .right = 0.92, .row = 0.15)},
    {"head cold", "the first 30 passes; the first run brings in the weights", "heads",
     "tokens_per_s",
     HEAD(.passes = 30, .sessions = 2, TREES, .right = 0.65, .row = 0.15, .cold = true)},
    {"head stalls", "one run in 50 is held up for up to 500 times its time", "heads",
     "tokens_per_s",
     HEAD(.first = 50, .passes = 400, .sessions = 4, TREES, .right = 0.65, .row = 0.1,
          .stalls = 0.02)},
    {"head load", "another program has the cores in every second 60 passes", "heads",
     "tokens_per_s",
     HEAD(.first = 60, .passes = 600, .sessions = 4, TREES, .right = 0.65, .row = 0.15,
          .slow_every = 60)},
    {"head kinds", "drafts are half as right in every second 60 passes", "heads", "tokens_per_s",
     HEAD(.first = 60, .passes = 600, .sessions = 4, TREES, .right = 0.8, .row = 0.15,
          .kinds_every = 60)},
    {"own one", "one session, an accelerator", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 1, CHAT, .right = 0.65, .s = 40)},
    {"own four", "4 sessions, an accelerator", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.65, .s = 40)},
    {"own crowd", "16 sessions, an accelerator", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 16, CHAT, .right = 0.65, .s = 40)},
    {"own cpu", "one session, a processor", "own", "tokens_per_s",
     OWN(PROCESSOR, .sessions = 1, CHAT, .right = 0.65, .s = 100)},
    {"own dear", "4 sessions, a processor", "own", "tokens_per_s",
     OWN(PROCESSOR, .sessions = 4, CHAT, .right = 0.65, .s = 100)},
    {"own poor", "a draft model that is slow and hardly ever right", "own", "tokens_per_s",
     OWN(SLOW_DRAFT, .sessions = 1, CHAT, .right = 0.15, .s = 60)},
    {"own weak", "4 sessions, a draft model that is hardly ever right", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.15, .s = 40)},
    {"own even", "a draft model whose drafts hardly pay", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.25, .s = 40)},
    {"own kinds", "every second text is hard to draft", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.8, .other = 0.25, .s = 40)},
    {"own drift", "all texts are hard to draft in every second 10 s", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.8, .other = 0.15, .other_us = 10e6,
         .s = 80)},
    {"own bold", "a draft model that is too sure of itself", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 8, CHAT, .right = 0.5, .bold = 2, .s = 40)},
    {"own shy", "a draft model that is not sure enough of itself", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 8, CHAT, .right = 0.6, .bold = 0.5, .s = 40)},
    {"own count", "another number of sessions every 3 s", "own", "tokens_per_s",
     OWN(PROCESSOR, .sessions = 16, .sessions_us = 3e6, CHAT, .right = 0.65, .s = 150)},
    {"own tide", "the draft model is 5 times as slow in every second 10 s", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.65, .slow = 5, .slow_us = 10e6,
         .slow_draft = true, .s = 80)},
    {"own load", "all is 3 times as slow in every second 5 s, and there are spikes", "own",
     "tokens_per_s",
     OWN(PROCESSOR, .sessions = 2, CHAT, .right = 0.65, .slow = 3, .slow_us = 5e6, .spikes = 0.01,
         .s = 100)},
    {"own kink", "passes of more than 4 rows take 1.5 times as long", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 4, CHAT, .right = 0.55, .kink = 1.5, .kink_rows = 4, .s = 40)},
    {"own row", "one session; passes of one row take two thirds of what others take", "own",
     "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 1, CHAT, .right = 0.3, .kink = 1.5, .kink_rows = 1, .s = 40)},
    {"own prompts", "long prompts, short answers", "own", "tokens_per_s",
     OWN(PROCESSOR, .sessions = 4, .prompt_tok = 800, .text_tok = 100, .right = 0.65, .s = 200)},
    {"own start", "the first seconds of a server", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 2, CHAT, .right = 0.65, .cold = true, .s = 4)},
    {"own edges", "8 other sessions whose edges draft", "own", "tokens_per_s",
     OWN(ACCELERATOR, .sessions = 2, CHAT, .right = 0.65, .edges = 8, .think_us = 60000, .s = 40)},
};
const size_t ft_ablate_n_parts = FT_COUNT(ft_ablate_parts);

const ft_ablate_mechanism ft_ablate_mechanisms[] = {
    {"spec", "growth", "calibration", "growth.weight_prior=1e9"},
    {"spec", "tries", "shadows", "tries.shadow_share=0"},
    {"spec", "tries", "probes", "tries.probe_share=0"},
    {"spec", "tries", "size of tries", "tries.probe_grow=1000"},
    {"spec", "trees", "short first tree", "trees.first_depth=64"},
    {"spec", "accept", "width gain", "accept.width_gain=0"},
    {"spec", "modes", "margin to enter", "modes.enter=1"},
    {"spec", "modes", "short first run", "modes.run_first=1000"},
    {"spec", "times", "rounds alone", "times.others=0"},
    {"spec", "times", "cold", "times.cold=1e9"},
    {"spec", "times", "slope learnt", "times.slope_doubt=0,times.slope_drift=0"},
    {"spec", "times", "slope drift", "times.slope_drift=0"},
    {"spec", "depth", "depth by value", "depth.yield=1e9"},
    {"sched", "cost", "outliers", "cost.huber=1e9"},
    {"sched", "cost", "fading", "cost.half_life=1e9"},
    {"sched", "cost", "oldest kept", "cost.faded=0"},
    {"sched", "await", "waiting", "await.least=1e9"},
    {"sched", "await", "scatter", "await.late=0"},
    {"sched", "heads", "walks learnt", "heads.learn=0"},
    {"sched", "promise", "lead", "promise.ahead=0,promise.ahead_sure=0,promise.ahead_more=0"},
    {"sched", "promise", "credit", "promise.credit=0"},
    {"sched", "admit", "load", "admit.load_most=1e9"},
    {"sched", "admit", "rounds behind", "admit.behind_most=1"},
    {"sched", "fair", "memory", "fair.fade=0"},
    {"sched", "fair", "fading", "fair.fade=1"},
    {"sched", "batch", "pass length", "batch.round_share=1e9"},
    {"sched", "batch", "given up", "batch.lost=1e9"},
    {"sched", "own", "choice", "own.verdicts=1e9"},
    {"sched", "own", "long passes cut", "own.off_most=1e9"},
    {"sched", "own", "tries", "own.try_share=1e-9"},
    {"sched", "own", "spare nodes", "own.spare_nodes=1000"},
};
const size_t ft_ablate_n_mechanisms = FT_COUNT(ft_ablate_mechanisms);
/* clang-format on */
