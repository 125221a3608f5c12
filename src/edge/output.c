// SPDX-License-Identifier: Apache-2.0
// From a verdict to text: checks that it answers the Draft, appends its tokens, turns them into
// complete characters without stop strings, hands them to the sink with their log-probabilities.
// Owned by the generation's thread. An end-of-generation token belongs to the text that the server
// has, not to what people see.
#include "edge/edge_internal.h"

static ft_status bad(const ft_msg_verdict *v, const char *what, ft_error *err)
{
    return ft_error_set(err, FT_CORRUPT, "edge: the server's verdict for round %u %s", v->round,
                        what);
}

/* What a Draft of nodes and what a run may be answered with. */
static ft_status check_extent(const ft_gen *gen, const ft_msg_verdict *v, ft_error *err)
{
    const bool ends = v->finish != FT_FINISH_NONE;
    if (v->n_path + v->n_next == 0 || (v->n_next == 0 && !ends))
        return bad(v, "brings the text no further", err);
    if (gen->run_left == 0 && (v->n_next > 1 || v->more))
        return bad(v, "brings more than the draft's path and one token", err);
    if (gen->run_left > 0 && v->n_next > gen->run_left)
        return bad(v, "brings more tokens than the run has", err);
    if (gen->run_left > 0 && v->more != (v->n_next < gen->run_left && !ends))
        return bad(v, "ends a run too early or too late", err);
    return FT_OK;
}

ft_status ft_gen_verdict_check(const ft_gen *gen, const ft_msg_verdict *v, ft_error *err)
{
    const ft_msg_draft *draft = &gen->out.draft;
    const uint32_t n = v->n_path + v->n_next;
    int32_t parent = -1;
    for (uint32_t i = 0; i < v->n_path; i++) {
        if (v->path[i] >= draft->n || draft->parent[v->path[i]] != parent)
            return bad(v, "follows no path of the draft", err);
        parent = (int32_t)v->path[i];
    }
    for (uint32_t i = 0; i < v->n_next; i++)
        if (v->next[i] < 0 || v->next[i] >= ft_vocab_size(gen->edge->vocab))
            return bad(v, "names a token outside the vocabulary", err);
    if (check_extent(gen, v, err) != FT_OK)
        return FT_CORRUPT;
    if (v->early_taken && !ft_gen_early_fits(gen, v))
        return bad(v, "goes on with a draft that was not sent", err);
    if (v->length != gen->text.n + n)
        return bad(v, "counts another length of the text", err);
    if (gen->request->logprobs && v->n_logprobs != n)
        return bad(v, "lacks log-probabilities", err);
    return FT_OK;
}

/* One token into the stream; *finish is set where the text ends with it. */
static ft_status add_token(ft_gen *gen, int32_t token, ft_finish *finish)
{
    ft_status status = ft_tokens_append(&gen->text, &token, 1);
    if (status != FT_OK)
        return status;
    if (ft_vocab_is_eog(gen->edge->vocab, token)) {
        *finish = FT_FINISH_STOP;
        return FT_OK;
    }
    gen->generated++;
    gen->stats->tokens = gen->generated;
    ft_buf_clear(&gen->piece);
    status = ft_vocab_piece(gen->edge->vocab, token, false, &gen->piece);
    if (status == FT_OK)
        status =
            ft_text_stream_push(&gen->stream, ft_buf_str(&gen->piece), gen->piece.len, &gen->shown);
    if (gen->stream.stopped)
        *finish = FT_FINISH_STOP;
    else if (gen->request->max_tokens && gen->generated >= gen->request->max_tokens)
        *finish = FT_FINISH_LENGTH;
    return status;
}

static bool show(ft_gen *gen, size_t n_tokens)
{
    const ft_gen_sink *sink = gen->sink;
    return !sink->on_text || (gen->shown.len == 0 && n_tokens == 0) ||
           sink->on_text(sink->ctx, ft_buf_str(&gen->shown), gen->shown.len, gen->tokens, n_tokens);
}

ft_status ft_gen_output(ft_gen *gen, const ft_msg_verdict *v, ft_error *err, ft_finish *finish)
{
    uint32_t n = v->n_path + v->n_next, n_shown = 0;
    ft_status status = FT_OK;
    *finish = FT_FINISH_NONE;
    ft_buf_clear(&gen->shown);
    for (uint32_t i = 0; i < n && *finish == FT_FINISH_NONE && status == FT_OK; i++) {
        int32_t token = i < v->n_path ? gen->out.draft.token[v->path[i]] : v->next[i - v->n_path];
        uint32_t before = gen->generated;
        status = add_token(gen, token, finish);
        if (gen->generated == before)
            continue;
        gen->tokens[n_shown] = (ft_gen_token){.id = token, .has_logprob = v->n_logprobs > i};
        if (v->n_logprobs > i)
            gen->tokens[n_shown].logprob = v->logprobs[i];
        n_shown++;
    }
    if (*finish == FT_FINISH_NONE)
        *finish = v->finish;
    if (status == FT_OK && *finish != FT_FINISH_NONE)
        status = ft_text_stream_finish(&gen->stream, &gen->shown);
    if (status != FT_OK)
        return ft_error_set(err, status, "edge: out of memory for the text");
    if (!show(gen, n_shown))
        *finish = FT_FINISH_STOP;
    return FT_OK;
}
