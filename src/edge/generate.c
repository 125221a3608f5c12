// SPDX-License-Identifier: Apache-2.0
// A generation's rounds (DESIGN.md section 6): draft a tree, have it checked, take over what was kept,
// until the text ends. All state is one ft_gen on the calling thread's side; the parts are in
// session.c, drafting.c and output.c.
//
// The first Open goes out before the draft model reads the prompt, so that both machines read at
// the same time; Draft 1 waits at the server if that is still reading.
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
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

/* Tokens that may still come, at least one: whether there is none is the server's to say. */
static uint32_t tokens_left(const ft_gen *gen)
{
    uint32_t n = FT_WIRE_RUN_MAX, context = gen->limits.max_context;
    if (gen->request->max_tokens)
        n = ft_min_u32(n, gen->request->max_tokens - gen->generated);
    if (context)
        n = ft_min_u32(n, context > gen->text.n ? context - (uint32_t)gen->text.n : 1);
    return n;
}

/* The run that was chosen goes with a draft that only tells how a tree would have done: made while the
 * run goes on, or, where that would take its time from the target, before. */
static void want_shadow(ft_gen *gen, const ft_control_choice *choice, const ft_draft_params *params)
{
    if (!choice->shadow || gen->shadow.tree.n > 0)
        return;
    gen->shadow.wanted = true;
    gen->shadow.params = *params;
    if (!gen->edge->proactive)
        ft_gen_draft_shadow(gen);
}

/* The next round into gen->out: a tree, or a run where it is not to be a tree or none can be had. */
static void prepare(ft_gen *gen)
{
    ft_msg_draft *draft = &gen->out.draft;
    ft_draft_params params;
    int64_t began = ft_clock_now_us(&gen->edge->clock);
    ft_control_choice choice = ft_gen_steer(gen, tokens_left(gen), &params);
    ft_tree_clear(&gen->tree);
    if (choice.speculate)
        ft_gen_draft(gen, &params);
    if (gen->tree.n == 0 && choice.speculate) { /* now drafting is not ready any more */
        gen->has_choice = false;
        choice = ft_gen_steer(gen, tokens_left(gen), &params);
    }
    gen->has_choice = false;
    if (gen->tree.n == 0)
        want_shadow(gen, &choice, &params);
    int64_t took = ft_clock_now_us(&gen->edge->clock) - began;
    gen->stats->draft_us += took;
    gen->out.kind = FT_CLIENT_DRAFT;
    draft->base = (uint32_t)gen->text.n;
    draft->n = gen->tree.n;
    memcpy(draft->token, gen->tree.token, gen->tree.n * sizeof *draft->token);
    memcpy(draft->parent, gen->tree.parent, gen->tree.n * sizeof *draft->parent);
    draft->run = gen->run_left = draft->n > 0 ? 0 : choice.run;
    draft->draft_us = (uint32_t)took;
    gen->draft_sent = false;
}

/* When half of a run has come and it is to go on, the next is asked for, so that the server need not
 * wait for the network. */
static void go_on(ft_gen *gen)
{
    const uint32_t left = tokens_left(gen);
    ft_draft_params params;
    if (gen->ahead_run > 0 || gen->run_left > gen->out.draft.run / 2 || left <= gen->run_left)
        return;
    ft_control_choice choice = ft_gen_steer(gen, left - gen->run_left, &params);
    if (choice.speculate || (choice.shadow && !gen->edge->proactive))
        return; /* prepare() acts on it */
    gen->has_choice = false;
    ft_gen_run_ahead(gen, choice.run);
    want_shadow(gen, &choice, &params);
}

static void first_token(ft_gen *gen)
{
    if (gen->answered)
        return;
    gen->answered = true;
    gen->stats->ttft_us = ft_clock_now_us(&gen->edge->clock) - gen->start_us;
    ft_progress_report(&gen->request->progress, gen->request->n_prompt, gen->request->n_prompt);
}

static void count(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_gen_stats *s = gen->stats;
    gen->hint_max_tree = v->hint_max_tree;
    gen->hint_no_trees = v->hint_no_trees;
    if (gen->run_left > 0) {
        s->runs += !v->more;
        s->run_tokens += v->n_next;
        return;
    }
    s->rounds++;
    s->drafted += gen->out.draft.n;
    s->accepted += v->n_path;
}

static ft_status take_over(ft_gen *gen, const ft_msg_verdict *v, ft_error *err, ft_finish *finish)
{
    count(gen, v);
    ft_gen_record_verdict(gen, v);
    first_token(gen);
    ft_status status = ft_gen_output(gen, v, err, finish);
    if (status != FT_OK || *finish != FT_FINISH_NONE)
        return status;
    ft_gen_early_saw(gen, v);
    ft_gen_draft_advance(gen, v);
    ft_gen_steer_saw(gen, v);
    if (v->more) {
        gen->run_left -= v->n_next;
        go_on(gen);
    } else {
        ft_gen_round_over(gen);
    }
    if (v->early_taken)
        ft_gen_early_take(gen, v);
    return FT_OK;
}

/* One verdict: a whole round, or a part of a run. */
static ft_status one_step(ft_gen *gen, ft_error *err, ft_finish *finish)
{
    ft_server_msg *msg = NULL;
    if (gen->run_left == 0 && !gen->early.begun)
        prepare(gen);
    ft_status status = ft_gen_exchange(gen, err, &msg);
    if (status == FT_OK)
        status = ft_gen_verdict_check(gen, &msg->verdict, err);
    if (status == FT_OK)
        status = take_over(gen, &msg->verdict, err, finish);
    ft_server_msg_free(msg);
    return status;
}

static ft_status run(ft_gen *gen, ft_error *err)
{
    ft_finish finish = FT_FINISH_NONE;
    ft_gen_steer_begin(gen);
    ft_gen_record_begin(gen);
    /* Where the verifier cannot be reached now, the first exchange tries again and reports. */
    ft_status status = ft_gen_connect(gen, err);
    if (status == FT_OK || gen->link == NULL)
        ft_gen_draft_start(gen);
    do
        status = gen->cancelled ? ft_error_set(err, FT_CANCELLED, "edge: cancelled")
                                : one_step(gen, err, &finish);
    while (status == FT_OK && finish == FT_FINISH_NONE);
    if (!gen->answered) /* ends the line of a prompt that nobody read to its end */
        ft_progress_report(&gen->request->progress, gen->request->n_prompt, gen->request->n_prompt);
    gen->stats->finish = finish;
    ft_gen_steer_end(gen);
    ft_gen_record_end(gen);
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

double ft_gen_ahead_gain(const ft_gen_stats *stats)
{
    if (stats->heads == 0 || stats->aligned == 0)
        return 0;
    double heads = (double)stats->heads, aligned = (double)stats->aligned;
    double p_align = aligned / heads, p_match = (double)stats->matched / aligned;
    double per_head =
        (double)stats->ahead_nodes / heads; /* below 1: ordinary drafts had the heads */
    return per_head > 1 ? p_align * p_match * (per_head - 1) : 0;
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
