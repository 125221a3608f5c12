// SPDX-License-Identifier: Apache-2.0
// A draft model and lookups beside it. Invariant: both have the same text and the same pending
// nodes after each call that succeeds. A forward that the model has no room for happens to neither.
// After a failure of the whole call the source can only be destroyed. The model's owner thread
// calls everything. No allocation after creation, but in the lookups' index.
#include "spec/both.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

typedef struct both {
    ft_draft_source base;
    ft_draft_source *model, *lookup;
} both;

static void follow(both *b)
{
    b->base.n_past = b->model->n_past;
    b->base.n_pending = b->model->n_pending;
    assert(b->lookup->n_past == b->base.n_past && b->lookup->n_pending == b->base.n_pending);
}

/* Puts a child into its place, unless 16 others are likelier. */
static void insert(ft_draft_children *children, ft_draft_child child)
{
    uint32_t at = 0;
    while (at < children->n && children->at[at].logp >= child.logp)
        at++;
    if (at == FT_DRAFT_RANKED)
        return;
    children->n = ft_min_u32(children->n + 1, FT_DRAFT_RANKED);
    memmove(&children->at[at + 1], &children->at[at],
            (children->n - 1 - at) * sizeof *children->at);
    children->at[at] = child;
}

void ft_both_add(ft_draft_children *children, const ft_draft_children *found)
{
    float left = 1;
    for (uint32_t i = 0; i < found->n; i++)
        left -= expf(found->at[i].logp);
    assert(left > 0);
    for (uint32_t i = 0; i < children->n; i++)
        children->at[i].logp += logf(left);
    for (uint32_t i = 0; i < found->n; i++) {
        ft_draft_child child = found->at[i];
        uint32_t at = 0;
        while (at < children->n && children->at[at].token != child.token)
            at++;
        if (at < children->n) {
            child.logp = logf(expf(child.logp) + expf(children->at[at].logp));
            children->n--;
            memmove(&children->at[at], &children->at[at + 1],
                    (children->n - at) * sizeof *children->at);
        }
        insert(children, child);
    }
}

/* The model's part of the request is done. */
static ft_status look_up(const ft_draft_request *r, ft_error *err)
{
    both *b = (both *)r->source;
    ft_draft_children found[FT_DRAFT_LEAVES];
    const uint32_t n = !r->children ? 0 : r->parents ? r->n : 1;
    ft_draft_request inner = *r;
    inner.source = b->lookup;
    inner.children = r->children ? found : NULL;
    ft_status status = b->lookup->ops->forward(&inner, 1, err);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        if ((r->unwanted >> i & 1) == 0)
            ft_both_add(&r->children[i], &found[i]);
    if (status == FT_OK)
        follow(b);
    return status;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_draft_request inner[FT_DRAFT_BATCH];
    assert(n > 0 && n <= FT_DRAFT_BATCH);
    for (size_t i = 0; i < n; i++) {
        inner[i] = requests[i];
        inner[i].source = ((both *)requests[i].source)->model;
    }
    ft_status status = ((both *)requests->source)->model->ops->forward(inner, n, err);
    for (size_t i = 0; i < n; i++) {
        requests[i].status = inner[i].status;
        if (status == FT_OK && inner[i].status == FT_OK)
            status = look_up(&requests[i], err);
    }
    return status;
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    both *b = (both *)source;
    ft_status status = b->model->ops->commit(b->model, path, n_path, keep, n_keep, err);
    if (status == FT_OK)
        status = b->lookup->ops->commit(b->lookup, path, n_path, keep, n_keep, err);
    if (status == FT_OK)
        follow(b);
    return status;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    both *b = (both *)source;
    b->model->ops->truncate(b->model, n_past);
    b->lookup->ops->truncate(b->lookup, n_past);
    follow(b);
}

static uint32_t room_tok(const ft_draft_source *source)
{
    const ft_draft_source *model = ((const both *)source)->model;
    return model->ops->room_tok(model);
}

static void destroy(ft_draft_source *source)
{
    both *b = (both *)source;
    ft_draft_source_destroy(b->model);
    ft_draft_source_destroy(b->lookup);
    free(b);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

ft_status ft_both_source(ft_draft_source *model, ft_draft_source *lookup, ft_error *err,
                         ft_draft_source **out)
{
    both *b = calloc(1, sizeof *b);
    assert(model->evidence_bytes == 0 && lookup->evidence_bytes == 0);
    *out = NULL;
    if (!b) {
        ft_draft_source_destroy(model);
        ft_draft_source_destroy(lookup);
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    }
    b->model = model;
    b->lookup = lookup;
    b->base = *model; /* the limits */
    b->base.ops = &ops;
    b->base.group = lookup->group;
    b->base.n_ctx = ft_min_u32(model->n_ctx, lookup->n_ctx);
    b->base.max_text = ft_min_u32(model->max_text, lookup->max_text);
    b->base.max_leaves = ft_min_u32(model->max_leaves, lookup->max_leaves);
    *out = &b->base;
    return FT_OK;
}
