// SPDX-License-Identifier: Apache-2.0
// serve/judge.c: walks find what they find with all logits there, whatever runs of the output head
// cost and so however rows are chosen; and what they cost is chosen for. The clock is the head's
// work.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "serve/judge.h"
#include "support/target.h"

#define WALKS 6
#define NODES 20
#define ROWS  (WALKS * (NODES + 1))
#define CTX   12

/* A clock of what the engine's head did. */
typedef struct head_clock {
    const ft_engine *engine;
    int64_t run_us, row_us;
} head_clock;

static int64_t head_us(void *ctx)
{
    const head_clock *c = ctx;
    ft_engine_stats s;
    ft_engine_get_stats(c->engine, &s);
    return 1 + (int64_t)s.heads * c->run_us + (int64_t)s.head_rows * c->row_us;
}

typedef struct drawn {
    uint32_t n;
    int32_t token[NODES + 1];
} drawn;

typedef struct fixture {
    ft_engine *engine;
    ft_judge *judge;
    head_clock clock;
    ft_rule_work *work;
    ft_rng rng;
    ft_seq *seq[WALKS];
    ft_tree tree[WALKS];
    ft_sampling sampling[WALKS];
    ft_segment segment[WALKS];
    int32_t tokens[WALKS][NODES + 1], parent[WALKS][NODES + 1];
    uint64_t want;
    ft_verified expected[WALKS];
    drawn drawn[WALKS];
} fixture;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static float largest(const float *logits)
{
    float most = logits[0];
    for (uint32_t i = 1; i < target.n_vocab; i++)
        most = logits[i] > most ? logits[i] : most;
    return most;
}

static void drew(ft_walk *walk, uint32_t i, const float *logits, int32_t token)
{
    drawn *d = walk->user;
    assert_int_equal(i, d->n);
    if (walk->draft.sampling->temperature == 0) /* the logits are those that it was drawn from */
        assert_true(logits[token] == largest(logits));
    d->token[d->n++] = token;
}

static fixture *open_fixture(int64_t run_us, int64_t row_us)
{
    ft_error err = {0};
    fixture *f = calloc(1, sizeof *f);
    const ft_engine_opts opts = {
        .model = target.model, .kv_tok = 2048, .max_batch_tok = ROWS, .n_threads = 1};
    must(ft_engine_create(&opts, &err, &f->engine), &err);
    f->clock = (head_clock){f->engine, run_us, row_us};
    const ft_judge_opts judge = {.engine = f->engine,
                                 .clock = {.now_us = head_us, .ctx = &f->clock},
                                 .max_rows = ROWS,
                                 .n_threads = 2,
                                 .drew = drew};
    must(ft_judge_create(&judge, &err, &f->judge), &err);
    must(ft_rule_work_create(ft_rules_default, target.n_vocab, &err, &f->work), &err);
    ft_rng_init(&f->rng, 3);
    f->want = ~0ull;
    for (uint32_t i = 0; i < WALKS; i++) {
        int32_t text[CTX];
        uint32_t path[CTX];
        must(ft_seq_create(f->engine, &err, &f->seq[i]), &err);
        for (uint32_t j = 0; j < CTX; j++) {
            text[j] = (int32_t)ft_rng_below(&f->rng, target.n_vocab);
            path[j] = j;
        }
        ft_segment s = {.seq = f->seq[i], .n = CTX, .tokens = text};
        must(ft_engine_forward(f->engine, &s, 1, &err), &err);
        must(ft_seq_commit(f->seq[i], path, CTX, NULL, 0, &err), &err);
        f->sampling[i] = (ft_sampling){.temperature = 0.5f * (float)(i % 3), .top_p = 1};
    }
    return f;
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < WALKS; i++)
        ft_seq_destroy(f->seq[i]);
    ft_rule_work_destroy(f->work);
    ft_judge_destroy(f->judge);
    ft_engine_destroy(f->engine);
    free(f);
}

typedef struct first_row {
    const ft_engine *engine;
    uint32_t row;
} first_row;

static const float *row_of(void *ctx, int32_t node)
{
    const first_row *f = ctx;
    return ft_engine_logits(f->engine, f->row + (uint32_t)(node + 1));
}

static void forward(fixture *f, ft_status (*run)(ft_engine *, ft_segment *, size_t, ft_error *))
{
    ft_error err = {0};
    for (uint32_t i = 0; i < WALKS; i++) {
        const ft_tree *t = &f->tree[i];
        ft_seq_truncate(f->seq[i], CTX);
        f->parent[i][0] = -1;
        for (uint32_t j = 0; j < t->n; j++) {
            f->tokens[i][j + 1] = t->token[j];
            f->parent[i][j + 1] = t->parent[j] + 1;
        }
        f->segment[i] = (ft_segment){.seq = f->seq[i],
                                     .n = t->n + 1,
                                     .tokens = f->tokens[i],
                                     .parent = f->parent[i],
                                     .want = &f->want};
    }
    must(run(f->engine, f->segment, WALKS, &err), &err);
}

static ft_drafted draft_of(const fixture *f, uint32_t i)
{
    return (ft_drafted){.tree = &f->tree[i], .sampling = &f->sampling[i], .position = CTX + 1};
}

/* What the walks should find, by a pass with all logits. */
static void expect(fixture *f)
{
    forward(f, ft_engine_forward);
    for (uint32_t i = 0; i < WALKS; i++) {
        first_row rows = {f->engine, f->segment[i].first_row};
        f->expected[i] = (ft_verified){0};
        const ft_drafted draft = draft_of(f, i);
        assert_true(ft_rule_exact.walk(&ft_rule_exact, f->work, &draft, (ft_rows){row_of, &rows},
                                       &f->expected[i]));
    }
}

/* New roots and trees; each tree is grown where its walk ends, so that some walks go deep. */
static void grow_trees(fixture *f, uint32_t round)
{
    for (uint32_t i = 0; i < WALKS; i++) {
        ft_tree_clear(&f->tree[i]);
        f->sampling[i].seed = round * WALKS + i;
        f->tokens[i][0] = (int32_t)ft_rng_below(&f->rng, target.n_vocab);
    }
    for (uint32_t n = ft_rng_below(&f->rng, 5); n > 0; n--) {
        expect(f);
        for (uint32_t i = 0; i < WALKS; i++) {
            ft_tree *t = &f->tree[i];
            const ft_verified *v = &f->expected[i];
            int32_t end = v->n_path ? (int32_t)v->path[v->n_path - 1] : -1;
            if (t->n + 3 > NODES || ft_rng_below(&f->rng, 4) == 0)
                continue;
            int32_t other = (v->next + 1) % (int32_t)target.n_vocab;
            ft_tree_add(t, end, other, 0);
            if (ft_rng_below(&f->rng, 4))
                ft_tree_add(t, end, v->next, 0);
            ft_tree_add(t, (int32_t)t->n - 1, other, 0);
        }
    }
}

static void judge_and_check(fixture *f, ft_judge_stats *stats)
{
    ft_error err = {0};
    size_t n;
    expect(f);
    forward(f, ft_engine_forward_rows);
    ft_judge_clear(f->judge);
    memset(f->drawn, 0, sizeof f->drawn);
    for (uint32_t i = 0; i < WALKS; i++) {
        ft_walk *w = ft_judge_add(f->judge);
        w->rule = &ft_rule_exact;
        w->draft = draft_of(f, i);
        w->root_row = f->segment[i].first_row;
        w->user = &f->drawn[i];
    }
    must(ft_judge_run(f->judge, &err), &err);
    ft_judge_get_stats(f->judge, stats);
    const ft_walk *w = ft_judge_walks(f->judge, &n);
    assert_int_equal(n, WALKS);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < WALKS; i++) {
        const ft_verified *e = &f->expected[i];
        assert_true(w[i].over);
        assert_int_equal(w[i].found.n_path, e->n_path);
        assert_int_equal(w[i].found.next, e->next);
        assert_memory_equal(w[i].found.path, e->path, e->n_path * sizeof *e->path);
        assert_int_equal(f->drawn[i].n, e->n_path + 1);
        for (uint32_t k = 0; k < e->n_path; k++)
            assert_int_equal(f->drawn[i].token[k], f->tree[i].token[e->path[k]]);
        assert_int_equal(f->drawn[i].token[e->n_path], e->next);
        assert_in_range(w[i].n_rows, e->n_path + 1, f->tree[i].n + 1);
        rows += w[i].n_rows;
    }
    assert_int_equal(rows, stats->rows);
}

/* Rows and runs of the head over many rounds of the same trees, with a head of such costs. */
typedef struct totals {
    uint64_t runs, rows, looked_at, nodes;
} totals;

static totals run_rounds(int64_t run_us, int64_t row_us)
{
    fixture *f = open_fixture(run_us, row_us);
    totals t = {0};
    for (uint32_t round = 0; round < 60; round++) {
        ft_judge_stats stats;
        grow_trees(f, round);
        judge_and_check(f, &stats);
        if (round < 20) /* while it learns */
            continue;
        t.runs += stats.heads;
        t.rows += stats.rows;
        for (uint32_t i = 0; i < WALKS; i++) {
            t.looked_at += f->expected[i].n_path + 1;
            t.nodes += f->tree[i].n + 1;
        }
    }
    uint32_t expected = WALKS * ft_judge_expect(f->judge, 6);
    assert_in_range(expected, WALKS, WALKS * 7);
    print_message("%lld + %lld us: %llu runs, %llu of %llu rows, %llu looked at\n",
                  (long long)run_us, (long long)row_us, (unsigned long long)t.runs,
                  (unsigned long long)t.rows, (unsigned long long)t.nodes,
                  (unsigned long long)t.looked_at);
    close_fixture(f);
    return t;
}

static void test_any_choice_finds_the_same(void **state)
{
    totals unknown = run_rounds(0, 0), by_row = run_rounds(0, 100), by_run = run_rounds(1000, 0);
    totals mixed = run_rounds(1000, 100);
    assert_true(unknown.looked_at > 1.5 * 40 * WALKS); /* else there is little to choose */
    assert_int_equal(unknown.runs, 40);                /* all at once */
    assert_int_equal(unknown.rows, unknown.nodes);
    assert_in_range(by_row.rows, by_row.looked_at, by_row.looked_at * 11 / 10);
    assert_int_equal(by_run.runs, 40);
    assert_in_range(mixed.runs, 41, by_row.runs - 1);
    assert_in_range(mixed.rows, mixed.looked_at + 1, mixed.nodes - 1);
}

static void test_no_walks(void **state)
{
    fixture *f = open_fixture(0, 0);
    ft_error err = {0};
    ft_judge_stats stats;
    size_t n;
    must(ft_judge_run(f->judge, &err), &err);
    ft_judge_get_stats(f->judge, &stats);
    assert_int_equal(stats.heads + stats.rows, 0);
    assert_non_null(ft_judge_walks(f->judge, &n));
    assert_int_equal(n, 0);
    assert_int_equal(ft_judge_expect(f->judge, 0), 1);
    close_fixture(f);
}

/* A run of the head that fails is not counted, and teaches nothing of what the head costs. */
static void test_failed_head(void **state)
{
    fixture *f = open_fixture(0, 0);
    ft_error err = {0};
    ft_judge_stats stats;
    grow_trees(f, 0);
    ft_judge_clear(f->judge);
    ft_walk *w = ft_judge_add(f->judge);
    w->rule = &ft_rule_exact;
    w->draft = draft_of(f, 0);
    w->root_row = WALKS * NODES; /* no pass kept it */
    assert_int_equal(ft_judge_run(f->judge, &err), FT_INVALID);
    ft_judge_get_stats(f->judge, &stats);
    assert_int_equal(stats.heads, 0);
    assert_int_equal(stats.rows, 0);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_choice_finds_the_same),
        cmocka_unit_test(test_no_walks),
        cmocka_unit_test(test_failed_head),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
