// SPDX-License-Identifier: Apache-2.0
// libforetoken's drafters: chains from the draft model. One thread at a time, the engine's.
#include <stdlib.h>

#include "embed/handles.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"

struct foretoken_drafter {
    ft_drafter *drafter;
    ft_tree tree;  /* the last draft */
    bool has_text; /* it was reset */
};

int foretoken_drafter_create(foretoken_engine *engine, const foretoken_sampling *sampling,
                             foretoken_error *error, foretoken_drafter **out)
{
    ft_error err = {0};
    ft_sampling ours;
    ft_draft_source *source;
    foretoken_drafter *d = calloc(1, sizeof *d);
    *out = NULL;
    ft_status status = d ? FT_OK : ft_error_set(&err, FT_NOMEM, "embed: no memory for a drafter");
    if (status == FT_OK)
        status = ft_embed_sampling(sampling, &err, &ours);
    if (status == FT_OK)
        status = ft_draft_engine_source(engine->engine, &ft_rule_exact, NULL, &ours, &err, &source);
    if (status == FT_OK)
        status = ft_drafter_create(source, &err, &d->drafter);
    if (status != FT_OK) {
        free(d);
        return ft_embed_error(&err, error);
    }
    *out = d;
    return 0;
}

void foretoken_drafter_destroy(foretoken_drafter *drafter)
{
    if (!drafter)
        return;
    ft_drafter_destroy(drafter->drafter);
    free(drafter);
}

int foretoken_drafter_reset(foretoken_drafter *drafter, const int32_t *tokens, size_t n,
                            foretoken_error *error)
{
    ft_error err = {0};
    if (n == 0 || n > UINT32_MAX)
        ft_error_set(&err, FT_INVALID, "embed: a text of %zu tokens", n);
    else if (ft_drafter_reset(drafter->drafter, tokens, (uint32_t)n, &err) == FT_OK) {
        ft_tree_clear(&drafter->tree);
        drafter->has_text = true;
        return 0;
    }
    return ft_embed_error(&err, error);
}

int foretoken_drafter_draft(foretoken_drafter *drafter, size_t most, int32_t *draft, size_t *n,
                            foretoken_error *error)
{
    ft_error err = {0};
    *n = 0;
    if (!drafter->has_text || most > FORETOKEN_DRAFT_MAX)
        ft_error_set(&err, FT_INVALID,
                     drafter->has_text ? "embed: a draft has at most %d tokens"
                                       : "embed: no text: call foretoken_drafter_reset",
                     FORETOKEN_DRAFT_MAX);
    else {
        const ft_draft_params chain = ft_draft_params_chain((uint32_t)most);
        if (ft_drafter_draft(drafter->drafter, &chain, &err, &drafter->tree) == FT_OK) {
            for (uint32_t i = 0; i < drafter->tree.n; i++)
                draft[i] = drafter->tree.token[i];
            *n = drafter->tree.n;
            return 0;
        }
    }
    return ft_embed_error(&err, error);
}

int foretoken_drafter_advance(foretoken_drafter *drafter, size_t accepted, int32_t next,
                              foretoken_error *error)
{
    ft_error err = {0};
    uint32_t path[FORETOKEN_DRAFT_MAX];
    if (accepted > drafter->tree.n)
        ft_error_set(&err, FT_INVALID, "embed: %zu tokens of a draft of %u", accepted,
                     drafter->tree.n);
    else {
        for (uint32_t i = 0; i < accepted; i++)
            path[i] = i;
        if (ft_drafter_advance(drafter->drafter, path, (uint32_t)accepted, &next, 1, &err) ==
            FT_OK) {
            ft_tree_clear(&drafter->tree);
            return 0;
        }
    }
    return ft_embed_error(&err, error);
}
