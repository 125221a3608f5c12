// SPDX-License-Identifier: Apache-2.0
// From shared flags to the structs that the rooms take. No state.
#include "cmd/gen_flags.h"

#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/rng.h"

#define AUTO_BUDGET 32 /* nodes: SpecEdge's budget (section 5) */
#define AUTO_DEPTH  16 /* levels that the controller tells apart */
#define TREE_DEPTH  7  /* of a tree whose depth nobody says: SpecEdge's at a round trip of 15 ms */

/* ---- tables ---- */

static const ft_flag sampling_rows[] = {
    {"--temp", NULL, FT_FLAG(ft_sampling_flags, temp), "T", "temperature; 0: always the likeliest",
     0, 100},
    {"--top-k", NULL, FT_FLAG(ft_sampling_flags, top_k), "N", "the N likeliest tokens only; 0: all",
     0, 1e9},
    {"--top-p", NULL, FT_FLAG(ft_sampling_flags, top_p), "P",
     "the likeliest tokens that make up P only; 1: all", 0, 1},
    {"--min-p", NULL, FT_FLAG(ft_sampling_flags, min_p), "P",
     "tokens of at least P times the likeliest's probability only; 0: all", 0, 1},
    {"--seed", "-s", FT_FLAG(ft_sampling_flags, seed), "N", "of the draws; -1: a random one", -1,
     9e18},
};
const ft_flag_group ft_flags_sampling = FT_FLAG_ROWS(sampling_rows);

static const ft_flag draft_rows[] = {
    {"--spec-draft-n-max", NULL, FT_FLAG(ft_draft_flags, n_max), "N",
     "drafted tokens a round at most; 0: none", 0, FT_TREE_MAX},
    {"--draft-depth", NULL, FT_FLAG(ft_draft_flags, depth), "N",
     "draft passes a round at most; 0: as many as tokens", 0, FT_TREE_MAX},
    {"--draft-width", NULL, FT_FLAG(ft_draft_flags, width), "N",
     "leaves of the draft tree that one pass continues; 1: a chain", 1, FT_TREE_MAX},
    {"--no-speculation", NULL, FT_FLAG(ft_draft_flags, no_speculation), NULL, "never draft"},
};
const ft_flag_group ft_flags_draft = FT_FLAG_ROWS(draft_rows);

static const ft_flag edge_draft_rows[] = {
    {"--draft", NULL, FT_FLAG(ft_edge_draft_flags, draft), "HOW",
     "auto: what pays; N: chains of N; tree:BUDGET[:DEPTH]: trees of BUDGET nodes"},
    {"--depth", NULL, FT_FLAG(ft_edge_draft_flags, depth), "HOW",
     "draft passes a round: auto; pipeline: fill a verification's time; latency; N: at most N"},
    {"--draft-width", NULL, FT_FLAG(ft_edge_draft_flags, width), "N",
     "leaves of a draft tree that one pass continues", 1, 64},
    {"--spec-draft-n-max", NULL, FT_FLAG(ft_edge_draft_flags, n_max), "N",
     "drafted tokens a round at most; 0: none; -1: as --draft says, auto up to 32", -1,
     FT_TREE_MAX},
    {"--proactive-from", NULL, FT_FLAG(ft_edge_draft_flags, proactive_from), "WHERE",
     "proactive drafting begins likeliest: where the text likely goes on; leaf: at the best leaf"},
    {"--predictor", NULL, FT_FLAG(ft_edge_draft_flags, predictor), "FILE",
     "ends a draft where this predictor (train predictor) expects a rejection; none: it does not"},
    {"--proactive", NULL, FT_FLAG(ft_edge_draft_flags, proactive), NULL,
     "draft on while the target checks"},
    {"--no-speculation", NULL, FT_FLAG(ft_edge_draft_flags, no_speculation), NULL, "never draft"},
};
const ft_flag_group ft_flags_edge_draft = FT_FLAG_ROWS(edge_draft_rows);

static const ft_flag trace_rows[] = {
    {"--trace", NULL, FT_FLAG(ft_trace_flags, path), "FILE",
     "record drafts and verdicts (token ids and numbers, SQLite) for train predictor"},
    {"--trace-mb", NULL, FT_FLAG(ft_trace_flags, mb), "N",
     "size of that file at most; the oldest rounds make room", 1, 1 << 20},
};
const ft_flag_group ft_flags_trace = FT_FLAG_ROWS(trace_rows);

static const ft_flag device_rows[] = {
    {"--n-gpu-layers", "-ngl", FT_FLAG(ft_device_opts, n_gpu_layers), "N",
     "the last N layers on devices; more than there are, or -1: head too", -1, 1e6},
    {"--device", "-dev", FT_FLAG(ft_device_opts, names), "NAMES",
     "devices as in CUDA0,RPC1; none: the CPU (all GPUs; info --devices lists)"},
    {"--rpc", NULL, FT_FLAG(ft_device_opts, rpc), "SERVERS",
     "rpc-servers HOST:PORT,...: devices RPC0, ... (unencrypted: trusted networks)"},
    {"--kernels", NULL, FT_FLAG(ft_device_opts, kernels), "WHOSE",
     "products on the CPU: auto, packed (our own) or ggml; they differ in last bits"},
};
const ft_flag_group ft_flags_device = FT_FLAG_ROWS(device_rows);

static const ft_flag draft_device_rows[] = {
    {"--n-gpu-layers-draft", "-ngld", FT_FLAG(ft_device_opts, n_gpu_layers), "N",
     "-ngl of the draft", -1, 1e6},
    {"--device-draft", "-devd", FT_FLAG(ft_device_opts, names), "NAMES", "--device of the draft"},
};
const ft_flag_group ft_flags_draft_device = FT_FLAG_ROWS(draft_device_rows);

static const ft_flag static_rows[] = {
    {"--static-batch", NULL, FT_FLAG(ft_static_flags, batch), "N",
     "of policy static: verifications of a pass", 1, 1 << 16},
    {"--static-wait-ms", NULL, FT_FLAG(ft_static_flags, wait_ms), "MS",
     "of policy static: how long the first waits for the others", 0.001, 60000},
};
const ft_flag_group ft_flags_static = FT_FLAG_ROWS(static_rows);

/* ---- what they say ---- */

ft_status ft_sampling_from_flags(ft_sampling_flags *flags, ft_error *err, ft_sampling *out)
{
    uint32_t seed;
    if (flags->seed < 0) {
        if (ft_random_bytes(&seed, sizeof seed) != FT_OK)
            return ft_error_set(err, FT_IO, "the kernel has no random bytes: pass --seed");
        flags->seed = seed;
    }
    *out = (ft_sampling){.temperature = (float)flags->temp,
                         .top_k = (int32_t)flags->top_k,
                         .top_p = (float)flags->top_p,
                         .min_p = (float)flags->min_p,
                         .seed = (uint64_t)flags->seed};
    return ft_sampling_check(out, err);
}

ft_draft_params ft_draft_from_flags(const ft_draft_flags *flags)
{
    uint32_t n = flags->no_speculation ? 0 : (uint32_t)flags->n_max;
    uint32_t depth = flags->depth ? (uint32_t)flags->depth : n;
    ft_draft_params chain = ft_draft_params_chain(n);
    if (flags->width > 1)
        return ft_draft_params_tree(n, depth, (uint32_t)flags->width);
    if (chain.depth > depth)
        chain.depth = depth;
    return chain;
}

/* ---- how an edge drafts ---- */

/* A number from 1 to FT_TREE_MAX up to `end`; 0: it is none. */
static uint32_t number(const char *text, const char *end)
{
    char *stop = NULL;
    if (*text < '0' || *text > '9')
        return 0;
    unsigned long n = strtoul(text, &stop, 10);
    return stop == end && n <= FT_TREE_MAX ? (uint32_t)n : 0;
}

/* "tree:BUDGET[:DEPTH]"; budget 0: it is not that. */
static ft_draft_params parse_tree(const char *text, uint32_t width)
{
    const char *budget = text + strlen("tree:"), *end = text + strlen(text);
    const char *colon = strchr(budget, ':');
    uint32_t n = number(budget, colon ? colon : end);
    uint32_t depth = colon ? number(colon + 1, end) : TREE_DEPTH;
    return ft_draft_params_tree(depth ? n : 0, depth < n ? depth : n, width);
}

static ft_status parse_draft(const ft_edge_draft_flags *f, ft_error *err, ft_edge_opts *out)
{
    const char *how = f->draft;
    out->automatic = strcmp(how, "auto") == 0;
    if (out->automatic)
        out->draft = ft_draft_params_tree(AUTO_BUDGET, AUTO_DEPTH, (uint32_t)f->width);
    else if (strncmp(how, "tree:", 5) == 0)
        out->draft = parse_tree(how, (uint32_t)f->width);
    else
        out->draft = ft_draft_params_chain(number(how, how + strlen(how)));
    if (out->draft.budget > 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "--draft %s: pass auto, a number of tokens or tree:BUDGET[:DEPTH], numbers "
                        "from 1 to %d (none: --no-speculation)",
                        how, FT_TREE_MAX);
}

static ft_status parse_depth(const ft_edge_draft_flags *f, ft_error *err, ft_edge_opts *out)
{
    const char *how = f->depth;
    uint32_t n = number(how, how + strlen(how));
    if (n > 0) {
        out->draft.depth = n < out->draft.depth || out->automatic ? n : out->draft.depth;
        return FT_OK;
    }
    if (strcmp(how, "pipeline") == 0)
        out->depth_rule = FT_DEPTH_PIPELINE;
    else if (strcmp(how, "latency") == 0)
        out->depth_rule = FT_DEPTH_LATENCY;
    else if (strcmp(how, "auto") == 0)
        out->depth_rule = FT_DEPTH_AUTO;
    else
        return ft_error_set(err, FT_INVALID,
                            "--depth %s: pass auto, pipeline, latency or a number from 1 to %d",
                            how, FT_TREE_MAX);
    if (!out->automatic && out->depth_rule == FT_DEPTH_PIPELINE)
        return ft_error_set(err, FT_INVALID,
                            "--depth %s decides anew each round: it goes with --draft auto", how);
    return FT_OK;
}

ft_status ft_cmd_proactive_from(const char *name, ft_error *err, ft_ahead *out)
{
    *out = strcmp(name, "leaf") == 0 ? FT_AHEAD_HEAD : FT_AHEAD_LIKELIEST;
    if (*out == FT_AHEAD_HEAD || strcmp(name, "likeliest") == 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "--proactive-from %s: pass likeliest or leaf", name);
}

ft_status ft_cmd_predictor(const char *name, ft_error *err, ft_predictor *store,
                           ft_draft_params *out)
{
    *store = (ft_predictor){0};
    out->predictor = NULL;
    if (strcmp(name, "none") == 0)
        return FT_OK;
    ft_status status = ft_predictor_load(name, err, store);
    if (status == FT_OK)
        out->predictor = store;
    return status;
}

ft_status ft_edge_draft_from_flags(const ft_edge_draft_flags *flags, ft_error *err,
                                   ft_edge_opts *out)
{
    ft_status status = parse_draft(flags, err, out);
    if (status == FT_OK)
        status = parse_depth(flags, err, out);
    if (status == FT_OK)
        status = ft_cmd_proactive_from(flags->proactive_from, err, &out->draft.ahead);
    if (status != FT_OK)
        return status;
    if (flags->n_max > 0 && (out->automatic || flags->n_max < out->draft.budget))
        out->draft.budget = (uint32_t)flags->n_max;
    if (flags->n_max == 0 || flags->no_speculation)
        out->draft.budget = 0;
    if (out->draft.depth > out->draft.budget)
        out->draft.depth = out->draft.budget;
    out->proactive = out->early = flags->proactive;
    return FT_OK;
}

ft_status ft_cmd_load_model(const char *path, const char *label, const ft_device_opts *device,
                            ft_error *err, ft_model **out)
{
    const ft_model_opts opts = {.path = path, .progress = ft_progress_terminal(label)};
    return ft_model_load_on(device, &opts, err, out);
}

ft_status ft_trace_from_flags(const ft_trace_flags *flags, ft_error *err, ft_trace **out)
{
    const ft_trace_opts opts = {.path = flags->path, .max_bytes = (uint64_t)flags->mb << 20};
    *out = NULL;
    return flags->path ? ft_trace_open(&opts, err, out) : FT_OK;
}
