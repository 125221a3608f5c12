// SPDX-License-Identifier: Apache-2.0
// The draft model's side of one generation. Drafting only makes a text cheaper: whatever goes wrong
// here ends drafting, for now or for good, and never the generation.
//
//   start -> ON --context full, error--> OFF
//             | pool full                          every engine call is one turn at the engine
//             v
//           LATER --retry, room again--> ON
//
// Owned by the generation's thread; the drafter's sequence belongs to the engine, so it is created,
// used and destroyed under the engine lock only.
#include "base/log.h"
#include "edge/edge_internal.h"

#define PREFILL_CHUNK    128 /* tokens a turn: some 10 ms, so that others and a cancel get their say */
#define RETRY_ROUNDS     16 /* rounds until the first new try; doubles each time */
#define RETRY_ROUNDS_TOP 256
#define ROOM_TOK         64 /* free tokens in the pool besides the text's, for trees to come */

void ft_gen_draft_stop(ft_gen *gen)
{
    if (gen->drafter) {
        ft_edge_engine_lock(gen->edge);
        ft_drafter_destroy(gen->drafter);
        ft_edge_engine_unlock(gen->edge);
    }
    gen->drafter = NULL;
    gen->drafting = FT_DRAFTING_OFF;
    gen->tree.n = 0;
}

/* What a failed drafter call means: a full pool is tried again later, the rest is given up. */
static void give_up(ft_gen *gen, const ft_error *err)
{
    ft_gen_draft_stop(gen);
    if (err->code == FT_EXHAUSTED) {
        gen->drafting = FT_DRAFTING_LATER;
        gen->retry_step = gen->retry_step ? gen->retry_step * 2 : RETRY_ROUNDS;
        if (gen->retry_step > RETRY_ROUNDS_TOP)
            gen->retry_step = RETRY_ROUNDS_TOP;
        gen->retry_round = gen->stats->rounds + gen->retry_step;
    } else {
        FT_LOGW("edge", "drafting stopped, decoding goes on without: %s", err->message);
    }
}

static bool has_room(ft_edge *edge, size_t n_tok)
{
    ft_engine_stats stats;
    ft_edge_engine_lock(edge);
    ft_engine_get_stats(edge->engine, &stats);
    ft_edge_engine_unlock(edge);
    return (uint64_t)stats.blocks_free * FT_KV_BLOCK_TOK >= n_tok + ROOM_TOK;
}

static ft_status begin(ft_gen *gen, ft_error *err)
{
    ft_status status;
    ft_edge_engine_lock(gen->edge);
    status = ft_drafter_create(gen->edge->engine, &gen->request->sampling, err, &gen->drafter);
    if (status == FT_OK)
        status = ft_drafter_reset(gen->drafter, gen->text.id, (uint32_t)gen->text.n, err);
    ft_edge_engine_unlock(gen->edge);
    return status;
}

/* FT_CANCELLED: by the sink. */
static ft_status prefill(ft_gen *gen, ft_error *err)
{
    const uint64_t total = gen->text.n;
    uint32_t left = 1;
    while (left > 0) {
        if (ft_gen_cancelled(gen))
            return FT_CANCELLED;
        ft_edge_engine_lock(gen->edge);
        ft_status status = ft_drafter_prefill(gen->drafter, PREFILL_CHUNK, err, &left);
        ft_edge_engine_unlock(gen->edge);
        if (status != FT_OK)
            return status;
        if (gen->stats->rounds == 0) /* the last token's report is the first verdict's */
            ft_progress_report(&gen->request->progress, left < total ? total - left - 1 : 0, total);
    }
    return FT_OK;
}

void ft_gen_draft_start(ft_gen *gen)
{
    ft_edge *edge = gen->edge;
    ft_error err = {0};
    gen->drafting = FT_DRAFTING_OFF;
    if (!edge->engine || gen->request->no_speculation || gen->text.n + 1 >= edge->draft_ctx)
        return;
    if (!has_room(edge, gen->text.n)) {
        err.code = FT_EXHAUSTED;
        give_up(gen, &err);
        return;
    }
    ft_status status = begin(gen, &err);
    if (status == FT_OK)
        status = prefill(gen, &err);
    if (status == FT_OK)
        gen->drafting = FT_DRAFTING_ON;
    else if (status == FT_CANCELLED)
        ft_gen_draft_stop(gen);
    else
        give_up(gen, &err);
}

void ft_gen_draft_retry(ft_gen *gen)
{
    if (gen->drafting == FT_DRAFTING_LATER && gen->stats->rounds >= gen->retry_round)
        ft_gen_draft_start(gen);
}

void ft_gen_draft(ft_gen *gen, uint32_t max_nodes, uint32_t max_depth)
{
    ft_edge *edge = gen->edge;
    ft_draft_params params = edge->draft;
    ft_error err = {0};
    ft_tree_clear(&gen->tree);
    if (gen->drafting != FT_DRAFTING_ON)
        return;
    if (gen->text.n + 1 >= edge->draft_ctx) {
        ft_gen_draft_stop(gen); /* its memory serves others */
        return;
    }
    if (params.budget > max_nodes)
        params.budget = max_nodes;
    if (params.depth > max_depth)
        params.depth = max_depth;
    if (params.budget == 0 || params.depth == 0)
        return;
    ft_edge_engine_lock(edge);
    ft_status status = ft_drafter_draft(gen->drafter, &params, &err, &gen->tree);
    ft_edge_engine_unlock(edge);
    if (status == FT_OK && gen->tree.n == 0) /* only a full pool keeps a drafter from one node */
        err.code = FT_EXHAUSTED;
    if (err.code != FT_OK)
        give_up(gen, &err);
}

void ft_gen_draft_advance(ft_gen *gen, const ft_msg_verdict *verdict)
{
    ft_error err = {0};
    if (gen->drafting != FT_DRAFTING_ON)
        return;
    ft_edge_engine_lock(gen->edge);
    ft_status status = ft_drafter_advance(gen->drafter, verdict->path, verdict->n_path,
                                          verdict->next, verdict->n_next, &err);
    ft_edge_engine_unlock(gen->edge);
    if (status != FT_OK)
        give_up(gen, &err);
}
