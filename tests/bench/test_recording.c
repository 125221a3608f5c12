// SPDX-License-Identifier: Apache-2.0
// Recorded drafts: while a recording is filled, replayed, and replayed without its model, a drafter
// does what it does over the engine: the same trees, the same counts. From many threads, too.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/secret.h"
#include "engine/engine.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"
#include "bench/recording.h"
#include "bench/recording_table.h"
#include "support/drafts.h"

enum { PROMPT = 24 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct fixture {
    ft_model *model;
    ft_engine *engine;
    ft_recording *recording;
} fixture;

static ft_status create_source(void *ctx, const ft_rule *rule, const ft_sampling *s, ft_error *e,
                               ft_draft_source **out)
{
    return ft_draft_engine_source(ctx, rule, NULL, s, e, out);
}

static void fixture_init(fixture *f, uint32_t n_ctx, uint32_t kv_tok, uint32_t most)
{
    f->model = test_draft_model(GGML_TYPE_Q4_0, 6, n_ctx);
    f->engine = test_draft_engine(f->model, kv_tok, 16);
    ft_draft_source_factory model = {.ctx = f->engine, .create = create_source, .n_ctx = n_ctx};
    must(ft_recording_create(&model, most, &err, &f->recording));
}

static void fixture_deinit(fixture *f)
{
    ft_recording_destroy(f->recording);
    ft_engine_destroy(f->engine);
    ft_model_destroy(f->model);
}

static ft_recording_stats stats_of(const fixture *f)
{
    ft_recording_stats stats;
    ft_recording_get_stats(f->recording, &stats);
    return stats;
}

/* One text: what to draft and what the verdicts say follows from `which` alone. */
typedef struct story {
    uint32_t which, rounds, extra_depth;
    ft_sampling sampling;
} story;

static story tale(uint32_t which)
{
    return (story){
        .which = which,
        .rounds = 12,
        .sampling = {.temperature = which % 3 ? 0.8f : 0, .top_p = 1, .seed = which / 2}};
}

typedef struct outcome {
    uint64_t trees; /* a hash of all trees, in order */
    uint64_t nodes;
    ft_drafter_stats stats;
} outcome;

/* What predictors are told of a tree is replayed to the bit, and is about its nodes. */
static void hash_features(const ft_drafter *d, const ft_tree *tree, outcome *out)
{
    for (uint32_t i = 0; i < tree->n; i++) {
        float f[FT_FEATURES];
        ft_drafter_features(d, i, f);
        assert_true(f[FT_FEATURE_POSITION] == (float)tree->depth[i]);
        assert_true(f[FT_FEATURE_CONFIDENCE] > 0 && f[FT_FEATURE_CONFIDENCE] <= 1);
        assert_true(f[FT_FEATURE_ENTROPY] > 0 && f[FT_FEATURE_DEVIATION] > 0);
        out->trees = ft_fnv64(out->trees, f, sizeof f);
    }
}

static ft_status one_round(ft_drafter *d, const story *s, ft_rng *rng, ft_error *e, outcome *out)
{
    ft_tree tree;
    uint32_t path[FT_TREE_MAX], n_path = 0;
    ft_draft_params params = ft_draft_params_tree(4 + ft_rng_below(rng, 28), 3 + s->extra_depth,
                                                  1 + ft_rng_below(rng, 6));
    uint32_t calls = ft_rng_below(rng, 5), at = ft_rng_u32(rng), how = ft_rng_below(rng, 6);
    params.branch = 4;
    ft_status status = ft_drafter_draft(d, &params, e, &tree);
    out->nodes += tree.n;
    out->trees = ft_fnv64(out->trees, tree.token, tree.n * sizeof *tree.token);
    out->trees = ft_fnv64(out->trees, tree.parent, tree.n * sizeof *tree.parent);
    out->trees = ft_fnv64(out->trees, tree.cum_logp, tree.n * sizeof *tree.cum_logp);
    hash_features(d, &tree, out);
    for (bool more = true; status == FT_OK && more && calls > 0; calls--)
        status = ft_drafter_proactive(d, &params, e, &more);
    if (tree.n > 0 && how > 0)
        n_path = test_tree_path(&tree, at % tree.n, path);
    const int32_t next[2] = {(int32_t)(7 + how), 9};
    if (status == FT_OK)
        status = ft_drafter_advance(d, path, n_path, next, how % 3, e);
    return status;
}

/* Takes the source. */
static ft_status tell(ft_draft_source *source, const story *s, ft_error *e, outcome *out)
{
    ft_rng rng;
    int32_t text[PROMPT];
    ft_drafter *d;
    ft_status status = ft_drafter_create(source, e, &d);
    memset(out, 0, sizeof *out);
    ft_rng_init(&rng, s->which);
    if (status == FT_OK)
        status = ft_drafter_reset(d, text, test_draft_prompt(text, PROMPT, s->which), e);
    for (uint32_t round = 0; status == FT_OK && round < s->rounds; round++)
        status = one_round(d, s, &rng, e, out);
    if (d)
        ft_drafter_get_stats(d, &out->stats);
    ft_drafter_destroy(d);
    return status;
}

static outcome by_engine(const fixture *f, const story *s)
{
    ft_draft_source *source;
    outcome out;
    must(ft_draft_engine_source(f->engine, &ft_rule_exact, NULL, &s->sampling, &err, &source));
    must(tell(source, s, &err, &out));
    return out;
}

static outcome by_recording(const fixture *f, const story *s)
{
    ft_draft_source *source;
    outcome out;
    must(ft_recording_source(f->recording, &ft_rule_exact, &s->sampling, &err, &source));
    must(tell(source, s, &err, &out));
    return out;
}

static void assert_same(const outcome *a, const outcome *b)
{
    assert_true(a->nodes > 0);
    assert_int_equal(a->nodes, b->nodes);
    assert_true(a->trees == b->trees);
    assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
}

static void test_replay_is_the_same(void **state)
{
    enum { STORIES = 10 };
    outcome told[STORIES];
    fixture f;
    fixture_init(&f, 2048, 2048, 0);
    for (uint32_t which = 0; which < STORIES; which++) {
        story s = tale(which);
        ft_recording_stats before = stats_of(&f), filled, replayed;
        told[which] = by_engine(&f, &s);
        outcome first = by_recording(&f, &s);
        filled = stats_of(&f);
        outcome again = by_recording(&f, &s);
        replayed = stats_of(&f);
        assert_same(&told[which], &first);
        assert_same(&told[which], &again);
        assert_true(filled.misses > before.misses && filled.nodes > before.nodes);
        assert_int_equal(replayed.misses, filled.misses);
        assert_int_equal(replayed.nodes, filled.nodes);
        assert_true(replayed.hits > filled.hits);
    }
    ft_recording_drop_model(f.recording);
    ft_engine_destroy(f.engine);
    f.engine = NULL;
    for (uint32_t which = 0; which < STORIES; which++) {
        story s = tale(which);
        ft_recording_stats before = stats_of(&f);
        outcome again = by_recording(&f, &s);
        assert_same(&told[which], &again);
        assert_int_equal(stats_of(&f).misses, before.misses);
    }
    ft_recording_stats end = stats_of(&f);
    assert_int_equal(end.lost, 0);
    assert_true(end.bytes >= end.nodes * (32 + 16 * 8));
    fixture_deinit(&f);
}

/* What was recorded at one depth and is replayed at another: the model computes what is missing,
 * and the ancestors that it lacks. */
static void test_missing_nodes_are_computed(void **state)
{
    fixture f;
    fixture_init(&f, 2048, 2048, 4);
    for (uint32_t which = 0; which < 8; which++) {
        story s = tale(which), deeper = s;
        deeper.extra_depth = 3;
        outcome shallow = by_recording(&f, &s);
        outcome told = by_engine(&f, &deeper);
        uint64_t misses = stats_of(&f).misses, hits = stats_of(&f).hits;
        outcome first = by_recording(&f, &deeper);
        assert_same(&told, &first);
        assert_true(shallow.stats.forwards < first.stats.forwards);
        assert_true(stats_of(&f).misses > misses && stats_of(&f).hits > hits);
    }
    fixture_deinit(&f);
}

/* An empty recording without a model proposes nothing, and what it has of another sampling is
 * nothing. */
static void test_nothing_is_known(void **state)
{
    fixture f;
    story s = tale(1), other = s;
    fixture_init(&f, 2048, 2048, 0);
    outcome told = by_recording(&f, &s);
    assert_true(told.nodes > 0);
    ft_recording_drop_model(f.recording);
    other.sampling.seed++;
    outcome out = by_recording(&f, &other);
    assert_int_equal(out.nodes, 0);
    other = s;
    other.sampling.top_k = 3;
    uint64_t misses = stats_of(&f).misses;
    out = by_recording(&f, &other);
    assert_int_equal(out.nodes, 0);
    assert_true(stats_of(&f).misses > misses);
    fixture_deinit(&f);
}

/* A short KV pool behind a recording ends drafts and breaks nothing; with room it is as ever. */
static void test_model_is_full(void **state)
{
    fixture f;
    story s = tale(4);
    ft_drafter *hog;
    int32_t text[PROMPT];
    fixture_init(&f, 2048, 96, 0);
    must(test_drafter_create(f.engine, &s.sampling, &err, &hog));
    must(ft_drafter_reset(hog, text, test_draft_prompt(text, PROMPT, 3), &err));
    ft_tree tree;
    ft_draft_params wide = ft_draft_params_tree(60, 3, 20);
    must(ft_drafter_draft(hog, &wide, &err, &tree));
    outcome starved = by_recording(&f, &s);
    ft_drafter_destroy(hog);
    fixture roomy;
    fixture_init(&roomy, 2048, 2048, 0);
    outcome told = by_engine(&roomy, &s);
    assert_true(starved.nodes < told.nodes);
    ft_recording_destroy(f.recording);
    ft_engine_destroy(f.engine);
    f.engine = roomy.engine;
    f.recording = roomy.recording;
    outcome fed = by_recording(&f, &s);
    assert_same(&told, &fed);
    fixture_deinit(&f);
    ft_model_destroy(roomy.model);
}

/* ---- one text, drafted for in many ways ---- */

enum { TRUTH = 90 };

/* A text that the draft model finds likely in most places. */
static void make_truth(const fixture *f, const ft_sampling *s, int32_t *text)
{
    ft_drafter *d;
    ft_tree tree;
    uint32_t n = test_draft_prompt(text, PROMPT, 1);
    ft_draft_params roots = ft_draft_params_tree(4, 1, 1);
    must(test_drafter_create(f->engine, s, &err, &d));
    must(ft_drafter_reset(d, text, n, &err));
    while (n < TRUTH) {
        must(ft_drafter_draft(d, &roots, &err, &tree));
        text[n] = tree.token[n % 5 ? 0 : n % 4];
        must(ft_drafter_advance(d, NULL, 0, &text[n], 1, &err));
        n++;
    }
    ft_drafter_destroy(d);
}

/* Verdicts follow the text, which half-way goes back a little; what is drafted is the seed's to
 * say. */
static outcome follow(ft_draft_source *source, const int32_t *text, uint64_t seed)
{
    ft_drafter *d;
    ft_rng rng;
    outcome out = {0};
    uint32_t n = PROMPT;
    bool back = false;
    ft_rng_init(&rng, seed);
    must(ft_drafter_create(source, &err, &d));
    must(ft_drafter_reset(d, text, n, &err));
    while (n < TRUTH - 1) {
        ft_tree tree;
        uint32_t path[FT_TREE_MAX], n_path = 0;
        int32_t at = -1;
        bool more = true;
        ft_draft_params params = ft_draft_params_tree(
            1 + ft_rng_below(&rng, 40), 1 + ft_rng_below(&rng, 6), 1 + ft_rng_below(&rng, 8));
        must(ft_drafter_draft(d, &params, &err, &tree));
        out.nodes += tree.n;
        out.trees = ft_fnv64(out.trees, tree.token, tree.n * sizeof *tree.token);
        out.trees = ft_fnv64(out.trees, tree.cum_logp, tree.n * sizeof *tree.cum_logp);
        for (uint32_t calls = ft_rng_below(&rng, 4); more && calls > 0; calls--)
            must(ft_drafter_proactive(d, &params, &err, &more));
        /* often not as far as the tree would allow, so that much of it lives on */
        uint32_t most = 1 + ft_rng_below(&rng, 3);
        while (n_path < most && n + n_path < TRUTH - 2 &&
               (at = ft_tree_find_child(&tree, at, text[n + n_path])) >= 0)
            path[n_path++] = (uint32_t)at;
        uint32_t n_next = n_path < most;
        must(ft_drafter_advance(d, path, n_path, text + n + n_path, n_next, &err));
        n += n_path + n_next;
        if (!back && n > TRUTH / 2) {
            back = true;
            n -= 9;
            must(ft_drafter_reset(d, text, n, &err));
        }
    }
    ft_drafter_get_stats(d, &out.stats);
    ft_drafter_destroy(d);
    return out;
}

/* Any mixture of what is known and what is not, in any order, gives what the engine gives. */
static void test_known_and_unknown_mixed(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        fixture f;
        ft_sampling s = {.temperature = seed % 2 ? 0.8f : 0, .top_p = 1, .seed = seed};
        ft_draft_source *source;
        int32_t text[TRUTH];
        uint64_t hits = 0;
        fixture_init(&f, 2048, 2048, 0);
        make_truth(&f, &s, text);
        for (uint64_t way = 0; way < 4; way++) {
            must(ft_draft_engine_source(f.engine, &ft_rule_exact, NULL, &s, &err, &source));
            outcome told = follow(source, text, seed * 10 + way);
            must(ft_recording_source(f.recording, &ft_rule_exact, &s, &err, &source));
            outcome out = follow(source, text, seed * 10 + way);
            assert_same(&told, &out);
            assert_true(way == 0 || stats_of(&f).hits > hits);
            hits = stats_of(&f).hits;
        }
        fixture_deinit(&f);
    }
}

/* A recording that is being filled has the model compute what a drafter over the engine would have
 * it compute, and no row more. */
static void test_filling_costs_no_more(void **state)
{
    fixture f;
    fixture_init(&f, 2048, 2048, 0);
    for (uint32_t which = 0; which < 6; which++) {
        story s = tale(which);
        ft_engine_stats a, b, c;
        ft_engine_get_stats(f.engine, &a);
        by_engine(&f, &s);
        ft_engine_get_stats(f.engine, &b);
        by_recording(&f, &s);
        ft_engine_get_stats(f.engine, &c);
        assert_true(c.rows - b.rows <= b.rows - a.rows);
        assert_true(c.forwards > b.forwards);
    }
    fixture_deinit(&f);
}

/* The rows that a new source's model computes for a text that the table does not know. */
static uint64_t rows_for(const fixture *f, const ft_sampling *how, const int32_t *text, uint32_t n)
{
    ft_draft_source *source;
    ft_draft_children children;
    ft_engine_stats before, after;
    must(ft_recording_source(f->recording, &ft_rule_exact, how, &err, &source));
    ft_draft_request r = {.source = source, .n = n, .tokens = text, .children = &children};
    ft_engine_get_stats(f->engine, &before);
    must(source->ops->forward(&r, 1, &err));
    must(r.status);
    ft_engine_get_stats(f->engine, &after);
    assert_true(children.n > 0);
    ft_draft_source_destroy(source);
    return after.rows - before.rows;
}

/* Who drafts for a text again need not have it read again; who draws in another way, or drafts for
 * another text, has all of it read. Where the pool is full, the resting text makes room. */
static void test_read_once(void **state)
{
    fixture f;
    const ft_sampling greedy = ft_sampling_default();
    ft_sampling warm = greedy;
    int32_t text[PROMPT], other[PROMPT];
    warm.temperature = 0.8f;
    fixture_init(&f, 2048, 32, 4); /* one text at a time */
    const uint32_t n = test_draft_prompt(text, PROMPT, 1);
    memcpy(other, text, sizeof text);
    other[n - 1]++;
    assert_int_equal(rows_for(&f, &greedy, text, n - 1), n - 1);
    assert_int_equal(rows_for(&f, &greedy, text, n), 1);
    assert_int_equal(rows_for(&f, &greedy, other, n), 1);
    assert_int_equal(rows_for(&f, &warm, text, n), n);
    for (uint32_t i = 0; i < n; i++)
        other[i] = text[n - 1 - i];
    assert_int_equal(rows_for(&f, &warm, other, n), n);
    fixture_deinit(&f);
}

/* ---- threads ---- */

typedef struct job {
    pthread_t thread;
    ft_recording *recording;
    uint32_t first, stories;
    outcome *out; /* [stories] */
    ft_status status;
    ft_error err;
} job;

static void *work(void *arg)
{
    job *j = arg;
    for (uint32_t i = 0; j->status == FT_OK && i < j->stories; i++) {
        ft_draft_source *source;
        uint32_t which = (j->first + i) % j->stories;
        story s = tale(which);
        j->status =
            ft_recording_source(j->recording, &ft_rule_exact, &s.sampling, &j->err, &source);
        if (j->status == FT_OK)
            j->status = tell(source, &s, &j->err, &j->out[which]);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    enum { JOBS = 4, STORIES = 6 };
    outcome told[STORIES], out[JOBS][STORIES];
    job jobs[JOBS];
    fixture f;
    fixture_init(&f, 2048, 4096, 0);
    for (uint32_t which = 0; which < STORIES; which++) {
        story s = tale(which);
        told[which] = by_engine(&f, &s);
    }
    for (uint32_t i = 0; i < JOBS; i++) { /* all tell all stories, each begins elsewhere */
        jobs[i] = (job){.recording = f.recording, .first = i, .stories = STORIES, .out = out[i]};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        pthread_join(jobs[i].thread, NULL);
        if (jobs[i].status != FT_OK)
            fail_msg("%s", jobs[i].err.message);
        for (uint32_t which = 0; which < STORIES; which++)
            assert_same(&told[which], &out[i][which]);
    }
    fixture_deinit(&f);
}

/* ---- the table ---- */

static void test_table(void **state)
{
    ft_recording_table t = {0};
    ft_draft_children c = {.n = 16}, found;
    uint8_t evidence[40], back[40];
    const uint32_t n = 20000;
    assert_false(ft_recording_table_find(&t, 1, &found, back));
    for (uint32_t i = 0; i < n; i++) {
        c.n = 1 + i % 16;
        c.n_evidence = i % 8 ? 0 : i % 41;
        memset(evidence, (int)i, sizeof evidence);
        c.shape = (ft_shape){.entropy = (float)i, .margin = 0.5f, .deviation = 3};
        for (uint32_t k = 0; k < 16; k++)
            c.at[k] = (ft_draft_child){.token = (int32_t)(i + k), .logp = -(float)k};
        /* neighbours, and hashes that share their low bits; 0 is one like any other */
        uint64_t hash = i % 2 ? i : (uint64_t)i << 40;
        assert_true(ft_recording_table_add(&t, hash, &c, evidence, 12));
        c.at[0].token = -1; /* what is there stays */
        assert_true(ft_recording_table_add(&t, hash, &c, evidence, 12));
    }
    assert_int_equal(t.n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(ft_recording_table_find(&t, i % 2 ? i : (uint64_t)i << 40, &found, back));
        assert_int_equal(found.n, 1 + i % 16 < 12 ? 1 + i % 16 : 12);
        assert_int_equal(found.n_evidence, i % 8 ? 0 : i % 41);
        memset(evidence, (int)i, sizeof evidence);
        assert_memory_equal(back, evidence, found.n_evidence);
        assert_true(found.shape.entropy == (float)i && found.shape.deviation == 3);
        for (uint32_t k = 0; k < found.n; k++)
            assert_int_equal(found.at[k].token, i + k);
    }
    assert_false(ft_recording_table_find(&t, 2, &found, back));
    assert_true(ft_recording_table_bytes(&t) < n * 180);
    ft_recording_table_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_is_the_same),
        cmocka_unit_test(test_missing_nodes_are_computed),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_model_is_full),
        cmocka_unit_test(test_known_and_unknown_mixed),
        cmocka_unit_test(test_filling_costs_no_more),
        cmocka_unit_test(test_read_once),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_table),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
