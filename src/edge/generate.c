// SPDX-License-Identifier: Apache-2.0
// A generation from call to return: checks the request and runs rounds (rounds.c) until the text
// ends.
//
// The first Open is sent before the draft model reads the prompt, so both machines read at the same
// time. Draft 1 waits at the server if the server is still reading. Owned by the calling thread.
#include "edge/exchange.h"
#include "edge/generation.h"
#include "edge/rounds.h"

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

static ft_status run(ft_gen *gen, ft_error *err)
{
    ft_status status = ft_gen_open(gen, err);
    if (status == FT_OK && !gen->request->no_speculation)
        ft_drafting_start(&gen->drafting);
    while (status == FT_OK && gen->stats->finish == FT_FINISH_NONE)
        status = gen->cancelled ? ft_error_set(err, FT_CANCELLED, "edge: cancelled")
                                : ft_gen_step(gen, err, &gen->stats->finish);
    return status;
}

ft_status ft_edge_generate(ft_edge *edge, const ft_gen_request *request, const ft_gen_sink *sink,
                           ft_error *err, ft_gen_stats *stats)
{
    ft_error failure = {0}; /* also holds errors that were recovered from */
    ft_gen *gen = NULL;
    *stats = (ft_gen_stats){.prompt_tokens = request->n_prompt};
    ft_status status = check_request(edge, request, &failure);
    if (status == FT_OK)
        status = ft_gen_create(edge, request, sink, stats, &failure, &gen);
    if (status == FT_OK) {
        status = run(gen, &failure);
        ft_gen_end(gen, status);
    }
    ft_gen_destroy(gen);
    if (status != FT_OK && err)
        *err = failure;
    return status;
}
