// SPDX-License-Identifier: Apache-2.0
// Recorded drafts on the virtual clock: a source over the recording's, whose forwards take as long
// as the condition says, and whose word is made better or worse as it says. What is changed depends
// on the place in the text and the seed alone. The world's thread owns everything.
#include <assert.h>
#include <stdlib.h>

#include "base/secret.h"
#include "bench/ablate_internal.h"

typedef struct source {
    ft_draft_source base;
    ft_draft_source *inner;
    ft_ablate_world *w;
} source;

static void follow(source *s)
{
    s->base.n_past = s->inner->n_past;
    s->base.n_pending = s->inner->n_pending;
}

/* Whether the draft knows nothing behind that token there. */
static bool is_wrong(const ft_ablate_world *w, uint32_t position, int32_t token)
{
    const uint64_t place[3] = {w->seed, position, (uint32_t)token};
    if (w->how->device.wrong <= 0 ||
        (w->how->device.wrong_tok && position / w->how->device.wrong_tok % 2 == 0))
        return false;
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, place, sizeof place);
    return (double)(hash >> 11 & 0xfffff) < w->how->device.wrong * 0x100000;
}

static bool chance(const ft_ablate_world *w, uint32_t position, double share)
{
    const uint64_t place[2] = {w->seed + 77, position};
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, place, sizeof place);
    return (double)(hash >> 11 & 0xfffff) < share * 0x100000;
}

/* A better draft's word behind the text's token at `position`. */
static void improve(const ft_ablate_world *w, uint32_t position, int32_t token,
                    ft_draft_children *c)
{
    const ft_tokens *text = w->session.text->text;
    const size_t at = position - w->session.text->prompt->n;
    if (position < w->session.text->prompt->n || at >= text->n || c->n == 0 ||
        !chance(w, position, w->how->device.right) || (at > 0 && text->id[at - 1] != token))
        return;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->at[i].token == text->id[at]) {
            c->at[i].token = c->at[0].token;
            break;
        }
    c->at[0].token = text->id[at];
}

static void spoil(const ft_ablate_world *w, ft_draft_children *c)
{
    const int32_t n_vocab = ft_vocab_size(w->opts->vocab);
    for (uint32_t i = 0; i < c->n; i++)
        c->at[i].token = (c->at[i].token + 1) % n_vocab;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    source *s = (source *)requests->source;
    ft_ablate_world *w = s->w;
    ft_draft_request inner = *requests;
    assert(n == 1);
    inner.source = s->inner;
    ft_status status = s->inner->ops->forward(&inner, 1, err);
    requests->status = inner.status;
    const bool text = !requests->parents;
    const uint32_t end = text ? s->inner->n_past : s->base.n_past;
    for (uint32_t i = 0; status == FT_OK && requests->children && i < (text ? 1 : requests->n);
         i++) {
        const uint32_t position = end + (text ? 0 : 1u + requests->depths[i]);
        const int32_t token = requests->tokens[text ? requests->n - 1 : i];
        improve(w, position, token, &requests->children[i]);
        if (is_wrong(w, position, token))
            spoil(w, &requests->children[i]);
    }
    double us = w->how->device.forward_us + (text ? w->how->device.read_us * requests->n : 0);
    if (w->how->device.cold > 0 && w->forwards++ < 2)
        us *= w->how->device.cold;
    w->now_us += (int64_t)(us * ft_ablate_noisy(&w->draft, 0.05)) + 1;
    follow(s);
    return status;
}

static ft_status commit(ft_draft_source *base, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    source *s = (source *)base;
    ft_status status = s->inner->ops->commit(s->inner, path, n_path, keep, n_keep, err);
    follow(s);
    return status;
}

static void truncate_to(ft_draft_source *base, uint32_t n_past)
{
    source *s = (source *)base;
    s->inner->ops->truncate(s->inner, n_past);
    follow(s);
}

static uint32_t room_tok(const ft_draft_source *base)
{
    const source *s = (const source *)base;
    return s->inner->ops->room_tok(s->inner);
}

static void destroy_source(ft_draft_source *base)
{
    ft_draft_source_destroy(((source *)base)->inner);
    free(base);
}

static const ft_draft_source_ops ops = {.destroy = destroy_source,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

ft_status ft_ablate_source(void *ctx, const ft_rule *rule, const ft_sampling *sampling,
                           ft_error *err, ft_draft_source **out)
{
    ft_ablate_world *w = ctx;
    source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    ft_status status =
        ft_recording_source(w->opts->drafts->recording, rule, sampling, err, &s->inner);
    if (status != FT_OK) {
        free(s);
        return status;
    }
    s->base = *s->inner;
    s->base.ops = &ops;
    s->base.group = s;
    s->w = w;
    *out = &s->base;
    return FT_OK;
}
