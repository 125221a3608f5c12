// SPDX-License-Identifier: Apache-2.0
// A generation's rounds (DESIGN.md section 6): draft a tree, have it checked, take over what was kept,
// until the text ends. All state is one ft_gen on the calling thread's side; the parts are in
// session.c, drafting.c and output.c.
//
// The first Open goes out before the draft model reads the prompt, so that both machines read at
// the same time; Draft 1 waits at the server if that is still reading.
#include <stdlib.h>
#include <string.h>

#include "edge/edge_internal.h"

static ft_status check_request(const ft_edge *edge, const ft_gen_request *r, ft_error *err)
{
    const int32_t n_vocab = ft_vocab_size(edge->vocab);
    const uint32_t max_context = edge->info.limits.max_context;
    if (r->n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "edge: the prompt is empty");
    if (max_context && r->n_prompt >= max_context)
        return ft_error_set(err, FT_INVALID, "edge: the prompt has %u tokens, the context holds %u",
                            r->n_prompt, max_context);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= n_vocab)
            return ft_error_set(err, FT_INVALID, "edge: prompt token %u is %d, outside [0, %d)", i,
                                r->prompt[i], n_vocab);
    for (size_t i = 0; i < r->n_stops; i++)
        if (!r->stops[i] || !r->stops[i][0])
            return ft_error_set(err, FT_INVALID, "edge: stop string %zu is empty", i);
    return ft_sampling_check(&r->sampling, err);
}

static ft_status enter(ft_edge *edge, ft_error *err)
{
    ft_status status = FT_OK;
    pthread_mutex_lock(&edge->mutex);
    if (edge->running >= edge->max_generations)
        status = ft_error_set(err, FT_EXHAUSTED,
                              "edge: %u generations are running already: try again later",
                              edge->running);
    else
        edge->running++;
    pthread_mutex_unlock(&edge->mutex);
    return status;
}

static void leave(ft_edge *edge)
{
    pthread_mutex_lock(&edge->mutex);
    edge->running--;
    pthread_mutex_unlock(&edge->mutex);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Drafts the next round into gen->out. No deeper than tokens can still come: a path of d nodes
 * yields d + 1 tokens. */
static void prepare(ft_gen *gen)
{
    ft_msg_draft *draft = &gen->out.draft;
    uint32_t depth = FT_TREE_MAX, nodes = FT_TREE_MAX;
    int64_t began = ft_clock_now_us(&gen->edge->clock);
    if (gen->request->max_tokens)
        depth = min_u32(depth, gen->request->max_tokens - gen->generated - 1);
    if (gen->limits.max_context)
        depth = min_u32(depth, gen->limits.max_context > gen->text.n
                                   ? gen->limits.max_context - (uint32_t)gen->text.n - 1
                                   : 0);
    if (gen->limits.max_tree)
        nodes = min_u32(nodes, gen->limits.max_tree);
    if (gen->hint_max_tree)
        nodes = min_u32(nodes, gen->hint_max_tree);
    ft_gen_draft(gen, nodes, depth);
    int64_t took = ft_clock_now_us(&gen->edge->clock) - began;
    gen->stats->draft_us += took;
    gen->out.kind = FT_CLIENT_DRAFT;
    draft->base = (uint32_t)gen->text.n;
    draft->n = gen->tree.n;
    memcpy(draft->token, gen->tree.token, gen->tree.n * sizeof *draft->token);
    memcpy(draft->parent, gen->tree.parent, gen->tree.n * sizeof *draft->parent);
    draft->draft_us = (uint32_t)took;
    gen->draft_sent = false;
}

static void first_token(ft_gen *gen)
{
    if (gen->stats->rounds != 1)
        return;
    gen->stats->ttft_us = ft_clock_now_us(&gen->edge->clock) - gen->start_us;
    ft_progress_report(&gen->request->progress, gen->request->n_prompt, gen->request->n_prompt);
}

static ft_status one_round(ft_gen *gen, ft_error *err, ft_finish *finish)
{
    ft_server_msg *msg = NULL;
    prepare(gen);
    ft_status status = ft_gen_exchange(gen, err, &msg);
    if (status == FT_OK)
        status = ft_gen_verdict_check(gen, &msg->verdict, err);
    if (status == FT_OK) {
        const ft_msg_verdict *v = &msg->verdict;
        gen->stats->rounds++;
        gen->stats->drafted += gen->out.draft.n;
        gen->stats->accepted += v->n_path;
        gen->hint_max_tree = v->hint_max_tree;
        gen->round++;
        first_token(gen);
        status = ft_gen_output(gen, v, err, finish);
        if (status == FT_OK && *finish == FT_FINISH_NONE)
            ft_gen_draft_advance(gen, v);
    }
    ft_server_msg_free(msg);
    return status;
}

static ft_status run(ft_gen *gen, ft_error *err)
{
    ft_finish finish = FT_FINISH_NONE;
    /* Where the verifier cannot be reached now, the first exchange tries again and reports. */
    ft_status status = ft_gen_connect(gen, err);
    if (status == FT_OK || gen->link == NULL)
        ft_gen_draft_start(gen);
    do
        status = gen->cancelled ? ft_error_set(err, FT_CANCELLED, "edge: cancelled")
                                : one_round(gen, err, &finish);
    while (status == FT_OK && finish == FT_FINISH_NONE);
    if (gen->stats->rounds == 0) /* ends the line of a prompt that nobody read to its end */
        ft_progress_report(&gen->request->progress, gen->request->n_prompt, gen->request->n_prompt);
    gen->stats->finish = finish;
    ft_gen_draft_stop(gen);
    ft_gen_disconnect(gen, status == FT_OK ? FT_CLIENT_CLOSE : FT_CLIENT_CANCEL);
    gen->stats->bytes_sent = gen->old_sent;
    gen->stats->bytes_received = gen->old_received;
    return status;
}

static ft_status gen_init(ft_gen *gen, ft_error *err)
{
    const ft_gen_request *r = gen->request;
    gen->limits = gen->edge->info.limits;
    ft_text_stream_init(&gen->stream, r->stops, r->n_stops);
    gen->tokens = calloc(FT_TREE_MAX + 1, sizeof *gen->tokens);
    ft_status status =
        gen->tokens ? ft_tokens_append(&gen->text, r->prompt, r->n_prompt) : FT_NOMEM;
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "edge: out of memory");
}

static void gen_free(ft_gen *gen)
{
    ft_tokens_deinit(&gen->text);
    ft_text_stream_deinit(&gen->stream);
    ft_buf_deinit(&gen->piece);
    ft_buf_deinit(&gen->shown);
    free(gen->tokens);
    free(gen);
}

static ft_status generate(ft_edge *edge, const ft_gen_request *request, const ft_gen_sink *sink,
                          ft_error *err, ft_gen_stats *stats)
{
    ft_gen *gen = calloc(1, sizeof *gen);
    if (!gen)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    gen->edge = edge;
    gen->request = request;
    gen->sink = sink;
    gen->stats = stats;
    gen->start_us = ft_clock_now_us(&edge->clock);
    ft_status status = gen_init(gen, err);
    if (status == FT_OK)
        status = run(gen, err);
    stats->total_us = ft_clock_now_us(&edge->clock) - gen->start_us;
    gen_free(gen);
    return status;
}

ft_status ft_edge_generate(ft_edge *edge, const ft_gen_request *request, const ft_gen_sink *sink,
                           ft_error *err, ft_gen_stats *stats)
{
    ft_error failure = {0}; /* also holds what was overcome on the way */
    *stats = (ft_gen_stats){0};
    ft_status status = check_request(edge, request, &failure);
    if (status == FT_OK)
        status = enter(edge, &failure);
    if (status == FT_OK) {
        status = generate(edge, request, sink, &failure, stats);
        leave(edge);
    }
    if (status != FT_OK && err)
        *err = failure;
    return status;
}
