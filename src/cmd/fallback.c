// SPDX-License-Identifier: Apache-2.0
// The fallback target of an edge: memory plan, model, verifier. Its texts share passes, as on a
// server. The main thread owns it.
#include "cmd/fallback.h"

#include <inttypes.h>

#include "base/log.h"
#include "cmd/gen_flags.h"
#include "local/link.h"

#define DEFAULT_CTX 4096
/* Full texts that the pools of target and draft model hold by default, the target's without a
 * budget. */
#define CONTEXTS 4
/* Of gRPC and HTTP with what they have loaded, and of each answer: its text and tokens, buffers of
 * its connection, a stack. */
#define NETWORK_BYTES (24ull << 20)
#define ANSWER_BYTES  (256ull << 10)

#define VERIFIER(field) FT_FLAG(ft_fallback_flags, verifier.field)

static const ft_flag rows[] = {
    {"--fallback", NULL, FT_FLAG(ft_fallback_flags, path), "MODEL",
     "target (GGUF) in this process, for texts that no server takes (docs/OPERATIONS.md)",
     .model = true},
    {"--ctx-size", "-c", VERIFIER(max_context), "N",
     "--fallback: tokens of a text there at most; 0: 4096", 0, 1 << 24},
    {"--kv-tokens", NULL, VERIFIER(kv_tok), "N",
     "--fallback: tokens of all texts in its KV pool; 0: four texts of full length, one with "
     "--memory",
     0, 1 << 28},
    FT_FLAG_INCLUDE(ft_fallback_flags, memory, ft_flags_memory),
};
const ft_flag_group ft_flags_fallback = FT_FLAG_ROWS(rows);

ft_status ft_fallback_flags_check(const ft_fallback_flags *flags, ft_error *err)
{
    const char *of_it = flags->memory.size            ? "--memory"
                        : flags->memory.no_overlap    ? "--no-overlap"
                        : flags->verifier.max_context ? "--ctx-size"
                        : flags->verifier.kv_tok      ? "--kv-tokens"
                                                      : NULL;
    if (!flags->path && of_it)
        return ft_error_set(err, FT_INVALID,
                            "edge: %s is about the target of --fallback: pass that", of_it);
    return FT_OK;
}

/* Texts of the fallback target are the edge's own: as many as it has at most. */
static void fill_opts(ft_cmd_fallback *f, const ft_edge_opts *edge)
{
    ft_verifier_opts *v = &f->opts;
    *v = f->flags->verifier;
    if (v->max_context == 0)
        v->max_context = DEFAULT_CTX;
    if (v->kv_tok == 0 && !f->flags->memory.size)
        v->kv_tok = CONTEXTS * v->max_context;
    v->clock = ft_clock_monotonic();
    v->kv_type = edge->draft_kv_type;
    v->rules = ft_rules_all;
    v->max_sessions = edge->max_generations;
    v->n_threads = edge->n_threads;
}

ft_status ft_cmd_fallback_plan(ft_cmd_fallback *f, const ft_fallback_flags *flags,
                               const char *draft, const char *kernels, ft_edge_opts *edge,
                               ft_error *err)
{
    if (!flags->path)
        return FT_OK;
    f->flags = flags;
    f->device = (ft_device_opts){.kernels = kernels};
    fill_opts(f, edge);
    if (flags->memory.size && edge->draft_kv_tok == 0)
        edge->draft_kv_tok = CONTEXTS * f->opts.max_context;
    const ft_memory_need need = {
        .path = flags->path,
        .device = &f->device,
        .draft = {.path = edge->draft.budget > 0 ? draft : NULL,
                  .kv_type = edge->draft_kv_type,
                  .kv_tok = edge->draft_kv_tok,
                  .rows = FT_EDGE_DRAFT_ROWS,
                  .out = FT_DRAFT_LEAVES},
        .network_bytes = NETWORK_BYTES + ANSWER_BYTES * edge->max_generations,
    };
    return ft_cmd_memory_plan(&f->memory, &flags->memory, &need, &f->opts, err);
}

static ft_status load(ft_cmd_fallback *f, ft_error *err)
{
    const ft_cmd_model target = {f->flags->path, "loading the fallback target", &f->device,
                                 ft_pack_flags_open(f->pack)};
    if (f->memory.on)
        return ft_cmd_memory_load(&f->memory, err, &f->model, &f->vocab);
    return ft_cmd_load_model(&target, err, &f->model, &f->vocab);
}

ft_status ft_cmd_fallback_start(ft_cmd_fallback *f, ft_edge_opts *edge, ft_error *err)
{
    if (!f->flags)
        return FT_OK;
    ft_status status = load(f, err);
    if (status == FT_OK && ft_vocab_fingerprint(f->vocab) != ft_vocab_fingerprint(edge->vocab))
        status = ft_error_set(err, FT_PRECONDITION,
                              "edge: the vocabulary of --fallback (%d tokens) is not this edge's "
                              "(%d): pass a file of the same family",
                              ft_vocab_size(f->vocab), ft_vocab_size(edge->vocab));
    if (status != FT_OK)
        return status;
    f->opts.model = f->model;
    f->opts.vocab = f->vocab;
    f->opts.timeline = edge->timeline;
    status = ft_verifier_create(&f->opts, err, &f->verifier);
    if (status != FT_OK)
        return status;
    f->source = ft_local_link_source(f->verifier);
    f->source.name = "fallback";
    edge->fallback = &f->source;
    edge->turn = f->opts.turn;
    edge->fallback_verify =
        (ft_edge_pass){ft_verifier_pass_us(f->verifier), ft_verifier_row_us(f->verifier)};
    FT_LOGI("edge", "fallback ready file=%s pass_ms=%" PRId64, f->flags->path,
            ft_verifier_pass_us(f->verifier) / 1000);
    return FT_OK;
}

void ft_cmd_fallback_compare(const ft_cmd_fallback *f, const ft_msg_info *server)
{
    ft_msg_info here;
    if (!f->verifier)
        return;
    ft_verifier_info(f->verifier, &here);
    if (here.target != server->target || here.target == 0)
        FT_LOGW("edge",
                "fallback has another target: texts that go there change model=\"%s\" "
                "target=%016" PRIx64 " server=%016" PRIx64,
                here.model, here.target, server->target);
}

void ft_cmd_fallback_stop(ft_cmd_fallback *f)
{
    ft_verifier_destroy(f->verifier);
    ft_cmd_memory_close(&f->memory);
    ft_model_destroy(f->model);
    ft_vocab_destroy(f->vocab);
}
