// SPDX-License-Identifier: Apache-2.0
// What a constraint forces, before a draft model, before lookups and alone: it takes no forward;
// what the model says behind it is what it says to one who has read all of it; trees are as deep as
// what is forced; a full KV pool.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "engine/engine.h"
#include "spec/constrained.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"
#include "spec/forced.h"
#include "spec/lookup.h"
#include "spec/rule.h"
#include "support/drafts.h"
#include "support/tiny_model.h"

enum { PROMPT = 30, TEXT_MAX = 400, N_VOCAB = 320 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct fixture {
    ft_model *model;
    ft_vocab *vocab;
    ft_engine *engine, *other;
    ft_grammar *grammar;
    ft_sampling sampling, plain; /* with a matcher each; plain: of who reads all */
    int32_t prompt[PROMPT];
} fixture;

static void init(fixture *f, const char *regex, uint32_t kv_tok)
{
    const ft_constraint c = {FT_CONSTRAINT_REGEX, regex, strlen(regex)};
    ft_constrain_vocab *tokens;
    if (!ft_constrain_available())
        skip();
    tiny_quiet();
    *f = (fixture){.model = test_draft_model(GGML_TYPE_Q4_0, 3, 512), .vocab = tiny_vocab()};
    f->engine = test_draft_engine(f->model, kv_tok, 64);
    f->other = test_draft_engine(f->model, 1024, 64);
    test_draft_prompt(f->prompt, PROMPT, 0);
    const ft_constrain_tokens of = ft_constrained_tokens(f->vocab);
    must(ft_constrain_vocab_create(&of, &err, &tokens));
    must(ft_grammar_compile(tokens, &c, NULL, &err, &f->grammar));
    ft_constrain_vocab_destroy(tokens);
    f->sampling = f->plain = (ft_sampling){.top_p = 1, .answer_at = PROMPT};
    must(ft_matcher_create(f->grammar, &err, &f->sampling.matcher));
    must(ft_matcher_create(f->grammar, &err, &f->plain.matcher));
}

static void deinit(fixture *f)
{
    ft_matcher_destroy(f->sampling.matcher);
    ft_matcher_destroy(f->plain.matcher);
    ft_grammar_unref(f->grammar);
    ft_engine_destroy(f->engine);
    ft_engine_destroy(f->other);
    ft_model_destroy(f->model);
    ft_vocab_destroy(f->vocab);
}

static ft_draft_source *model_source(ft_engine *engine, const ft_sampling *s)
{
    ft_draft_source *source = NULL;
    must(ft_draft_engine_source(engine, &ft_rule_exact, NULL, s, &err, &source));
    return source;
}

/* Takes `inner`. */
static ft_draft_source *forced_source(fixture *f, ft_draft_source *inner)
{
    const ft_forced_opts opts = {.vocab = f->vocab, .sampling = &f->sampling, .n_ctx = TEXT_MAX};
    ft_draft_source *source = NULL;
    must(ft_forced_source(inner, &opts, f, &err, &source));
    return source;
}

/* ---- beside a model that reads all ---- */

typedef struct leaf {
    int32_t token, parent;
    uint16_t depth;
} leaf;

/* A text, the nodes behind it, and who has read them. */
typedef struct walk {
    fixture *f;
    ft_draft_source *forced, *plain;
    int32_t text[TEXT_MAX];
    uint32_t n, n_pending;
    leaf pending[FT_DRAFT_PENDING];
    uint32_t n_free, n_asked;
} walk;

static uint32_t path_to(const walk *w, int32_t node, int32_t *path)
{
    const uint32_t n = node < 0 ? 0 : w->pending[node].depth + 1u;
    for (uint32_t i = n; i-- > 0; node = w->pending[node].parent)
        path[i] = w->pending[node].token;
    return n;
}

/* A token that may follow a node and is no child of it; -1: there is none. */
static int32_t any_child(walk *w, int32_t node)
{
    int32_t path[FT_DRAFT_PENDING], tokens[N_VOCAB];
    const ft_past past = {
        .text = w->text, .n_text = w->n, .path = path, .n_path = path_to(w, node, path)};
    uint32_t n = 0;
    if (!ft_constrained_follow(&w->f->plain, &past))
        return -1;
    for (int32_t t = 0; t < N_VOCAB; t++) {
        bool is = ft_matcher_allows(w->f->plain.matcher, t);
        for (uint32_t i = 0; i < w->n_pending; i++)
            is = is && (w->pending[i].parent != node || w->pending[i].token != t);
        if (is)
            tokens[n++] = t;
    }
    return n > 0 ? tokens[rand() % (int)n] : -1;
}

/* What the model that has read all says behind a node. */
static ft_draft_children said_by_plain(walk *w, int32_t node)
{
    int32_t tail[FT_DRAFT_PENDING + 1];
    ft_draft_children children = {0};
    ft_draft_source *p = w->plain;
    p->ops->truncate(p, p->n_past < w->n - 1 ? p->n_past : w->n - 1);
    while (p->n_past < w->n - 1) {
        const uint32_t left = w->n - 1 - p->n_past;
        ft_draft_request r = {.source = p,
                              .n = left < p->max_text ? left : p->max_text,
                              .tokens = w->text + p->n_past};
        must(p->ops->forward(&r, 1, &err));
    }
    tail[0] = w->text[w->n - 1];
    ft_draft_request r = {
        .source = p, .n = 1 + path_to(w, node, tail + 1), .tokens = tail, .children = &children};
    must(p->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_OK);
    p->ops->truncate(p, w->n - 1);
    return children;
}

static void check_same(const ft_draft_children *a, const ft_draft_children *b)
{
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_int_equal(a->at[i].token, b->at[i].token);
        assert_true(fabsf(a->at[i].logp - b->at[i].logp) < 1e-4f);
    }
}

/* One that is said to be sure may follow. */
static void check_forced(walk *w, int32_t node, const ft_draft_children *children)
{
    int32_t path[FT_DRAFT_PENDING];
    const ft_past past = {
        .text = w->text, .n_text = w->n, .path = path, .n_path = path_to(w, node, path)};
    assert_int_equal(children->n, 1);
    assert_true(children->counted);
    assert_true(ft_constrained_follow(&w->f->plain, &past));
    assert_true(ft_matcher_allows(w->f->plain.matcher, children->at[0].token));
    w->n_free++;
}

/* Up to three leaves behind random nodes: first what is forced, then the others. */
static void grow(walk *w)
{
    int32_t tokens[3], parents[3];
    uint16_t depths[3];
    ft_draft_children children[3];
    uint32_t n = 0;
    for (uint32_t i = 0, most = w->n_pending; i < 3; i++) {
        const int32_t parent = (int32_t)(rand() % (int)(most + 1)) - 1;
        const int32_t token = any_child(w, parent);
        bool twice = token < 0 || ft_vocab_is_eog(w->f->vocab, token);
        for (uint32_t k = 0; k < n; k++)
            twice = twice || (tokens[k] == token && parents[k] == parent);
        if (twice)
            continue;
        tokens[n] = token;
        parents[n] = parent;
        depths[n++] = (uint16_t)(parent < 0 ? 0 : w->pending[parent].depth + 1);
    }
    for (int pass = 0; pass < 2 && n > 0; pass++) {
        ft_draft_request r = {.source = w->forced,
                              .n = n,
                              .tokens = tokens,
                              .parents = parents,
                              .depths = depths,
                              .children = children,
                              .forced_only = pass == 0};
        must(w->forced->ops->forward(&r, 1, &err));
        assert_int_equal(r.status, FT_OK);
        const uint32_t was = n;
        n = 0;
        for (uint32_t i = 0; i < was; i++) {
            if (pass == 0 && (r.answered >> i & 1) == 0) {
                tokens[n] = tokens[i];
                parents[n] = parents[i];
                depths[n++] = depths[i];
                continue;
            }
            const int32_t node = (int32_t)w->n_pending;
            w->pending[w->n_pending++] = (leaf){tokens[i], parents[i], depths[i]};
            if (pass == 0) {
                check_forced(w, node, &children[i]);
                continue;
            }
            const ft_draft_children plain = said_by_plain(w, node);
            check_same(&children[i], &plain);
            w->n_asked++;
        }
        assert_int_equal(w->forced->n_pending, w->n_pending);
    }
}

/* The text goes on to a random node, and what is behind that is kept. */
static void advance(walk *w)
{
    uint32_t path[FT_DRAFT_PENDING], keep[FT_DRAFT_PENDING], n_keep = 0;
    int32_t moved[FT_DRAFT_PENDING], node = rand() % (int)w->n_pending;
    const uint32_t n_path = w->pending[node].depth + 1u;
    for (uint32_t i = n_path; i-- > 0; node = w->pending[node].parent)
        path[i] = (uint32_t)node;
    const int32_t end = (int32_t)path[n_path - 1];
    for (uint32_t i = 0; i < w->n_pending; i++) {
        const leaf at = w->pending[i];
        moved[i] = -1;
        if (at.parent != end && (at.parent < 0 || moved[at.parent] < 0))
            continue;
        moved[i] = (int32_t)n_keep;
        keep[n_keep++] = i;
    }
    must(w->forced->ops->commit(w->forced, path, n_path, keep, n_keep, &err));
    for (uint32_t i = 0; i < n_path; i++)
        w->text[w->n++] = w->pending[path[i]].token;
    for (uint32_t i = 0; i < n_keep; i++) {
        const leaf at = w->pending[keep[i]];
        w->pending[i] = (leaf){at.token, at.parent == end ? -1 : moved[at.parent],
                               (uint16_t)(at.depth - n_path)};
    }
    w->n_pending = n_keep;
    assert_int_equal(w->forced->n_past, w->n);
    assert_int_equal(w->forced->n_pending, n_keep);
}

/* The text goes on as `tokens` says: it and its end are read again. */
static void read_on(walk *w, uint32_t n)
{
    ft_draft_children children = {0};
    w->forced->ops->truncate(w->forced, w->n - n);
    for (int pass = 0; pass < 2; pass++) {
        ft_draft_request r = {.source = w->forced,
                              .n = n,
                              .tokens = w->text + w->n - n,
                              .children = &children,
                              .forced_only = pass == 0};
        must(w->forced->ops->forward(&r, 1, &err));
        assert_int_equal(r.status, FT_OK);
        if (pass == 0 && r.answered) {
            w->n_pending = 0;
            check_forced(w, -1, &children);
            break;
        }
        assert_int_equal(w->forced->n_past, pass == 0 ? w->n - n : w->n);
    }
    w->n_pending = 0;
    if (!children.counted) {
        const ft_draft_children plain = said_by_plain(w, -1);
        check_same(&children, &plain);
    }
    assert_int_equal(w->forced->n_past, w->n);
}

static void test_model_lacks_nothing(void **state)
{
    fixture f;
    static walk w;
    uint32_t n_ends = 0;
    init(&f, "(cabba=[a-f]{1,3};|dada=[0-9]{1,2},and baba\\.){1,40}end", 1024);
    w = (walk){.f = &f,
               .forced = forced_source(&f, model_source(f.engine, &f.sampling)),
               .plain = model_source(f.other, &f.plain),
               .n = PROMPT};
    memcpy(w.text, f.prompt, sizeof f.prompt);
    assert_true(w.forced->forces);
    read_on(&w, PROMPT);
    srand(11);
    for (int round = 0; round < 300; round++) {
        for (int i = rand() % 5; i >= 0 && w.n_pending < 80; i--)
            grow(&w);
        if (w.n_pending > 0 && rand() % 4 > 0)
            advance(&w);
        else if (rand() % 3 == 0)
            read_on(&w, 1 + (uint32_t)rand() % (w.n - PROMPT + 1));
        if (w.n < TEXT_MAX - 100 && any_child(&w, -1) >= 3)
            continue;
        n_ends++;
        w.n = PROMPT + 1;
        read_on(&w, 1);
    }
    assert_true(w.n_free > 100 && w.n_asked > 100);
    ft_draft_source_destroy(w.forced);
    ft_draft_source_destroy(w.plain);
    deinit(&f);
}

/* ---- trees ---- */

static ft_tree draft(ft_drafter *drafter, const ft_draft_params *params)
{
    ft_tree tree;
    must(ft_drafter_draft(drafter, params, &err, &tree));
    must(ft_tree_check(&tree, N_VOCAB, &err));
    return tree;
}

static uint64_t forwards_of(const ft_drafter *drafter)
{
    ft_drafter_stats stats;
    ft_drafter_get_stats(drafter, &stats);
    return stats.forwards;
}

/* A long forced text: as deep as there is room in the tree, for no forward, and then as many as the
 * depth says behind it. */
static void test_trees(void **state)
{
    fixture f;
    ft_drafter *drafter = NULL;
    bool more = true;
    init(&f, "0123456789:;<=>[a-f]{20}", 1024);
    must(ft_drafter_create(forced_source(&f, model_source(f.engine, &f.sampling)), &err, &drafter));
    must(ft_drafter_reset(drafter, f.prompt, PROMPT, &err));
    ft_draft_params params = ft_draft_params_tree(10, 2, 2);
    ft_tree tree = draft(drafter, &params);
    assert_int_equal(tree.n, 10);
    assert_int_equal(ft_tree_levels(&tree), 10);
    assert_int_equal(forwards_of(drafter), 0);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(tree.token[i], 3 + '0' + (int32_t)i);
        assert_true(tree.logp[i] == 0);
    }
    params.budget = 40;
    tree = draft(drafter, &params);
    assert_int_equal(ft_tree_levels(&tree), 15 + 2);
    assert_int_equal(forwards_of(drafter), 2);
    must(ft_drafter_proactive(drafter, &params, &err, &more));
    /* a verdict in the middle of what is forced */
    uint32_t path[15];
    for (uint32_t i = 0; i < 4; i++)
        path[i] = i;
    const int32_t next = 3 + '4';
    must(ft_drafter_advance(drafter, path, 4, &next, 1, &err));
    tree = draft(drafter, &params);
    assert_int_equal(tree.token[0], 3 + '5');
    assert_true(ft_tree_levels(&tree) >= 10 + 2);
    ft_drafter_destroy(drafter);
    deinit(&f);
}

static void test_levels(void **state)
{
    fixture f;
    ft_drafter *drafter = NULL;
    init(&f, "0123456789:;<=>[a-f]{20}", 1024);
    must(ft_drafter_create(forced_source(&f, model_source(f.engine, &f.sampling)), &err, &drafter));
    must(ft_drafter_reset(drafter, f.prompt, PROMPT, &err));
    ft_draft_params params = ft_draft_params_tree(40, 2, 2);
    params.levels = 6;
    const ft_tree tree = draft(drafter, &params);
    assert_int_equal(ft_tree_levels(&tree), 6);
    ft_drafter_destroy(drafter);
    deinit(&f);
}

/* Alone, and before lookups: what is forced, and what is found. */
static void test_without_a_model(void **state)
{
    fixture f;
    init(&f, "(ee=[0-9]{4};){20}", 1024);
    for (int k = 0; k < 2; k++) {
        const ft_lookup_opts lookups = {
            .n_ctx = TEXT_MAX, .n_vocab = N_VOCAB, .n_prompt = PROMPT, .sampling = &f.sampling};
        ft_draft_source *inner = NULL;
        ft_drafter *drafter = NULL;
        if (k == 1)
            must(ft_lookup_source(&lookups, &f, &err, &inner));
        must(ft_drafter_create(forced_source(&f, inner), &err, &drafter));
        must(ft_drafter_reset(drafter, f.prompt, PROMPT, &err));
        const ft_draft_params params = ft_draft_params_tree(12, 12, 4);
        ft_tree tree = draft(drafter, &params);
        assert_int_equal(tree.n, 3);
        assert_int_equal(tree.token[2], 3 + '=');
        static const char again[] = "ee=1234;ee=1234;ee=12";
        for (size_t i = 0; i < sizeof again - 1; i++) {
            const int32_t token = 3 + again[i];
            must(ft_drafter_advance(drafter, NULL, 0, &token, 1, &err));
        }
        tree = draft(drafter, &params);
        assert_int_equal(tree.n > 0, k == 1);
        const int32_t at = ft_tree_find_child(&tree, -1, 3 + '3');
        assert_int_equal(at >= 0, k == 1);
        ft_drafter_destroy(drafter);
    }
    deinit(&f);
}

/* Where the model has no room, nothing happens, and what is forced goes on. */
static void test_a_full_pool(void **state)
{
    fixture f;
    init(&f, "[a-f]{2}01234567890123456789[a-f]{20}", 48);
    ft_draft_source *source = forced_source(&f, model_source(f.engine, &f.sampling));
    int32_t tokens[60], parents[60];
    uint16_t depths[60];
    ft_draft_children children[60], root = {0};
    ft_draft_request text = {.source = source, .n = PROMPT, .tokens = f.prompt, .children = &root};
    must(source->ops->forward(&text, 1, &err));
    assert_int_equal(text.status, FT_OK);
    for (uint32_t i = 0; i < 60; i++) {
        tokens[i] = (int32_t)(3 + i);
        parents[i] = -1;
        depths[i] = 0;
    }
    ft_draft_request r = {.source = source,
                          .n = 60,
                          .tokens = tokens,
                          .parents = parents,
                          .depths = depths,
                          .children = children};
    must(source->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_EXHAUSTED);
    assert_int_equal(source->n_past, PROMPT);
    assert_int_equal(source->n_pending, 0);
    r.n = 4;
    must(source->ops->forward(&r, 1, &err));
    assert_int_equal(r.status, FT_OK);
    assert_int_equal(source->n_pending, 4);
    source->ops->truncate(source, 10);
    assert_int_equal(source->n_past, 10);
    assert_int_equal(source->n_pending, 0);
    ft_draft_source_destroy(source);
    deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_lacks_nothing),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_without_a_model),
        cmocka_unit_test(test_a_full_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
