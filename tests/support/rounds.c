// SPDX-License-Identifier: Apache-2.0
// Drafts and verdicts as a test's edge makes and reads them.
#include "support/rounds.h"

#include <stdio.h>
#include <string.h>

void test_text_init(test_text *text, const int32_t *prompt, uint32_t n)
{
    memset(text, 0, sizeof *text);
    memcpy(text->token, prompt, n * sizeof *prompt);
    text->n = text->n_prompt = n;
}

void test_text_random(test_text *text, uint32_t n, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    memset(text, 0, sizeof *text);
    for (uint32_t i = 0; i < n; i++)
        text->token[i] = 3 + (int32_t)ft_rng_below(&rng, 256);
    text->n = text->n_prompt = n;
}

static bool add_node(ft_msg_draft *d, int32_t parent, int32_t token)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->parent[i] == parent && d->token[i] == token)
            return false;
    d->parent[d->n] = parent;
    d->token[d->n++] = token;
    return true;
}

test_edge test_edge_make(test_style style, const test_text *ref, uint32_t n_vocab, uint64_t seed)
{
    test_edge edge = {.style = style, .ref = ref, .max_tree = 32, .n_vocab = n_vocab};
    ft_rng_init(&edge.rng, seed);
    return edge;
}

static int32_t any_token(test_edge *e)
{
    return (int32_t)ft_rng_below(&e->rng, e->n_vocab);
}

/* What the target says at a position, or a random token where nobody knows. */
static int32_t said(test_edge *e, uint32_t at)
{
    return e->ref && at < e->ref->n ? e->ref->token[at] : any_token(e);
}

static void draft_tree(ft_msg_draft *d, test_edge *e, const test_text *text)
{
    uint32_t depth[FT_WIRE_TREE_MAX], nodes = 1 + ft_rng_below(&e->rng, e->max_tree);
    for (uint32_t tries = 0; d->n < nodes && tries < 4 * nodes; tries++) {
        uint32_t i = d->n;
        int32_t parent = (int32_t)ft_rng_below(&e->rng, i + 1) - 1;
        uint32_t at = parent < 0 ? 0 : depth[parent] + 1;
        bool wish = ft_rng_below(&e->rng, 2) == 0;
        if (add_node(d, parent, wish ? said(e, text->n + at) : any_token(e)))
            depth[i] = at;
    }
}

void test_draft(ft_msg_draft *draft, test_edge *edge, const test_text *text)
{
    uint32_t chain = 1 + ft_rng_below(&edge->rng, edge->max_tree < 8 ? edge->max_tree : 8);
    test_style style = edge->style;
    memset(draft, 0, sizeof *draft);
    draft->round = text->rounds + 1;
    draft->base = text->n;
    if (style == TEST_DRAFT_MIXED)
        style = (test_style)ft_rng_below(&edge->rng, TEST_DRAFT_MIXED);
    if (style == TEST_DRAFT_PERFECT || style == TEST_DRAFT_WRONG)
        for (uint32_t i = 0; i < chain; i++)
            add_node(draft, (int32_t)i - 1,
                     style == TEST_DRAFT_PERFECT ? said(edge, text->n + i) : any_token(edge));
    if (style == TEST_DRAFT_RUN)
        draft->run = 2 + ft_rng_below(&edge->rng, 12);
    if (style == TEST_DRAFT_TREE)
        draft_tree(draft, edge, text);
}

bool test_apply(test_text *text, const ft_msg_draft *draft, const ft_msg_verdict *verdict)
{
    int32_t parent = -1;
    if (verdict->round != draft->round || text->n != draft->base)
        return false;
    for (uint32_t i = 0; i < verdict->n_path; i++) {
        uint32_t node = verdict->path[i];
        if (node >= draft->n || draft->parent[node] != parent || text->n == TEST_TEXT_MAX)
            return false;
        text->token[text->n++] = draft->token[node];
        parent = (int32_t)node;
    }
    for (uint32_t i = 0; i < verdict->n_next && text->n < TEST_TEXT_MAX; i++)
        text->token[text->n++] = verdict->next[i];
    text->rounds++;
    text->accepted += verdict->n_path;
    text->finish = verdict->finish;
    return text->n == verdict->length && (verdict->n_next || verdict->finish);
}

bool test_text_equal(const test_text *a, const test_text *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n;
    for (uint32_t i = 0; i < n; i++)
        if (a->token[i] != b->token[i]) {
            fprintf(stderr, "texts differ at %u of %u: %d and %d\n", i, a->n, a->token[i],
                    b->token[i]);
            return false;
        }
    if (a->n != b->n || a->finish != b->finish)
        fprintf(stderr, "lengths %u and %u, finish %d and %d\n", a->n, b->n, a->finish, b->finish);
    return a->n == b->n && a->finish == b->finish;
}
