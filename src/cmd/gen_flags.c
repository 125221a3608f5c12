// SPDX-License-Identifier: Apache-2.0
// The shared tables, and what their flags mean to other rooms. No state.
#include "cmd/gen_flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "cmd/models.h"
#include "hub/cache.h"

#define AUTO_BUDGET 32 /* nodes: SpecEdge's budget (section 5) */
#define AUTO_DEPTH  16 /* levels that the controller tells apart; lookups have no limit */
#define TREE_DEPTH  7  /* of a tree whose depth is not given: SpecEdge's at a round trip of 15 ms */

/* ---- tables ---- */

const char *const ft_kv_choices[] = {
    [FT_KV_F16] = "f16", [FT_KV_BF16] = "bf16", [FT_KV_Q8_0] = "q8_0", NULL};
const char *const ft_proactive_from_choices[] = {
    [FT_PROACTIVE_LIKELIEST] = "likeliest", [FT_PROACTIVE_LEAF] = "leaf", NULL};

const char *const ft_draft_by_choices[] = {[FT_DRAFT_BY_AUTO] = "auto",
                                           [FT_DRAFT_BY_MODEL] = "model",
                                           [FT_DRAFT_BY_LOOKUP] = "lookup",
                                           [FT_DRAFT_BY_BOTH] = "both",
                                           NULL};

static const ft_flag sampling_rows[] = {
    {"--temp", NULL, FT_FLAG(ft_sampling_flags, values.temperature), "T",
     "temperature; 0: always the most probable token", 0, 100},
    {"--top-k", NULL, FT_FLAG(ft_sampling_flags, values.top_k), "N",
     "draw from the N most probable tokens only; 0: from all", 0, 1e9},
    {"--top-p", NULL, FT_FLAG(ft_sampling_flags, values.top_p), "P",
     "draw from the most probable tokens whose sum reaches P only; 1: from all", 0, 1},
    {"--min-p", NULL, FT_FLAG(ft_sampling_flags, values.min_p), "P",
     "draw from tokens of at least P times the highest probability only; 0: from all", 0, 1},
    {"--seed", "-s", FT_FLAG(ft_sampling_flags, seed), "N", "seed of the draws; -1: a random one",
     -1, 9e18},
};
const ft_flag_group ft_flags_sampling = FT_FLAG_ROWS(sampling_rows);

static const ft_flag wire_rows[] = {
    {"--token", NULL, FT_FLAG(ft_wire_client_opts, token), "SECRET", "bearer token for the server"},
    {"--tls", NULL, FT_FLAG(ft_wire_client_opts, tls), NULL,
     "encrypt the connection to the server"},
    {"--tls-ca", NULL, FT_FLAG(ft_wire_client_opts, tls_ca), "FILE",
     "CA certificates (PEM) to check the server's certificate with; default: the system's"},
    {"--tls-cert", NULL, FT_FLAG(ft_wire_client_opts, tls_cert), "FILE",
     "own certificate (PEM, mutual TLS)"},
    {"--tls-key", NULL, FT_FLAG(ft_wire_client_opts, tls_key), "FILE", "its private key (PEM)"},
    {"--tls-name", NULL, FT_FLAG(ft_wire_client_opts, tls_name), "NAME",
     "name in the server's certificate, if it is not the host's"},
};
const ft_flag_group ft_flags_wire = FT_FLAG_ROWS(wire_rows);

static const ft_flag edge_rows[] = {
    {"--draft", NULL, FT_FLAG(ft_edge_flags, draft), "HOW",
     "auto: what pays; N: chains of N; tree:BUDGET[:DEPTH]: trees of BUDGET nodes"},
    {"--draft-source", NULL, FT_FLAG_ENUM(ft_edge_flags, opts.draft_by, ft_draft_by_choices),
     "WHAT",
     "what drafts: the draft model; lookups: what followed earlier in the text, without a model; "
     "both; or auto: the model, and lookups beside it where a request has a prediction"},
    {"--depth", NULL, FT_FLAG(ft_edge_flags, depth), "HOW",
     "draft passes a round: auto; pipeline: fill a verification's time, or what pays more; "
     "latency; fallback: while the draft is sure; N: at most N"},
    {"--alpha", NULL, FT_FLAG(ft_edge_flags, opts.alpha), "P",
     "--depth fallback: a draft is sent once its likeliest branch is less likely than P; 0: "
     "learnt, from 0.01",
     0, FT_FALLBACK_MOST},
    {"--draft-width", NULL, FT_FLAG(ft_edge_flags, width), "N",
     "leaves of a draft tree that one pass continues", 1, 64},
    {"--grow", NULL, FT_FLAG(ft_edge_flags, grow), "HOW",
     "how trees grow: best: likeliest first; pacer: likely branches get long; fixed[:C,C,...]: "
     "each node of a level has C children"},
    {"--spec-draft-n-max", NULL, FT_FLAG(ft_edge_flags, n_max), "N",
     "drafted tokens a round at most; 0: none; -1: as --draft says, auto up to 32", -1,
     FT_TREE_MAX},
    {"--proactive-from", NULL,
     FT_FLAG_ENUM(ft_edge_flags, proactive_from, ft_proactive_from_choices), "WHERE",
     "proactive drafting begins where the text likeliest goes on, or at the tree's best leaf"},
    {"--predictor", NULL, FT_FLAG(ft_edge_flags, predictor), "FILE",
     "end a draft where this predictor (train predictor) expects a rejection; none: do not; auto: "
     "with --draft auto, one of this draft model beside its file, where that is measured to pay"},
    {"--proactive", NULL, FT_FLAG_ON_OFF(ft_edge_flags, proactive), NULL,
     "go on drafting while the target checks; by default edge does so, and run with --memory if "
     "drafts take a good part of a round"},
    {"--no-speculation", NULL, FT_FLAG(ft_edge_flags, no_speculation), NULL, "never draft"},
    {"--no-memory", NULL, FT_FLAG(ft_edge_flags, no_memory), NULL,
     "begin without what earlier runs have learnt (when drafts pay, how long passes take), and "
     "keep nothing for later ones"},
    {"--trace", NULL, FT_FLAG(ft_edge_flags, trace_path), "FILE",
     "record drafts and verdicts (token ids and numbers, SQLite) for train predictor"},
    {"--trace-mb", NULL, FT_FLAG(ft_edge_flags, trace_mb), "N",
     "size of that file at most, MB; the oldest rounds are deleted first", 1, 1 << 20},
    {"--timeline", NULL, FT_FLAG(ft_edge_flags, timeline.path), "FILE",
     "write what each round did when, for ui.perfetto.dev (docs/OPERATIONS.md)"},
    {"--timeline-mb", NULL, FT_FLAG(ft_edge_flags, timeline.mb), "N",
     "size of that file at most; then it ends", 1, 1 << 20},
};
const ft_flag_group ft_flags_edge = FT_FLAG_ROWS(edge_rows);

static const ft_flag device_rows[] = {
    {"--n-gpu-layers", "-ngl", FT_FLAG(ft_device_opts, n_gpu_layers), "N",
     "put the last N layers on devices; -1 or more than there are: all, and the output head", -1,
     1e6},
    {"--device", "-dev", FT_FLAG(ft_device_opts, names), "NAMES",
     "devices for layers, as in CUDA0,RPC1; none: the CPU; default: all GPUs (info --devices)"},
    {"--rpc", NULL, FT_FLAG(ft_device_opts, rpc), "SERVERS",
     "HOST:PORT,... of rpc-servers, devices RPC0, ... (unencrypted: trusted networks only)"},
    {"--kernels", NULL, FT_FLAG(ft_device_opts, kernels), "WHOSE",
     "matrix products on the CPU: auto, packed (our own) or ggml; they differ in last bits"},
};
const ft_flag_group ft_flags_device = FT_FLAG_ROWS(device_rows);

static const ft_flag draft_device_rows[] = {
    {"--n-gpu-layers-draft", "-ngld", FT_FLAG(ft_device_opts, n_gpu_layers), "N",
     "--n-gpu-layers of the draft model", -1, 1e6},
    {"--device-draft", "-devd", FT_FLAG(ft_device_opts, names), "NAMES",
     "--device of the draft model"},
};
const ft_flag_group ft_flags_draft_device = FT_FLAG_ROWS(draft_device_rows);

static const ft_flag static_rows[] = {
    {"--static-batch", NULL, FT_FLAG(ft_static_flags, batch), "N",
     "policy static: verifications of a pass", 1, 1 << 16},
    {"--static-wait-ms", NULL, FT_FLAG(ft_static_flags, wait_ms), "MS",
     "policy static: how long the first verification waits for others", 0.001, 60000},
};
const ft_flag_group ft_flags_static = FT_FLAG_ROWS(static_rows);

/* ---- what they say ---- */

ft_status ft_sampling_flags_check(ft_sampling_flags *flags, ft_error *err)
{
    uint32_t seed;
    if (flags->seed >= 0)
        flags->values.seed = (uint64_t)flags->seed;
    else if (ft_random_bytes(&seed, sizeof seed) == FT_OK)
        flags->values.seed = seed;
    else
        return ft_error_set(err, FT_IO, "the kernel has no random bytes: pass --seed");
    return ft_sampling_check(&flags->values, err);
}

/* ---- how an edge drafts ---- */

/* The number from 1 to FT_TREE_MAX that ends at `end`; 0: there is none. */
static uint32_t number(const char *text, const char *end)
{
    char *stop = NULL;
    if (*text < '0' || *text > '9')
        return 0;
    unsigned long n = strtoul(text, &stop, 10);
    return stop == end && n <= FT_TREE_MAX ? (uint32_t)n : 0;
}

/* "tree:BUDGET[:DEPTH]"; budget 0: the text is not of that form. */
static ft_draft_params parse_tree(const char *text, uint32_t width)
{
    const char *budget = text + strlen("tree:"), *end = text + strlen(text);
    const char *colon = strchr(budget, ':');
    uint32_t n = number(budget, colon ? colon : end);
    uint32_t depth = colon ? number(colon + 1, end) : TREE_DEPTH;
    return ft_draft_params_tree(depth ? n : 0, depth < n ? depth : n, width);
}

static ft_status parse_draft(ft_edge_flags *f, ft_error *err)
{
    const char *how = f->draft;
    ft_edge_opts *out = &f->opts;
    out->automatic = strcmp(how, "auto") == 0;
    if (out->automatic)
        out->draft = ft_draft_params_tree(
            f->auto_budget ? f->auto_budget : AUTO_BUDGET,
            out->draft_by == FT_DRAFT_BY_LOOKUP ? FT_TREE_MAX : AUTO_DEPTH, f->width);
    else if (strncmp(how, "tree:", 5) == 0)
        out->draft = parse_tree(how, f->width);
    else
        out->draft = ft_draft_params_chain(number(how, how + strlen(how)));
    out->draft.proactive = f->proactive_from;
    if (out->draft.budget > 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "--draft %s: pass auto, a number of tokens or tree:BUDGET[:DEPTH], numbers "
                        "from 1 to %d (none: --no-speculation)",
                        how, FT_TREE_MAX);
}

static ft_status parse_depth(ft_edge_flags *f, ft_error *err)
{
    const char *how = f->depth;
    ft_edge_opts *out = &f->opts;
    uint32_t n = number(how, how + strlen(how));
    if (n > 0) {
        out->draft.depth = n < out->draft.depth || out->automatic ? n : out->draft.depth;
        return FT_OK;
    }
    if (strcmp(how, "pipeline") == 0)
        out->depth_rule = FT_DEPTH_PIPELINE;
    else if (strcmp(how, "latency") == 0)
        out->depth_rule = FT_DEPTH_LATENCY;
    else if (strcmp(how, "fallback") == 0)
        out->depth_rule = FT_DEPTH_FALLBACK;
    else if (strcmp(how, "auto") == 0)
        out->depth_rule = FT_DEPTH_AUTO;
    else
        return ft_error_set(err, FT_INVALID,
                            "--depth %s: pass auto, pipeline, latency, fallback or a number from 1 "
                            "to %d",
                            how, FT_TREE_MAX);
    out->draft.weigh_rows = !out->automatic && out->depth_rule == FT_DEPTH_LATENCY;
    if (!out->automatic && out->depth_rule == FT_DEPTH_PIPELINE)
        return ft_error_set(err, FT_INVALID,
                            "--depth %s decides anew each round: it goes with --draft auto", how);
    return FT_OK;
}

/* SpecInfer's widths (expansion configuration): a chain of two, then three chains. */
static const char *const fixed_default = "1,1,3,1,1,1,1,1";

/* "C,C,...", at most FT_GROW_LEVELS of 1 to FT_DRAFT_RANKED; false: the text is not of that
 * form. */
static bool parse_children(const char *text, ft_draft_params *draft)
{
    for (uint32_t level = 0; level < FT_GROW_LEVELS; level++) {
        const char *comma = strchr(text, ',');
        const uint32_t n = number(text, comma ? comma : text + strlen(text));
        if (n == 0 || n > FT_DRAFT_RANKED)
            return false;
        draft->children[level] = (uint8_t)n;
        draft->branch = n > draft->branch ? n : draft->branch;
        if (!comma)
            return true;
        text = comma + 1;
    }
    return false;
}

static ft_status parse_grow(ft_edge_flags *f, ft_error *err)
{
    ft_draft_params *draft = &f->opts.draft;
    const bool chains = draft->branch == 1;
    const char *how = f->grow;
    bool known = true;
    if (strcmp(how, "pacer") == 0)
        draft->grow = FT_GROW_PACER;
    else if (strncmp(how, "fixed", 5) == 0 && (how[5] == ':' || how[5] == '\0'))
        draft->grow = FT_GROW_FIXED;
    else
        known = strcmp(how, "best") == 0;
    if (draft->grow == FT_GROW_FIXED)
        known = parse_children(how[5] ? how + 6 : fixed_default, draft);
    if (!known)
        return ft_error_set(err, FT_INVALID,
                            "--grow %s: pass best, pacer, fixed or fixed:C,C,..., at most %d "
                            "numbers from 1 to %d",
                            how, FT_GROW_LEVELS, FT_DRAFT_RANKED);
    if (draft->grow == FT_GROW_BEST || !chains)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "--grow %s is about trees, and --draft %s drafts chains: pass --draft auto "
                        "or tree:BUDGET[:DEPTH]",
                        how, f->draft);
}

static ft_status check_alpha(const ft_edge_flags *f, ft_error *err)
{
    const float alpha = f->opts.alpha;
    if (alpha != 0 && f->opts.depth_rule != FT_DEPTH_FALLBACK)
        return ft_error_set(err, FT_INVALID, "--alpha is about --depth fallback: pass that, too");
    if (alpha == 0 || alpha >= FT_FALLBACK_LEAST)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "--alpha %g: pass %g to %g, or 0: it is learnt",
                        (double)alpha, (double)FT_FALLBACK_LEAST, (double)FT_FALLBACK_MOST);
}

ft_status ft_edge_flags_check_source(const ft_edge_flags *flags, const char *command,
                                     const char *model, ft_error *err)
{
    const ft_edge_opts *o = &flags->opts;
    const char *name = ft_draft_by_choices[o->draft_by];
    const bool lookups = o->draft_by == FT_DRAFT_BY_LOOKUP || o->draft_by == FT_DRAFT_BY_BOTH;
    if (!model && (o->draft_by == FT_DRAFT_BY_MODEL || o->draft_by == FT_DRAFT_BY_BOTH))
        return ft_error_set(
            err, FT_INVALID,
            "%s: --draft-source %s needs a draft model: pass -md, or --draft-source "
            "lookup",
            command, name);
    const bool named =
        strcmp(flags->predictor, "none") != 0 && strcmp(flags->predictor, "auto") != 0;
    if (lookups && (flags->trace_path || named))
        return ft_error_set(err, FT_INVALID,
                            "%s: %s is about the draft model's own drafts: it goes with "
                            "--draft-source model or auto",
                            command, flags->trace_path ? "--trace" : "--predictor");
    if (!lookups || !o->rule || o->rule == &ft_rule_exact)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "%s: --draft-source %s goes with --rule exact: lookups have no points for "
                        "rule %s",
                        command, name, o->rule->name);
}

ft_status ft_edge_flags_check(ft_edge_flags *flags, ft_error *err)
{
    ft_draft_params *draft = &flags->opts.draft;
    ft_status status = parse_draft(flags, err);
    if (status == FT_OK)
        status = parse_grow(flags, err);
    if (status == FT_OK)
        status = parse_depth(flags, err);
    if (status == FT_OK)
        status = check_alpha(flags, err);
    if (status != FT_OK)
        return status;
    if (flags->n_max > 0 && (flags->opts.automatic || flags->n_max < draft->budget))
        draft->budget = (uint32_t)flags->n_max;
    if (flags->n_max == 0 || flags->no_speculation)
        draft->budget = 0;
    draft->depth = ft_min_u32(draft->depth, draft->budget);
    flags->opts.proactive = flags->proactive == FT_SWITCH_ON ||
                            (flags->proactive == FT_SWITCH_NONE && flags->proactive_else);
    flags->opts.proactive_if_long = flags->proactive == FT_SWITCH_NONE;
    flags->opts.early = flags->opts.proactive;
    return FT_OK;
}

ft_status ft_cmd_predictor(const char *name, ft_error *err, ft_predictor *store,
                           const ft_predictor **out)
{
    *store = (ft_predictor){0};
    *out = NULL;
    if (strcmp(name, "none") == 0)
        return FT_OK;
    ft_status status = ft_predictor_load(name, err, store);
    if (status == FT_OK)
        *out = store;
    return status;
}

ft_status ft_edge_flags_open(ft_edge_flags *f, ft_error *err)
{
    const ft_trace_opts trace = {.path = f->trace_path, .max_bytes = (uint64_t)f->trace_mb << 20};
    f->opts.predictor_if_pays = strcmp(f->predictor, "auto") == 0;
    ft_status status = FT_OK;
    if (!f->opts.predictor_if_pays)
        status = ft_cmd_predictor(f->predictor, err, &f->store, &f->opts.draft.predictor);
    if (status == FT_OK && trace.path)
        status = ft_trace_open(&trace, err, &f->opts.trace);
    if (status == FT_OK)
        status = ft_timeline_flags_open(&f->timeline, "edge", err, &f->opts.timeline);
    return status;
}

ft_status ft_edge_flags_find(ft_edge_flags *f, const char *file, const ft_model *model,
                             ft_error *err)
{
    const ft_draft_by by = f->opts.draft_by;
    char *path = NULL;
    if (!f->opts.predictor_if_pays || !f->opts.automatic || !model || f->trace_path ||
        by == FT_DRAFT_BY_LOOKUP || by == FT_DRAFT_BY_BOTH)
        return FT_OK;
    ft_status status = ft_predictor_find(file, ft_model_fingerprint(model), err, &f->store, &path);
    if (path) {
        f->opts.draft.predictor = &f->store;
        FT_LOGI("edge", "predictor=measured file=%s", path);
    }
    free(path);
    return status;
}

ft_status ft_timeline_flags_open(const ft_timeline_flags *flags, const char *process, ft_error *err,
                                 ft_timeline **out)
{
    const ft_timeline_opts opts = {
        .path = flags->path, .process = process, .max_bytes = (uint64_t)flags->mb << 20};
    *out = NULL;
    return flags->path ? ft_timeline_open(&opts, err, out) : FT_OK;
}

void ft_edge_flags_keep(ft_edge_flags *flags, const char *of)
{
    const ft_hub_opts hub = ft_models_opts();
    ft_error err = {0};
    if (flags->no_memory)
        return;
    ft_status status = ft_hub_learnt_folder(&hub.env, &err, &flags->kept_folder);
    if (status == FT_OK)
        status = ft_cache_make_folder(flags->kept_folder, &err);
    if (status != FT_OK) {
        FT_LOGW("edge", "what is learnt is not kept why=\"%s\"", err.message);
        return;
    }
    const char *form = "%s cpu %016" PRIx64;
    const uint64_t cpu = ft_cpu_fingerprint();
    const size_t room = (size_t)snprintf(NULL, 0, form, of, cpu) + 1;
    flags->kept_of = malloc(room);
    if (flags->kept_of)
        snprintf(flags->kept_of, room, form, of, cpu);
    flags->opts.kept.folder = flags->kept_of ? flags->kept_folder : NULL;
    flags->opts.kept.of = flags->kept_of;
}

void ft_edge_flags_close(ft_edge_flags *flags)
{
    free(flags->kept_folder);
    free(flags->kept_of);
    ft_trace_close(flags->opts.trace);
    ft_timeline_close(flags->opts.timeline);
    ft_predictor_deinit(&flags->store);
}

const char *ft_cmd_device_name(const ft_device_opts *device, char out[128])
{
    snprintf(out, 128, "%.100s %" PRId64, device->names ? device->names : "", device->n_gpu_layers);
    return out;
}

ft_status ft_cmd_load_model(const ft_cmd_model *model, ft_error *err, ft_model **out,
                            ft_vocab **vocab)
{
    const ft_progress silent = {0};
    const ft_model_opts opts = {.path = model->path,
                                .progress =
                                    model->label ? ft_progress_terminal(model->label) : silent,
                                .cache = model->cache,
                                .vocab = vocab};
    return ft_model_load_on(model->device, &opts, err, out);
}
