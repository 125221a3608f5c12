// SPDX-License-Identifier: Apache-2.0
// The policies that know deadlines, over random queues: wisp's batches keep all promises they can
// by its own estimates, what must start now is first, what is late holds nobody up and still gets
// its turn; and in a simulated server that is overloaded nothing waits for ever.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/sched.h"
#include "sched/tuning.h"

#define BLOCK_TOK 16
#define MAX_WORK  200
#define NOW       10000000
#define GUARD     2000

/* Microseconds: a pass, a row, a row with logits, a token attended to, a token of KV. */
static const double factors[FT_COST_FACTORS] = {1000, 100, 20, 0.05, 0.5};

static ft_cost known_cost(void)
{
    ft_cost cost;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, factors, 0.05);
    return cost;
}

static ft_work random_work(ft_rng *rng, uint64_t id)
{
    ft_work w = {.id = id, .kind = ft_rng_below(rng, 6) ? FT_WORK_VERIFY : FT_WORK_PREFILL};
    w.n_tok = 1 + ft_rng_below(rng, w.kind == FT_WORK_VERIFY ? 40 : 900);
    w.n_out = w.kind == FT_WORK_VERIFY ? w.n_tok : 0;
    w.n_past = ft_rng_below(rng, 2000);
    w.kv_blocks =
        (w.n_past + w.n_tok + BLOCK_TOK - 1) / BLOCK_TOK - (w.n_past + BLOCK_TOK - 1) / BLOCK_TOK;
    w.arrival_us = NOW - ft_rng_below(rng, 1u << (8 + ft_rng_below(rng, 12)));
    if (ft_rng_below(rng, 8))
        w.deadline = ft_known(w.arrival_us + ft_rng_below(rng, 1u << (8 + ft_rng_below(rng, 13))));
    if (w.deadline.known) {
        w.owed_us = w.deadline.us + ft_rng_below(rng, 1u << 18);
        w.tokens_per_s = (float)(1 + ft_rng_below(rng, 20));
        w.edge_drafts = ft_rng_below(rng, 2);
    }
    w.gain_tok = 1 + (float)ft_rng_below(rng, 50) / 10;
    w.share = (float)ft_rng_below(rng, 100) / 100;
    return w;
}

static int64_t deadline_of(const ft_work *w)
{
    return w->deadline.known ? w->deadline.us : w->arrival_us + ft_sched_tune->batch.patience_us;
}

static int64_t own_us(const ft_work *w, const ft_cost *cost)
{
    const ft_pass pass = ft_pass_plus((ft_pass){0}, w->n_past, w->n_tok, w->n_out);
    return ft_cost_predict(cost, &pass);
}

static bool is_late(const ft_work *w, const ft_cost *cost)
{
    return NOW + own_us(w, cost) > deadline_of(w);
}

static bool is_critical(const ft_work *w, const ft_cost *cost)
{
    return !is_late(w, cost) && NOW >= deadline_of(w) - own_us(w, cost) - GUARD; /* eq. (17) */
}

static bool fits_alone(const ft_work *w, const ft_sched_limits *l)
{
    if (w->kind == FT_WORK_VERIFY)
        return w->n_tok <= l->max_rows && w->kv_blocks <= l->kv_blocks_free;
    return ft_work_blocks(w, 1, BLOCK_TOK) <= l->kv_blocks_free;
}

/* Limits, and each work once. */
static ft_pass check_picks(const ft_work *w, size_t n, const ft_sched_limits *l,
                           const ft_pick *picks, size_t n_picks)
{
    bool seen[MAX_WORK] = {false}, any_fits = false;
    uint64_t rows = 0, blocks = 0, verifications = 0;
    ft_pass pass = {0};
    for (size_t i = 0; i < n; i++)
        any_fits |= fits_alone(&w[i], l);
    for (size_t i = 0; i < n_picks; i++) {
        assert_true(picks[i].index < n && !seen[picks[i].index]);
        const ft_work *p = &w[picks[i].index];
        bool verify = p->kind == FT_WORK_VERIFY;
        seen[picks[i].index] = true;
        assert_true(picks[i].n_tok > 0 && picks[i].n_tok <= p->n_tok);
        assert_true(!verify || picks[i].n_tok == p->n_tok);
        assert_true(!verify || i == 0 || w[picks[i - 1].index].kind == FT_WORK_VERIFY);
        pass = ft_pass_plus(pass, p->n_past, picks[i].n_tok, verify ? p->n_out : 0);
        rows += picks[i].n_tok;
        blocks += ft_work_blocks(p, picks[i].n_tok, BLOCK_TOK);
        verifications += verify;
    }
    assert_true(rows <= l->max_rows && blocks <= l->kv_blocks_free);
    assert_true(l->max_verify == 0 || verifications <= l->max_verify);
    assert_int_equal(n_picks > 0, any_fits);
    return pass;
}

/* Whether every verification in the batch that could be in time alone is in time in it; one row of
 * a prompt may be there for progress' sake. */
static bool keeps_promises(const ft_work *w, const ft_sched_limits *l, const ft_pick *picks,
                           size_t n_picks, ft_pass pass)
{
    int64_t slack = 0;
    for (size_t i = 0; i < n_picks; i++) {
        const ft_work *p = &w[picks[i].index];
        if (p->kind == FT_WORK_PREFILL && picks[i].n_tok == 1) {
            const ft_pass with = ft_pass_plus(pass, p->n_past, 1, 0);
            slack = ft_cost_predict(l->cost, &with) - ft_cost_predict(l->cost, &pass) + 2;
        }
    }
    int64_t end = NOW + ft_cost_predict(l->cost, &pass);
    for (size_t i = 0; i < n_picks; i++) {
        const ft_work *p = &w[picks[i].index];
        if (p->kind == FT_WORK_VERIFY && !is_late(p, l->cost) && n_picks > 1)
            if (end > deadline_of(p) + slack)
                return false;
    }
    return true;
}

/* No critical work waits while one that is not critical, or is due later, runs: unless it does not
 * fit into rows or blocks, or what is before it in the order would not be in time with it. */
static void check_order(const ft_work *w, const ft_sched_limits *l, const ft_pick *picks,
                        size_t n_picks)
{
    size_t i = 0;
    /* One overdue work may be in front. */
    if (n_picks && w[picks[0].index].kind == FT_WORK_VERIFY && is_late(&w[picks[0].index], l->cost))
        i++;
    int64_t last_us = 0;
    int stage = 0; /* critical, late, other, prompts */
    float last_density = 1e30f;
    for (; i < n_picks; i++) {
        const ft_work *p = &w[picks[i].index];
        int now = p->kind == FT_WORK_PREFILL ? 3
                  : is_critical(p, l->cost)  ? 0
                  : is_late(p, l->cost)      ? 1
                                             : 2;
        assert_true(now >= stage);
        if (now == 0) {
            assert_true(deadline_of(p) >= last_us);
            last_us = deadline_of(p);
        }
        if (now == 2) {
            double cost_us = (double)own_us(p, l->cost) - factors[0];
            double left_us = (double)(deadline_of(p) - NOW);
            float density = (float)(p->gain_tok * (1 - p->share) / cost_us / left_us);
            assert_true(density <= last_density * 1.001f);
            last_density = density;
        }
        stage = now;
    }
}

static void test_random_queues(void **state)
{
    const ft_cost cost = known_cost();
    ft_work work[MAX_WORK];
    ft_pick picks[MAX_WORK];
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    for (int run = 0; run < 10000; run++) {
        size_t n = 1 + ft_rng_below(&rng, run % 10 ? 30 : MAX_WORK);
        const ft_sched_limits limits = {.max_rows = 1 + ft_rng_below(&rng, 512),
                                        .max_verify = ft_rng_below(&rng, 3) ? 0 : 1 + run % 20,
                                        .prefill_us = ft_rng_below(&rng, 2) ? 20000 : 0,
                                        .cost = &cost,
                                        .kv_blocks_free = ft_rng_below(&rng, 80),
                                        .kv_block_tok = BLOCK_TOK,
                                        .guard_us = GUARD};
        for (size_t i = 0; i < n; i++)
            work[i] = random_work(&rng, i);
        size_t n_picks = ft_sched_wisp.pick(work, n, &limits, NOW, picks);
        ft_pass pass = check_picks(work, n, &limits, picks, n_picks);
        assert_true(keeps_promises(work, &limits, picks, n_picks, pass));
        check_order(work, &limits, picks, n_picks);
        n_picks = ft_sched_edf.pick(work, n, &limits, NOW, picks);
        (void)check_picks(work, n, &limits, picks, n_picks);
        for (size_t i = 1; i < n_picks && work[picks[i].index].kind == FT_WORK_VERIFY; i++)
            assert_true(deadline_of(&work[picks[i - 1].index]) <=
                        deadline_of(&work[picks[i].index]));
    }
}

/* Two must start now, one is late, two can wait: the order, and what is left out for a promise. */
static void test_by_hand(void **state)
{
    const ft_cost cost = known_cost();
    const ft_sched_limits limits = {.max_rows = 512,
                                    .cost = &cost,
                                    .kv_blocks_free = 100,
                                    .kv_block_tok = BLOCK_TOK,
                                    .guard_us = GUARD};
    /* alone 1000 + 10 * 120 us and little for the context */
    ft_work work[] = {
        {.n_tok = 10, .n_out = 10, .arrival_us = NOW - 9000, .deadline = {true, NOW + 90000}},
        {.n_tok = 10, .n_out = 10, .arrival_us = NOW - 8000, .deadline = {true, NOW + 80000}},
        {.n_tok = 10, .n_out = 10, .arrival_us = NOW - 1000, .deadline = {true, NOW + 4000}},
        {.n_tok = 10, .n_out = 10, .arrival_us = NOW - 2000, .deadline = {true, NOW + 3600}},
        {.n_tok = 10, .n_out = 10, .arrival_us = NOW - 3000, .deadline = {true, NOW + 100}},
    };
    ft_pick picks[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        work[i].kind = FT_WORK_VERIFY;
        work[i].gain_tok = i == 1 ? 5 : 2;
    }
    /* Three take 4.6 ms: the late one would make the others late. */
    assert_int_equal(ft_sched_wisp.pick(work, 5, &limits, NOW, picks), 2);
    assert_int_equal(picks[0].index, 3);
    assert_int_equal(picks[1].index, 2);
    work[2].deadline = work[3].deadline = ft_known(NOW + 200000);
    assert_int_equal(ft_sched_wisp.pick(work, 5, &limits, NOW, picks), 5);
    assert_int_equal(picks[0].index, 4); /* late: before what can wait */
    assert_int_equal(picks[1].index, 1); /* brings most for its time */
    work[4].even_us = NOW + 1000; /* came 3 ms ago, so it keeps its speed in passes of 4 ms */
    assert_int_equal(ft_sched_wisp.pick(work, 5, &limits, NOW, picks), 2);
    assert_int_equal(picks[0].index, 4);
    assert_int_equal(picks[1].index, 1);
    work[4].even_us = 0;
    work[1].share = 0.9f; /* but its tenant has had most of the server */
    assert_int_equal(ft_sched_wisp.pick(work, 5, &limits, NOW, picks), 5);
    assert_int_equal(picks[4].index, 1);
}

static ft_work tree_of_ten(int64_t deadline_us, int64_t owed_us, float tokens_per_s)
{
    return (ft_work){.kind = FT_WORK_VERIFY,
                     .arrival_us = NOW - 5000,
                     .deadline = {true, deadline_us},
                     .owed_us = owed_us,
                     .tokens_per_s = tokens_per_s,
                     .edge_drafts = true,
                     .gain_tok = 2,
                     .n_tok = 10,
                     .n_out = 10};
}

/* Late ones run in the order in which their texts are owed more; one whose promise is lost is last,
 * a tenant that had much of the server later. */
static void test_late_by_hand(void **state)
{
    const ft_cost cost = known_cost();
    const ft_sched_limits limits = {
        .max_rows = 512, .cost = &cost, .kv_blocks_free = 100, .kv_block_tok = BLOCK_TOK};
    ft_work work[4];
    ft_pick picks[4];
    (void)state;
    /* Rounds of 2 tokens at 4 tokens/s: half a second each. */
    work[0] = tree_of_ten(NOW - 1000, NOW + 300000, 4);
    work[1] = tree_of_ten(NOW - 1000, NOW - 5000000, 4);
    work[2] = tree_of_ten(NOW - 1000, NOW - 3000000, 4);
    work[3] = tree_of_ten(NOW - 1000, NOW + 100000, 4);
    assert_int_equal(ft_sched_wisp.pick(work, 4, &limits, NOW, picks), 4);
    assert_int_equal(picks[0].index, 2);
    assert_int_equal(picks[1].index, 3);
    assert_int_equal(picks[2].index, 0);
    assert_int_equal(picks[3].index, 1); /* ten rounds behind */
    work[3].share = 0.5f;                /* sees to its other sessions first */
    assert_int_equal(ft_sched_wisp.pick(work, 4, &limits, NOW, picks), 4);
    assert_int_equal(picks[1].index, 0);
    assert_int_equal(picks[2].index, 3);
}

/* Works of 1.2 ms in passes with a fixed cost of 1 ms. */
static void test_pace(void **state)
{
    enum { WORKS = 40 };
    const ft_cost cost = known_cost();
    const ft_sched_limits limits = {
        .max_rows = 512, .cost = &cost, .kv_blocks_free = 100, .kv_block_tok = BLOCK_TOK};
    ft_work work[WORKS];
    ft_pick picks[WORKS];
    (void)state;
    /* Rounds of 2 tokens at 40 tokens/s are 50 ms: two passes and a quarter for the edge. */
    for (int i = 0; i < WORKS; i++)
        work[i] = tree_of_ten(NOW + 10000000, NOW + 20000000, i == 39 ? 40 : 20);
    work[39].deadline = ft_known(NOW + 9000000);
    assert_int_equal(ft_sched_wisp.pick(work, WORKS, &limits, NOW, picks), 14);
    assert_int_equal(picks[0].index, 39);
    work[39].tokens_per_s = 20; /* half as fast: twice as long */
    assert_int_equal(ft_sched_wisp.pick(work, WORKS, &limits, NOW, picks), 30);
    for (int i = 0; i < WORKS; i++) /* rounds of 2 ms: as long as pays for the fixed cost */
        work[i].tokens_per_s = 1000;
    assert_int_equal(ft_sched_wisp.pick(work, WORKS, &limits, NOW, picks), 2);
    for (int i = 0; i < WORKS; i++) /* runs: no edge is away, every pass is theirs */
        work[i].edge_drafts = false;
    assert_int_equal(ft_sched_wisp.pick(work, WORKS, &limits, NOW, picks), WORKS);
    for (int i = 0; i < WORKS; i++) { /* they can wait no longer */
        work[i].edge_drafts = true;
        work[i].deadline = ft_known(NOW + 50000);
    }
    const ft_sched_limits anxious = {.max_rows = 512,
                                     .cost = &cost,
                                     .kv_blocks_free = 100,
                                     .kv_block_tok = BLOCK_TOK,
                                     .guard_us = 50000};
    assert_int_equal(ft_sched_wisp.pick(work, WORKS, &anxious, NOW, picks), WORKS);
}

/* A server of twice the load that it can take, half of it with promises that it cannot keep and
 * some without any: everybody is served within a bounded time. */
static void test_nobody_waits_for_ever(void **state)
{
    enum { SESSIONS = 60 };
    const ft_cost cost = known_cost();
    ft_work work[SESSIONS];
    ft_pick picks[SESSIONS];
    int served[SESSIONS] = {0};
    int64_t now = NOW, longest = 0;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < SESSIONS; i++) {
        work[i] = random_work(&rng, (uint64_t)i);
        work[i].kind = FT_WORK_VERIFY;
        work[i].n_tok = work[i].n_out = 33;
        work[i].arrival_us = now;
        work[i].deadline = i % 3 ? ft_known(now + 20000) : ft_unknown();
    }
    for (int pass = 0; pass < 4000; pass++) {
        const ft_sched_limits limits = {.max_rows = 256,
                                        .cost = &cost,
                                        .kv_blocks_free = 10000,
                                        .kv_block_tok = BLOCK_TOK,
                                        .guard_us = GUARD};
        size_t n = ft_sched_wisp.pick(work, SESSIONS, &limits, now, picks);
        ft_pass shape = {0};
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            const ft_work *w = &work[picks[i].index];
            shape = ft_pass_plus(shape, w->n_past, w->n_tok, w->n_out);
        }
        now += ft_cost_predict(&cost, &shape);
        for (size_t i = 0; i < n; i++) { /* they come again at once */
            ft_work *w = &work[picks[i].index];
            longest = now - w->arrival_us > longest ? now - w->arrival_us : longest;
            served[picks[i].index]++;
            w->arrival_us = now;
            w->deadline.us = now + 20000;
        }
    }
    for (int i = 0; i < SESSIONS; i++)
        assert_true(served[i] > 0);
    /* Those without a promise are overdue after 4 s, and one of them a pass of some 30 ms goes
     * first. */
    assert_true(longest < 2 * ft_sched_tune->batch.patience_us + SESSIONS * 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_queues),         cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_late_by_hand),          cmocka_unit_test(test_pace),
        cmocka_unit_test(test_nobody_waits_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
