// SPDX-License-Identifier: Apache-2.0
// forced.h: a source that answers by the constraint what it can, and asks the inner source for the
// rest. Invariants:
//   1. the inner source has the first tokens of the text, inner->n_past <= n_past of them;
//   2. it has pending nodes only where both have the same n_past; in_inner of a node is its number
//      there, or -1; with a node its ancestors are there.
// So the inner source lags behind forced text, until it is asked. Then it reads what it lacks, and
// the node that it is asked about, in one forward, if that has room for them.
//
// One thread at a time, that of the inner source. Allocates when the text doubles, and as
// spelling.c does.
#include "spec/forced.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/sort.h"
#include "spec/both.h"
#include "spec/spelling.h"

/* With a better chance than this the model is not asked. With much less its children, which are
 * legal, too, would be more often right; with much more only one-token places would be free. */
#define SURE 0.8f

typedef struct node {
    int32_t token, parent; /* parent: pending, -1: the text's last token */
    uint16_t depth;
    int16_t in_inner;
    ft_spelling next; /* behind it */
} node;

/* What the inner source reads in one forward: text that it lacks, nodes that it lacks, leaves. */
typedef struct errand {
    uint32_t n, n_lag; /* n_lag: of text */
    int32_t tokens[FT_DRAFT_LEAVES], parents[FT_DRAFT_LEAVES];
    uint16_t depths[FT_DRAFT_LEAVES];
    uint32_t node[FT_DRAFT_LEAVES]; /* those behind n_lag */
    ft_draft_children children[FT_DRAFT_LEAVES];
} errand;

typedef struct forced {
    ft_draft_source base;
    ft_draft_source *inner; /* NULL: there is none */
    ft_speller speller;
    ft_tokens text;   /* [base.n_past], and what a request adds */
    ft_spelling root; /* behind the text's last token */
    node pending[FT_DRAFT_PENDING];
    /* What forced_only found, for the same question without it. */
    struct {
        uint32_t n, n_text;
        bool text; /* leaf 0 is the text */
        node leaf[FT_DRAFT_LEAVES];
    } found;
    errand errand;
} forced;

/* ---- what is forced ---- */

/* Behind node `at` (-1: the text), which is `depth` tokens behind the text. */
static ft_spelling next_of(forced *f, int32_t at, uint32_t depth)
{
    int32_t path[FT_DRAFT_PENDING];
    for (uint32_t i = depth; i-- > 0; at = f->pending[at].parent)
        path[i] = f->pending[at].token;
    const ft_past past = {
        .text = f->text.id, .n_text = (uint32_t)f->text.n, .path = path, .n_path = depth};
    return ft_speller_next(&f->speller, &past);
}

static bool is_sure(const forced *f, ft_spelling s)
{
    return ft_speller_chance(&f->speller, s) >= SURE;
}

static ft_draft_children child_of(const forced *f, ft_spelling s)
{
    ft_draft_children children = {.counted = true};
    if (s.kind != FT_SPELLING_NONE) {
        children.n = 1;
        children.at[0] = (ft_draft_child){s.token, logf(ft_speller_chance(&f->speller, s))};
    }
    return children;
}

/* To what a sparse inner source found, or to nothing, adds what is forced. */
static void add_forced(const forced *f, ft_spelling s, ft_draft_children *found)
{
    ft_draft_children both = child_of(f, s);
    if (s.kind != FT_SPELLING_ONLY)
        ft_both_add(&both, found);
    *found = both;
    found->counted = true;
}

/* ---- the text ---- */

static ft_status append(forced *f, const int32_t *tokens, uint32_t n, ft_error *err)
{
    if (ft_tokens_append(&f->text, tokens, n) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory for a text");
    return FT_OK;
}

/* The text has grown by tokens [n], of which the first is counted. */
static void grown(forced *f, const int32_t *tokens, uint32_t n)
{
    ft_speller_came(&f->speller, f->root, tokens[0]);
    f->root = (ft_spelling){0};
    f->base.n_past += n;
}

/* ---- without the inner source ---- */

static node leaf_of(const ft_draft_request *r, uint32_t i)
{
    return (node){
        .token = r->tokens[i], .parent = r->parents[i], .depth = r->depths[i], .in_inner = -1};
}

static ft_status force_text(forced *f, ft_draft_request *r, ft_error *err)
{
    const size_t n = f->text.n;
    ft_status status = append(f, r->tokens, r->n, err);
    if (status != FT_OK)
        return status;
    const ft_spelling next = next_of(f, -1, 0);
    f->found.n = 1;
    f->found.text = true;
    f->found.n_text = (uint32_t)f->text.n;
    f->found.leaf[0].next = next;
    if (!is_sure(f, next)) {
        f->text.n = n;
        return FT_OK;
    }
    grown(f, r->tokens, r->n);
    f->root = next;
    *r->children = child_of(f, next);
    r->answered = 1;
    return FT_OK;
}

static void force_leaves(forced *f, ft_draft_request *r)
{
    f->found.n = r->n;
    f->found.text = false;
    f->found.n_text = (uint32_t)f->text.n;
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t at = f->base.n_pending;
        node *leaf = &f->pending[at];
        assert(at < FT_DRAFT_PENDING);
        *leaf = leaf_of(r, i);
        leaf->next = next_of(f, (int32_t)at, leaf->depth + 1u);
        f->found.leaf[i] = *leaf;
        if (!is_sure(f, leaf->next))
            continue;
        r->children[i] = child_of(f, leaf->next);
        r->answered |= UINT64_C(1) << i;
        f->base.n_pending++;
    }
}

/* ---- what the inner source lacks ---- */

/* Has it forget its pending nodes. */
static void inner_forget(forced *f)
{
    for (uint32_t k = 0; k < FT_DRAFT_PENDING; k++)
        f->pending[k].in_inner = -1;
    f->inner->ops->truncate(f->inner, f->inner->n_past);
}

static ft_status inner_forward(forced *f, ft_draft_request *r, ft_error *err)
{
    r->source = f->inner;
    ft_status status = f->inner->ops->forward(r, 1, err);
    return status != FT_OK ? status : r->status;
}

/* Brings its text up to n tokens at least. */
static ft_status read_text(forced *f, uint32_t n, ft_error *err)
{
    ft_status status = FT_OK;
    while (status == FT_OK && f->inner->n_past < n) {
        ft_draft_request r = {.n = ft_min_u32(n - f->inner->n_past, f->inner->max_text),
                              .tokens = f->text.id + f->inner->n_past};
        status = inner_forward(f, &r, err);
    }
    return status;
}

/* Adds a pending node to the errand. Its ancestors are in the inner source, or in the errand. */
static void add_node(forced *f, uint32_t k)
{
    errand *e = &f->errand;
    node *at = &f->pending[k];
    const uint32_t first = f->inner->n_pending;
    const uint32_t lag = e->n_lag;
    e->node[e->n] = k;
    e->tokens[e->n] = at->token;
    e->parents[e->n] = at->parent >= 0 ? f->pending[at->parent].in_inner : (int32_t)lag - 1;
    e->depths[e->n] = (uint16_t)(at->depth + lag);
    at->in_inner = (int16_t)(first + e->n);
    e->n++;
}

/* An errand begins with the text that the inner source lacks. */
static void begin_errand(forced *f)
{
    errand *e = &f->errand;
    e->n = e->n_lag = f->base.n_past - f->inner->n_past;
    for (uint32_t i = 0; i < e->n_lag; i++) {
        e->tokens[i] = f->text.id[f->inner->n_past + i];
        e->parents[i] = (int32_t)i - 1;
        e->depths[i] = (uint16_t)i;
    }
}

/* The inner source did it: its lagging text is committed, its nodes have their numbers. */
static ft_status end_errand(forced *f, ft_error *err)
{
    errand *e = &f->errand;
    uint32_t path[FT_DRAFT_LEAVES], keep[FT_DRAFT_LEAVES];
    if (e->n_lag == 0)
        return FT_OK;
    for (uint32_t i = 0; i < e->n; i++)
        *(i < e->n_lag ? &path[i] : &keep[i - e->n_lag]) = i;
    for (uint32_t i = e->n_lag; i < e->n; i++)
        f->pending[e->node[i]].in_inner = (int16_t)(i - e->n_lag);
    return f->inner->ops->commit(f->inner, path, e->n_lag, keep, e->n - e->n_lag, err);
}

/* Adds to nodes[n] the node `at` and those above it, as far as the inner source and nodes[] lack
 * them, parents first. Returns how many there are then. */
static uint32_t add_missing(const forced *f, int32_t at, uint32_t *nodes, uint32_t n)
{
    uint32_t up = 0;
    for (int32_t k = at; k >= 0 && f->pending[k].in_inner < 0; k = f->pending[k].parent) {
        uint32_t i = 0;
        while (i < n && nodes[i] != (uint32_t)k)
            i++;
        if (i < n)
            break;
        up++;
    }
    for (uint32_t i = up; i-- > 0; at = f->pending[at].parent)
        nodes[n + i] = (uint32_t)at;
    return n + up;
}

/* Has the inner source compute nodes [n], whose children nobody wants, apart from the leaves. */
static ft_status compute_apart(forced *f, const uint32_t *nodes, uint32_t n, ft_error *err)
{
    ft_status status = read_text(f, f->base.n_past, err);
    for (uint32_t i = 0; i < n && status == FT_OK;) {
        begin_errand(f);
        for (; i < n && f->errand.n < f->inner->max_leaves; i++)
            add_node(f, nodes[i]);
        ft_draft_request r = {.n = f->errand.n,
                              .tokens = f->errand.tokens,
                              .parents = f->errand.parents,
                              .depths = f->errand.depths,
                              .children = f->errand.children,
                              .unwanted = UINT64_MAX >> (64 - f->errand.n)};
        status = inner_forward(f, &r, err);
    }
    return status;
}

/* ---- with the inner source ---- */

/* What the same question found before, or finds now. */
static ft_spelling found_before(forced *f, uint32_t i, const node *leaf)
{
    const node *was = &f->found.leaf[i];
    const bool same = i < f->found.n && !f->found.text && f->found.n_text == f->text.n &&
                      was->token == leaf->token && was->parent == leaf->parent;
    return same ? was->next : next_of(f, (int32_t)(f->base.n_pending + i), leaf->depth + 1u);
}

/* The request becomes one to the inner source, *out. FT_EXHAUSTED: that has no room. */
static ft_status ask_leaves(forced *f, const ft_draft_request *r, ft_error *err,
                            ft_draft_request *out)
{
    const uint32_t first = f->base.n_pending;
    uint32_t nodes[FT_DRAFT_PENDING], n = 0;
    ft_status status = FT_OK;
    assert(first + r->n <= FT_DRAFT_PENDING);
    for (uint32_t i = 0; i < r->n; i++)
        f->pending[first + i] = leaf_of(r, i);
    for (uint32_t i = 0; i < r->n; i++)
        f->pending[first + i].next = found_before(f, i, &f->pending[first + i]);
    if (!f->inner)
        return FT_OK;
    for (uint32_t i = 0; i < r->n; i++)
        n = add_missing(f, r->parents[i], nodes, n);
    if (f->base.n_past - f->inner->n_past + n + r->n > f->inner->max_leaves) {
        status = compute_apart(f, nodes, n, err);
        n = 0;
    }
    if (status != FT_OK)
        return status;
    begin_errand(f);
    for (uint32_t i = 0; i < n; i++)
        add_node(f, nodes[i]);
    for (uint32_t i = 0; i < r->n; i++)
        add_node(f, first + i);
    *out = *r;
    out->source = f->inner;
    out->n = f->errand.n;
    out->tokens = f->errand.tokens;
    out->parents = f->errand.parents;
    out->depths = f->errand.depths;
    out->children = f->errand.children;
    out->unwanted = f->errand.n > r->n ? UINT64_MAX >> (64 - (f->errand.n - r->n)) : 0;
    return FT_OK;
}

static ft_status take_leaves(forced *f, ft_draft_request *r, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < r->n; i++) {
        r->children[i] = (ft_draft_children){0};
        if (f->inner)
            r->children[i] = f->errand.children[f->errand.n - r->n + i];
        if (!f->base.forces)
            add_forced(f, f->pending[f->base.n_pending + i].next, &r->children[i]);
    }
    if (f->inner)
        status = end_errand(f, err);
    f->base.n_pending += r->n;
    return status;
}

/* The same for text: all of it that the inner source lacks. */
static ft_status ask_text(forced *f, const ft_draft_request *r, ft_error *err,
                          ft_draft_request *out)
{
    const uint32_t n = f->base.n_past + r->n;
    ft_status status = append(f, r->tokens, r->n, err);
    if (status != FT_OK || !f->inner)
        return status;
    *out = *r;
    if (n - f->inner->n_past > f->inner->max_text)
        status = read_text(f, n - f->inner->max_text, err);
    out->source = f->inner;
    out->n = n - f->inner->n_past;
    out->tokens = f->text.id + f->inner->n_past;
    return status;
}

static void take_text(forced *f, ft_draft_request *r)
{
    const bool same = f->found.text && f->found.n == 1 && f->found.n_text == f->text.n;
    grown(f, r->tokens, r->n);
    if (!r->children)
        return;
    f->root = same ? f->found.leaf[0].next : next_of(f, -1, 0);
    if (!f->inner)
        *r->children = (ft_draft_children){0};
    if (!f->base.forces)
        add_forced(f, f->root, r->children);
}

/* The inner source has no room: nothing happened. */
static void undo(forced *f)
{
    f->text.n = f->base.n_past;
    if (f->inner)
        inner_forget(f);
}

/* ---- a source ---- */

static ft_status ask(ft_draft_request *r, ft_error *err, ft_draft_request *out)
{
    forced *f = (forced *)r->source;
    return r->parents ? ask_leaves(f, r, err, out) : ask_text(f, r, err, out);
}

static ft_status take(ft_draft_request *r, ft_error *err)
{
    forced *f = (forced *)r->source;
    if (r->parents)
        return take_leaves(f, r, err);
    take_text(f, r);
    return FT_OK;
}

static ft_status force(ft_draft_request *r, ft_error *err)
{
    forced *f = (forced *)r->source;
    r->answered = 0;
    if (!r->parents)
        return force_text(f, r, err);
    force_leaves(f, r);
    return FT_OK;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_draft_request inner[FT_DRAFT_BATCH];
    size_t of[FT_DRAFT_BATCH], k = 0;
    ft_status status = FT_OK;
    assert(n > 0 && n <= FT_DRAFT_BATCH);
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        ft_draft_request *r = &requests[i];
        r->status = r->forced_only ? force(r, err) : ask(r, err, &inner[k]);
        if (r->status == FT_OK && !r->forced_only)
            of[k++] = i;
        status = r->status == FT_EXHAUSTED ? FT_OK : r->status;
    }
    if (status == FT_OK && k > 0 && ((forced *)requests[of[0]].source)->inner) {
        status = inner->source->ops->forward(inner, k, err);
        for (size_t i = 0; i < k; i++)
            requests[of[i]].status = inner[i].status;
    }
    for (size_t i = 0; i < n && status == FT_OK; i++)
        if (requests[i].status == FT_EXHAUSTED)
            undo((forced *)requests[i].source);
        else if (!requests[i].forced_only)
            status = take(&requests[i], err);
    return status;
}

static bool before(const void *ctx, const void *a, const void *b)
{
    const node *pending = ctx;
    return pending[*(const uint32_t *)a].in_inner < pending[*(const uint32_t *)b].in_inner;
}

/* The same commit in the inner source, as far as it has the nodes. */
static ft_status inner_commit(forced *f, const uint32_t *path, uint32_t n_path,
                              const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    uint32_t numbers[FT_DRAFT_PENDING], kept[FT_DRAFT_PENDING], n = 0, k = 0;
    while (n < n_path && f->pending[path[n]].in_inner >= 0) {
        numbers[n] = (uint32_t)f->pending[path[n]].in_inner;
        n++;
    }
    for (uint32_t i = 0; i < n_keep; i++) /* behind text that it lacks it has none */
        if (n == n_path && f->pending[keep[i]].in_inner >= 0)
            kept[k++] = keep[i];
        else
            f->pending[keep[i]].in_inner = -1;
    ft_sort(kept, k, sizeof *kept, before, f->pending);
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t number = (uint32_t)f->pending[kept[i]].in_inner;
        f->pending[kept[i]].in_inner = (int16_t)i;
        kept[i] = number;
    }
    return f->inner->ops->commit(f->inner, numbers, n, kept, k, err);
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    forced *f = (forced *)source;
    int32_t moved[FT_DRAFT_PENDING];
    ft_status status = FT_OK;
    if (f->inner && f->inner->n_past == source->n_past)
        status = inner_commit(f, path, n_path, keep, n_keep, err);
    for (uint32_t i = 0; i < n_path && status == FT_OK; i++) {
        const node *at = &f->pending[path[i]];
        status = append(f, &at->token, 1, err);
        if (status == FT_OK) {
            grown(f, &at->token, 1);
            f->root = at->next;
        }
    }
    memset(moved, 0xff, sizeof moved); /* -1: a parent that is not kept is the text's last token */
    for (uint32_t i = 0; i < n_keep; i++) {
        node kept = f->pending[keep[i]]; /* i <= keep[i] */
        kept.parent = kept.parent < 0 ? -1 : moved[kept.parent];
        kept.depth = (uint16_t)(kept.depth - n_path);
        f->pending[i] = kept;
        moved[keep[i]] = (int32_t)i;
    }
    source->n_pending = n_keep;
    return status;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    forced *f = (forced *)source;
    f->text.n = source->n_past = n_past;
    source->n_pending = 0;
    f->root = (ft_spelling){0};
    f->found.n = 0;
    for (uint32_t k = 0; k < FT_DRAFT_PENDING; k++)
        f->pending[k].in_inner = -1;
    if (f->inner)
        f->inner->ops->truncate(f->inner, ft_min_u32(n_past, f->inner->n_past));
}

static uint32_t room_tok(const ft_draft_source *source)
{
    const forced *f = (const forced *)source;
    return f->inner ? f->inner->ops->room_tok(f->inner) : UINT32_MAX;
}

static void destroy(ft_draft_source *source)
{
    forced *f = (forced *)source;
    ft_draft_source_destroy(f->inner);
    ft_tokens_deinit(&f->text);
    ft_speller_deinit(&f->speller);
    free(f);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

ft_status ft_forced_source(ft_draft_source *inner, const ft_forced_opts *opts, const void *group,
                           ft_error *err, ft_draft_source **out)
{
    forced *f = calloc(1, sizeof *f);
    assert(opts->sampling->matcher && (!inner || inner->evidence_bytes == 0));
    *out = NULL;
    if (!f) {
        ft_draft_source_destroy(inner);
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    }
    f->base = (ft_draft_source){.n_ctx = opts->n_ctx,
                                .n_vocab = (uint32_t)ft_vocab_size(opts->vocab),
                                .max_text = FT_DRAFT_FEED,
                                .max_leaves = FT_DRAFT_LEAVES,
                                .sparse = true,
                                .total_tok = UINT32_MAX};
    if (inner)
        f->base = *inner; /* the limits */
    f->base.ops = &ops;
    f->base.group = group;
    f->base.forces = !f->base.sparse;
    f->inner = inner;
    f->speller = (ft_speller){.vocab = opts->vocab,
                              .sampling = opts->sampling,
                              .seen = opts->seen,
                              .tenant = opts->tenant};
    *out = &f->base;
    return FT_OK;
}
