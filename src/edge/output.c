// SPDX-License-Identifier: Apache-2.0
// Turns verdicts into text. Invariant: the text has all tokens of the applied verdicts, up to the
// token that ended it, inclusive. Owned by the generation's thread. Decides only the text's end.
#include "edge/output.h"

#include <stdlib.h>

/* ---- checking ---- */

static ft_status bad(const ft_msg_verdict *v, const char *what, ft_error *err)
{
    return ft_error_set(err, FT_CORRUPT, "edge: the server's verdict for round %u %s", v->round,
                        what);
}

/* Checks the counts of a verdict on a tree, or of a run. */
static ft_status check_extent(const ft_awaited *a, const ft_msg_verdict *v, ft_error *err)
{
    const bool ends = v->finish != FT_FINISH_NONE;
    if (v->n_path + v->n_next == 0 || (v->n_next == 0 && !ends))
        return bad(v, "has no token", err);
    if (a->run_left == 0 && (v->n_next > 1 || v->more))
        return bad(v, "has more than a path of the draft and one token", err);
    if (a->run_left > 0 && v->n_next > a->run_left)
        return bad(v, "has more tokens than the run", err);
    if (a->run_left > 0 && v->more != (v->n_next < a->run_left && !ends))
        return bad(v, "ends a run too early or too late", err);
    return FT_OK;
}

ft_status ft_output_check(const ft_awaited *a, const ft_msg_verdict *v, ft_error *err)
{
    const uint32_t n = v->n_path + v->n_next;
    int32_t parent = -1;
    for (uint32_t i = 0; i < v->n_path; i++) {
        if (v->path[i] >= a->draft->n || a->draft->parent[v->path[i]] != parent)
            return bad(v, "follows no path of the draft", err);
        parent = (int32_t)v->path[i];
    }
    for (uint32_t i = 0; i < v->n_next; i++)
        if (v->next[i] < 0 || v->next[i] >= a->n_vocab)
            return bad(v, "has a token outside the vocabulary", err);
    if (check_extent(a, v, err) != FT_OK)
        return FT_CORRUPT;
    if (v->early_taken && !a->early)
        return bad(v, "takes an early draft that was not sent", err);
    if (v->length != a->length + n)
        return bad(v, "has another length of the text", err);
    if (a->logprobs && v->n_logprobs != n)
        return bad(v, "lacks log-probabilities", err);
    return FT_OK;
}

/* ---- text ---- */

ft_status ft_output_init(ft_output *o, const ft_output_opts *opts, ft_error *err)
{
    *o = (ft_output){.how = *opts};
    o->tokens = calloc(FT_WIRE_NEXT_MAX, sizeof *o->tokens);
    if (!o->tokens)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    ft_text_stream_init(&o->stream, opts->stops, opts->n_stops);
    return FT_OK;
}

void ft_output_deinit(ft_output *o)
{
    ft_text_stream_deinit(&o->stream);
    ft_buf_deinit(&o->piece);
    ft_buf_deinit(&o->shown);
    ft_teller_deinit(&o->teller);
    free(o->tokens);
}

/* Of a verdict's token: whether it was drafted. */
static ft_origin origin_of(const ft_output *o, bool drafted)
{
    const ft_told *told = &o->teller.told;
    if (drafted)
        return told->early ? FT_ORIGIN_EARLY : FT_ORIGIN_DRAFT;
    return told->undrafted ? FT_ORIGIN_RUN : FT_ORIGIN_TARGET;
}

static bool is_spelled(const ft_output *o, int32_t token)
{
    for (size_t i = 0; i < o->how.n_spelled; i++)
        if (o->how.spelled[i] == token)
            return true;
    return false;
}

/* Adds one token to the stream; sets *finish if the text ends with it. */
static ft_status add_token(ft_output *o, int32_t token, ft_origin origin, ft_finish *finish)
{
    ft_status status = ft_tokens_append(o->how.text, &token, 1);
    if (status != FT_OK)
        return status;
    if (ft_vocab_is_eog(o->how.vocab, token)) {
        *finish = FT_FINISH_STOP;
        return FT_OK;
    }
    o->generated++;
    ft_buf_clear(&o->piece);
    status = ft_vocab_piece(o->how.vocab, token, is_spelled(o, token), &o->piece);
    if (status == FT_OK)
        status = ft_text_stream_push(&o->stream, ft_buf_str(&o->piece), o->piece.len, &o->shown);
    if (o->how.sink->on_told)
        ft_teller_came(&o->teller, origin, o->piece.len);
    if (o->stream.stopped)
        *finish = FT_FINISH_STOP;
    else if (o->how.max_tokens && o->generated >= o->how.max_tokens)
        *finish = FT_FINISH_LENGTH;
    return status;
}

/* Before the text is shown. */
static ft_status tell(ft_output *o, const ft_msg_draft *draft, const ft_msg_verdict *v,
                      uint32_t n_tokens)
{
    const ft_gen_sink *sink = o->how.sink;
    if (!sink->on_told)
        return FT_OK;
    ft_teller_shown(&o->teller, ft_buf_str(&o->shown), o->shown.len, o->stream.held.len);
    o->teller.told.tokens = n_tokens;
    ft_status status = ft_teller_rejected(&o->teller, o->how.vocab, draft, v);
    if (status == FT_OK)
        sink->on_told(sink->ctx, &o->teller.told);
    return status;
}

static bool show(ft_output *o, size_t n_tokens)
{
    const ft_gen_sink *sink = o->how.sink;
    return !sink->on_text || (o->shown.len == 0 && n_tokens == 0) ||
           sink->on_text(sink->ctx, ft_buf_str(&o->shown), o->shown.len, o->tokens, n_tokens);
}

ft_status ft_output_add(ft_output *o, const ft_msg_draft *draft, const ft_msg_verdict *v,
                        ft_error *err, ft_finish *finish)
{
    const uint32_t n = v->n_path + v->n_next;
    uint32_t n_shown = 0;
    ft_status status = FT_OK;
    *finish = FT_FINISH_NONE;
    ft_buf_clear(&o->shown);
    for (uint32_t i = 0; i < n && *finish == FT_FINISH_NONE && status == FT_OK; i++) {
        const int32_t token = i < v->n_path ? draft->token[v->path[i]] : v->next[i - v->n_path];
        const uint32_t before = o->generated;
        status = add_token(o, token, origin_of(o, i < v->n_path), finish);
        if (o->generated == before)
            continue;
        o->tokens[n_shown] = (ft_gen_token){.id = token, .has_logprob = v->n_logprobs > i};
        if (v->n_logprobs > i)
            o->tokens[n_shown].logprob = v->logprobs[i];
        n_shown++;
    }
    if (*finish == FT_FINISH_NONE)
        *finish = v->finish;
    if (status == FT_OK && *finish != FT_FINISH_NONE)
        status = ft_text_stream_finish(&o->stream, &o->shown);
    if (status == FT_OK)
        status = tell(o, draft, v, n_shown);
    if (status != FT_OK)
        return ft_error_set(err, status, "edge: out of memory for the text");
    if (o->stream.stopped && o->how.sink->on_stop)
        o->how.sink->on_stop(o->how.sink->ctx, o->stream.stop);
    if (!show(o, n_shown))
        *finish = FT_FINISH_STOP;
    return FT_OK;
}

void ft_output_provisional(ft_output *o, const int32_t *token, uint32_t n)
{
    const ft_gen_sink *sink = o->how.sink;
    ft_text_stream stream;
    ft_text_stream_init(&stream, o->how.stops, o->how.n_stops);
    ft_buf_clear(&o->shown);
    ft_buf_clear(&o->piece);
    ft_status status = ft_buf_append(&o->piece, ft_buf_str(&o->stream.held), o->stream.held.len);
    for (uint32_t i = 0; i < n && status == FT_OK && !ft_vocab_is_eog(o->how.vocab, token[i]); i++)
        status = ft_vocab_piece(o->how.vocab, token[i], false, &o->piece);
    if (status == FT_OK)
        status = ft_text_stream_push(&stream, ft_buf_str(&o->piece), o->piece.len, &o->shown);
    if (status == FT_OK && o->shown.len > 0)
        sink->on_provisional(sink->ctx, ft_buf_str(&o->shown), o->shown.len);
    ft_text_stream_deinit(&stream);
}
