// SPDX-License-Identifier: Apache-2.0
// Lookups in the text's own n-grams (ngrams.h) as a draft source. What is found is ranked by the
// length of its match; how often the first, the second and so on held is counted by that length.
// (Ranking by context and counting by rank is Fenwick's symbol ranking, 1996.)
//
// Invariants:
//   1. the index holds the source's committed tokens; pending nodes are in `node` alone;
//   2. each token of the text is counted once, when it is committed for the first time, by what
//      would have been proposed for it. So nothing need be drafted to learn whether drafts pay.
// Owned by one thread at a time. Only the index allocates, when the text doubles.
#include "spec/lookup.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "spec/constrained.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->lookup)

/* How often the first of what was found holds, by class of length, before anything was seen. From
 * English prose and code. It counts for TUNE.prior tokens only. */
static const float expected[FT_LOOKUP_LENGTHS] = {0.12f, 0.25f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f};
#define LATER_HOLDS 0.25f /* the next in the ranking, over what the ones before leave */

#define CHANCE_MOST  0.99f
#define CHANCE_LEAST 1e-6f
#define BEGIN_MATCH  5 /* tokens that a prediction's beginning counts for as a match */

typedef struct node {
    int32_t token, parent; /* parent: a pending number, -1: the text's last token */
} node;

typedef struct lookup {
    ft_draft_source base;
    ft_ngrams *ngrams;
    ft_lookup_opts how; /* its prediction: not used, the index has it */
    ft_lookup_rates rates;
    uint32_t counted; /* tokens of the text that were counted */
    node pending[FT_DRAFT_PENDING];
} lookup;

/* ---- how often matches held ---- */

static uint32_t class_of(const ft_ngrams_match *match)
{
    static const uint8_t least[FT_LOOKUP_LENGTHS] = {0, 3, 4, 5, 7, 10, 16, 32};
    uint32_t c = FT_LOOKUP_LENGTHS - 1;
    while (match->length < least[c])
        c--;
    return match->seen > 1 ? ft_min_u32(c + 1, FT_LOOKUP_LENGTHS - 1) : c;
}

/* Before anything was seen of matches of this class in this place. If shorter ones hold less often
 * than expected, so will these. */
static float guess(const ft_lookup_held *of, uint32_t class, uint32_t place)
{
    float chance = place > 0 ? LATER_HOLDS * (1 - expected[class]) : expected[class];
    for (uint32_t i = 1; i < place; i++)
        chance *= LATER_HOLDS;
    for (uint32_t c = class; place == 0 && c-- > 0;)
        if (of[c].times > 0)
            return chance * fminf(of[c].held / of[c].times / expected[c], 1);
    return chance;
}

float ft_lookup_chance(const ft_lookup_rates *rates, const ft_ngrams_match *match, uint32_t place)
{
    const ft_lookup_held *of = rates->of[match->predicted][place];
    const uint32_t c = class_of(match);
    const float chance = of[c].times > 0 ? of[c].held / of[c].times : guess(of, c, place);
    return fminf(fmaxf(chance, CHANCE_LEAST), CHANCE_MOST);
}

/* The first guess fades, too: matches that never hold are worth nothing in the end. */
void ft_lookup_saw(ft_lookup_rates *rates, const ft_ngrams_match *found, uint32_t n, int32_t token)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t c = class_of(&found[i]);
        ft_lookup_held *of = rates->of[found[i].predicted][i], *held = &of[c];
        if (held->times == 0)
            *held = (ft_lookup_held){TUNE.prior, TUNE.prior * guess(of, c, i)};
        held->times = TUNE.fade * held->times + 1;
        held->held = TUNE.fade * held->held + (found[i].token == token);
    }
}

void ft_lookup_doubt(ft_lookup_rates *rates)
{
    ft_lookup_held *of = &rates->of[0][0][0];
    for (size_t i = 0; i < sizeof rates->of / sizeof *of; i++) {
        const float share = TUNE.prompt / fmaxf(of[i].times, TUNE.prompt);
        of[i].times *= share;
        of[i].held *= share;
    }
}

/* ---- searching ---- */

/* The prediction's next token, if the answer is its beginning so far and too short for an n-gram.
 * n: tokens before the one that is searched for. */
static bool find_begin(const lookup *l, const int32_t *last, uint32_t n, ft_ngrams_match *match)
{
    const uint32_t at = n - l->how.n_prompt; /* in the answer */
    if (n < l->how.n_prompt || at >= FT_NGRAMS_SHORT || at >= l->how.n_prediction)
        return false;
    for (uint32_t i = 0; i < at; i++)
        if (last[i] != ft_ngrams_predicted(l->ngrams, at - 1 - i))
            return false;
    *match = (ft_ngrams_match){.token = ft_ngrams_predicted(l->ngrams, at),
                               .length = BEGIN_MATCH + at,
                               .seen = 1,
                               .predicted = true};
    return true;
}

/* Takes out what the constraint does not let follow node `at`, `depth` tokens behind the text. */
static uint32_t keep_legal(const lookup *l, int32_t at, uint32_t depth,
                           ft_ngrams_match found[FT_NGRAMS_MOST], uint32_t n)
{
    const ft_sampling *s = l->how.sampling;
    const uint32_t length = ft_ngrams_length(l->ngrams);
    int32_t path[FT_DRAFT_PENDING];
    uint32_t kept = 0;
    if (n == 0 || !s || !s->matcher || length + depth < s->answer_at)
        return n;
    for (uint32_t i = depth; i-- > 0; at = l->pending[at].parent)
        path[i] = l->pending[at].token;
    const ft_past past = {
        .text = ft_ngrams_text(l->ngrams), .n_text = length, .path = path, .n_path = depth};
    if (!ft_constrained_follow(s, &past))
        return n;
    for (uint32_t i = 0; i < n; i++) {
        found[kept] = found[i];
        kept += ft_matcher_allows(s->matcher, found[i].token);
    }
    return kept;
}

static uint32_t find_any(const lookup *l, int32_t at, uint32_t depth,
                         ft_ngrams_match found[FT_NGRAMS_MOST])
{
    int32_t last[FT_NGRAMS_MATCH];
    uint32_t n = 0, text = ft_ngrams_length(l->ngrams);
    const uint32_t length = text + depth;
    ft_ngrams_match begin;
    for (; at >= 0 && n < FT_NGRAMS_MATCH; at = l->pending[at].parent)
        last[n++] = l->pending[at].token;
    while (n < FT_NGRAMS_MATCH && text > 0)
        last[n++] = ft_ngrams_token(l->ngrams, --text);
    uint32_t n_found = ft_ngrams_find(l->ngrams, last, n, found);
    if (!find_begin(l, last, length, &begin))
        return n_found;
    uint32_t known = 0;
    while (known < n_found && found[known].token != begin.token)
        known++;
    if (known == n_found && n_found < FT_NGRAMS_MOST)
        n_found++;
    known = ft_min_u32(known, FT_NGRAMS_MOST - 1);
    memmove(found + 1, found, known * sizeof *found);
    found[0] = begin;
    return n_found;
}

/* What follows node `at` (-1: the text's last token), which is `depth` tokens behind the text. */
static uint32_t find(const lookup *l, int32_t at, uint32_t depth,
                     ft_ngrams_match found[FT_NGRAMS_MOST])
{
    return keep_legal(l, at, depth, found, find_any(l, at, depth, found));
}

static void children_of(const lookup *l, int32_t at, uint32_t depth, ft_draft_children *out)
{
    ft_ngrams_match found[FT_NGRAMS_MOST];
    const uint32_t n = find(l, at, depth, found);
    float chance[FT_NGRAMS_MOST], sum = 0;
    *out = (ft_draft_children){0};
    for (uint32_t i = 0; i < n; i++)
        sum += chance[i] = ft_lookup_chance(&l->rates, &found[i], i);
    const float scale = sum > CHANCE_MOST ? CHANCE_MOST / sum : 1;
    for (uint32_t i = 0; i < n; i++) {
        const ft_draft_child child = {found[i].token, logf(scale * chance[i])};
        uint32_t to = out->n++;
        for (; to > 0 && out->at[to - 1].logp < child.logp; to--)
            out->at[to] = out->at[to - 1];
        out->at[to] = child;
    }
}

/* ---- the text ---- */

static ft_status append(lookup *l, int32_t token, ft_error *err)
{
    ft_ngrams_match found[FT_NGRAMS_MOST];
    const uint32_t n = ft_ngrams_length(l->ngrams);
    if (n >= l->counted) {
        if (n == l->how.n_prompt)
            ft_lookup_doubt(&l->rates);
        ft_lookup_saw(&l->rates, found, find(l, -1, 0, found), token);
        l->counted = n + 1;
    }
    ft_status status = ft_ngrams_append(l->ngrams, &token, 1, err);
    l->base.n_past = ft_ngrams_length(l->ngrams);
    return status;
}

static ft_status read_text(lookup *l, const ft_draft_request *r, ft_error *err)
{
    assert(l->base.n_pending == 0);
    for (uint32_t i = 0; i < r->n; i++) {
        ft_status status = append(l, r->tokens[i], err);
        if (status != FT_OK)
            return status;
    }
    if (r->children)
        children_of(l, -1, 0, r->children);
    return FT_OK;
}

static void read_leaves(lookup *l, const ft_draft_request *r)
{
    assert(l->base.n_pending + r->n <= FT_DRAFT_PENDING);
    for (uint32_t i = 0; i < r->n; i++)
        l->pending[l->base.n_pending + i] = (node){r->tokens[i], r->parents[i]};
    for (uint32_t i = 0; i < r->n && r->children; i++)
        children_of(l, (int32_t)(l->base.n_pending + i), r->depths[i] + 1u, &r->children[i]);
    l->base.n_pending += r->n;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        lookup *l = (lookup *)requests[i].source;
        if (requests[i].parents)
            read_leaves(l, &requests[i]);
        else
            status = read_text(l, &requests[i], err);
        requests[i].status = status;
    }
    return status;
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    lookup *l = (lookup *)source;
    int32_t moved[FT_DRAFT_PENDING];
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n_path && status == FT_OK; i++)
        status = append(l, l->pending[path[i]].token, err);
    memset(moved, 0xff, sizeof moved); /* -1: a parent that is not kept is the text's last token */
    for (uint32_t k = 0; k < n_keep; k++) {
        const node old = l->pending[keep[k]]; /* k <= keep[k] */
        l->pending[k] = (node){old.token, old.parent < 0 ? -1 : moved[old.parent]};
        moved[keep[k]] = (int32_t)k;
    }
    source->n_pending = n_keep;
    return status;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    lookup *l = (lookup *)source;
    ft_ngrams_truncate(l->ngrams, n_past);
    source->n_past = n_past;
    source->n_pending = 0;
}

static uint32_t room_tok(const ft_draft_source *source)
{
    (void)source;
    return UINT32_MAX;
}

static void destroy(ft_draft_source *source)
{
    ft_ngrams_destroy(((lookup *)source)->ngrams);
    free(source);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

ft_status ft_lookup_source(const ft_lookup_opts *opts, const void *group, ft_error *err,
                           ft_draft_source **out)
{
    lookup *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return ft_error_set(err, FT_NOMEM, "lookup: out of memory");
    ft_status status = ft_ngrams_create(opts->prediction, opts->n_prediction, err, &l->ngrams);
    if (status != FT_OK) {
        free(l);
        return status;
    }
    l->base = (ft_draft_source){.ops = &ops,
                                .group = group,
                                .n_ctx = opts->n_ctx,
                                .n_vocab = opts->n_vocab,
                                .max_text = FT_DRAFT_FEED,
                                .max_leaves = FT_DRAFT_LEAVES,
                                .sparse = true,
                                .total_tok = UINT32_MAX};
    l->how = *opts;
    l->how.prediction = NULL;
    *out = &l->base;
    return FT_OK;
}
