// SPDX-License-Identifier: Apache-2.0
// libforetoken's sessions. The sequence holds the text except its last token, or a shorter part of
// it: what is missing is computed by the next round. One thread at a time, the engine's.
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "embed/handles.h"

struct foretoken_session {
    foretoken_engine *engine; /* borrowed */
    ft_seq *seq;
    ft_sampler *sampler;
    ft_sampling sampling;
    ft_tokens text;
};

int foretoken_session_create(foretoken_engine *engine, const foretoken_sampling *sampling,
                             foretoken_error *error, foretoken_session **out)
{
    ft_error err = {0};
    foretoken_session *s = calloc(1, sizeof *s);
    *out = NULL;
    ft_status status = s ? FT_OK : ft_error_set(&err, FT_NOMEM, "embed: no memory for a session");
    if (status == FT_OK)
        status = ft_embed_sampling(sampling, &err, &s->sampling);
    if (status == FT_OK)
        status = ft_sampler_create(ft_model_hparams(engine->model)->n_vocab, &err, &s->sampler);
    if (status == FT_OK)
        status = ft_seq_create(engine->engine, &err, &s->seq);
    if (status != FT_OK) {
        foretoken_session_destroy(s);
        return ft_embed_error(&err, error);
    }
    s->engine = engine;
    *out = s;
    return 0;
}

void foretoken_session_destroy(foretoken_session *session)
{
    if (!session)
        return;
    ft_seq_destroy(session->seq);
    ft_sampler_destroy(session->sampler);
    ft_tokens_deinit(&session->text);
    free(session);
}

static ft_status check_tokens(const foretoken_session *s, const int32_t *tokens, size_t n,
                              ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(s->engine->model);
    /* One more: the token that the model draws. */
    if (n >= hp->n_ctx_train || s->text.n + n >= hp->n_ctx_train)
        return ft_error_set(err, FT_TOO_LARGE,
                            "embed: %zu tokens behind a text of %zu leave no room in the context "
                            "of %u",
                            n, s->text.n, hp->n_ctx_train);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= hp->n_vocab)
            return ft_error_set(err, FT_INVALID, "embed: token %d is not in the vocabulary of %u",
                                tokens[i], hp->n_vocab);
    return FT_OK;
}

int foretoken_session_append(foretoken_session *session, const int32_t *tokens, size_t n,
                             foretoken_error *error)
{
    ft_error err = {0};
    ft_status status = check_tokens(session, tokens, n, &err);
    if (status == FT_OK && ft_tokens_append(&session->text, tokens, n) != FT_OK)
        status = ft_error_set(&err, FT_NOMEM, "embed: no memory for the text");
    return status == FT_OK ? 0 : ft_embed_error(&err, error);
}

/* The first n pending nodes, which are a chain, become committed tokens; the others are freed. */
static ft_status keep(foretoken_session *s, uint32_t n, ft_error *err)
{
    uint32_t *path = malloc(n * sizeof *path);
    if (!path)
        return ft_error_set(err, FT_NOMEM, "embed: no memory for a path");
    for (uint32_t i = 0; i < n; i++)
        path[i] = i;
    ft_status status = ft_seq_commit(s->seq, path, n, NULL, 0, err);
    free(path);
    return status;
}

/* Computes the text except its last token. */
static ft_status read_text(foretoken_session *s, ft_error *err)
{
    ft_engine *engine = s->engine->engine;
    ft_status status = FT_OK;
    for (uint32_t past; status == FT_OK && (past = ft_seq_n_past(s->seq)) + 1 < s->text.n;) {
        const size_t left = s->text.n - 1 - past, most = ft_engine_max_batch_tok(engine);
        ft_segment segment = {
            .seq = s->seq, .n = (uint32_t)(left < most ? left : most), .tokens = s->text.id + past};
        status = ft_engine_forward(engine, &segment, 1, err);
        if (status == FT_OK)
            status = keep(s, segment.n, err);
    }
    return status;
}

/* Computes the text's last token and the draft, and walks as far as draws agree with it. */
static ft_status walk(foretoken_session *s, const int32_t *draft, size_t n, size_t *accepted,
                      int32_t *next, ft_error *err)
{
    ft_engine *engine = s->engine->engine;
    int32_t tokens[1 + FORETOKEN_DRAFT_MAX];
    const uint64_t want[2] = {UINT64_MAX, UINT64_MAX};
    tokens[0] = s->text.id[s->text.n - 1];
    if (n > 0)
        memcpy(tokens + 1, draft, n * sizeof *draft);
    ft_segment segment = {.seq = s->seq, .n = (uint32_t)n + 1, .tokens = tokens, .want = want};
    ft_status status = ft_engine_forward(engine, &segment, 1, err);
    if (status != FT_OK)
        return status;
    for (*accepted = 0;; ++*accepted) {
        const uint32_t at = (uint32_t)*accepted;
        *next = ft_sampler_draw(s->sampler, &s->sampling,
                                ft_engine_logits(engine, segment.first_row + at),
                                (uint32_t)s->text.n + at);
        if (at == n || draft[at] != *next)
            return keep(s, at + 1, err);
    }
}

int foretoken_session_verify(foretoken_session *session, const int32_t *draft, size_t n,
                             size_t *accepted, int32_t *next, foretoken_error *error)
{
    foretoken_session *s = session;
    ft_error err = {0};
    const size_t length = s->text.n;
    *accepted = 0;
    *next = -1;
    ft_status status = FT_OK;
    if (length == 0)
        status = ft_error_set(&err, FT_INVALID, "embed: the text is empty: append a prompt");
    else if (n > FORETOKEN_DRAFT_MAX)
        status = ft_error_set(&err, FT_INVALID, "embed: a draft of %zu tokens: at most %d", n,
                              FORETOKEN_DRAFT_MAX);
    if (status == FT_OK)
        status = check_tokens(s, draft, n, &err);
    if (status == FT_OK)
        status = read_text(s, &err);
    if (status == FT_OK)
        status = walk(s, draft, n, accepted, next, &err);
    if (status == FT_OK && (ft_tokens_append(&s->text, draft, *accepted) != FT_OK ||
                            ft_tokens_append(&s->text, next, 1) != FT_OK))
        status = ft_error_set(&err, FT_NOMEM, "embed: no memory for the text");
    if (status == FT_OK)
        return 0;
    s->text.n = length;
    if (length > 0 && ft_seq_n_past(s->seq) >= length)
        ft_seq_truncate(s->seq, (uint32_t)length - 1);
    else
        ft_seq_truncate(s->seq, ft_seq_n_past(s->seq)); /* what is pending */
    return ft_embed_error(&err, error);
}

size_t foretoken_session_length(const foretoken_session *session)
{
    return session->text.n;
}

void foretoken_session_truncate(foretoken_session *session, size_t n)
{
    if (n >= session->text.n)
        return;
    session->text.n = n;
    const uint32_t keeps = n > 0 ? (uint32_t)n - 1 : 0; /* the last token is computed anew */
    ft_seq_truncate(session->seq, ft_min_u32(keeps, ft_seq_n_past(session->seq)));
}
