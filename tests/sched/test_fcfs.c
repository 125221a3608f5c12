// SPDX-License-Identifier: Apache-2.0
// Properties of the FCFS policy over random queues, and that nobody starves in a simulated server.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sched/fair.h"
#include "sched/sched.h"

#define BLOCK_TOK 16
#define MAX_WORK  40

static uint32_t blocks_of(uint32_t n_past, uint32_t n)
{
    return (n_past + n + BLOCK_TOK - 1) / BLOCK_TOK - (n_past + BLOCK_TOK - 1) / BLOCK_TOK;
}

static ft_work random_work(ft_rng *rng, uint64_t id)
{
    ft_work w = {.id = id};
    w.kind = ft_rng_below(rng, 3) ? FT_WORK_VERIFY : FT_WORK_PREFILL;
    w.arrival_us = ft_rng_below(rng, 50);
    w.n_tok = 1 + ft_rng_below(rng, w.kind == FT_WORK_VERIFY ? 70 : 900);
    w.n_out = w.kind == FT_WORK_VERIFY ? w.n_tok : 0;
    w.n_past = ft_rng_below(rng, 400);
    w.kv_blocks = blocks_of(w.n_past, w.n_tok) + (ft_rng_below(rng, 8) == 0);
    return w;
}

/* A machine where a pass takes 1 ms, a row 100 us, a row with logits 20 us more, an attended token
 * 50 ns. */
static int64_t true_us(const ft_pass *p)
{
    return 1000 + 100 * (int64_t)p->rows + 20 * (int64_t)p->out + (int64_t)p->ctx / 20;
}

/* An estimator that has seen n passes of that machine. */
static ft_cost known_cost(uint32_t n)
{
    ft_cost cost;
    ft_rng rng;
    ft_rng_init(&rng, n);
    ft_cost_init(&cost);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows = 1 + ft_rng_below(&rng, 1u << (1 + i % 9));
        const ft_pass p = ft_pass_plus((ft_pass){0}, ft_rng_below(&rng, 2000), rows,
                                       ft_rng_below(&rng, 2) ? rows : 0);
        ft_cost_observe(&cost, &p, true_us(&p));
    }
    return cost;
}

static ft_sched_limits random_limits(ft_rng *rng, const ft_cost *cost)
{
    return (ft_sched_limits){.max_rows = 1 + ft_rng_below(rng, 512),
                             .prefill_us = ft_rng_below(rng, 4) ? ft_rng_below(rng, 50000) : 0,
                             .cost = cost,
                             .kv_blocks_free = ft_rng_below(rng, 60),
                             .kv_block_tok = BLOCK_TOK};
}

static bool fits_alone(const ft_work *w, const ft_sched_limits *l)
{
    if (w->kind == FT_WORK_VERIFY)
        return w->n_tok <= l->max_rows && w->kv_blocks <= l->kv_blocks_free;
    return ft_work_blocks(w, 1, BLOCK_TOK) <= l->kv_blocks_free;
}

static bool earlier(const ft_work *w, uint32_t a, uint32_t b)
{
    return w[a].arrival_us != w[b].arrival_us ? w[a].arrival_us < w[b].arrival_us : a < b;
}

static void check_picks(const ft_work *w, size_t n, const ft_sched_limits *l, const ft_pick *picks,
                        size_t n_picks)
{
    bool seen[MAX_WORK] = {false}, any_fits = false;
    uint64_t rows = 0, blocks = 0, prefill = 0;
    ft_pass verify = {0}, all = {0};
    for (size_t i = 0; i < n; i++)
        any_fits |= fits_alone(&w[i], l);
    assert_true(n_picks <= n);
    for (size_t i = 0; i < n_picks; i++) {
        const ft_work *p = &w[picks[i].index];
        assert_true(picks[i].index < n && !seen[picks[i].index]);
        seen[picks[i].index] = true;
        assert_true(picks[i].n_tok > 0 && picks[i].n_tok <= p->n_tok);
        assert_true(p->kind == FT_WORK_PREFILL || picks[i].n_tok == p->n_tok);
        all = ft_pass_plus(all, p->n_past, picks[i].n_tok, p->n_out);
        if (p->kind == FT_WORK_VERIFY)
            verify = all;
        rows += picks[i].n_tok;
        blocks += ft_work_blocks(p, picks[i].n_tok, BLOCK_TOK);
        prefill += p->kind == FT_WORK_PREFILL ? picks[i].n_tok : 0;
        if (i > 0) { /* verifications first, each kind in order of arrival */
            const ft_work *q = &w[picks[i - 1].index];
            assert_true(q->kind == FT_WORK_VERIFY || p->kind == FT_WORK_PREFILL);
            if (q->kind == p->kind)
                assert_true(earlier(w, picks[i - 1].index, picks[i].index));
        }
    }
    assert_true(rows <= l->max_rows);
    assert_true(blocks <= l->kv_blocks_free);
    if (l->prefill_us > 0 && prefill > 1) { /* in time, or no longer than the smallest pass */
        const ft_pass one = ft_pass_plus((ft_pass){0}, 400, 1, 0);
        int64_t more_us = ft_cost_predict(l->cost, &all) - ft_cost_predict(l->cost, &verify);
        int64_t least_us = ft_cost_predict(l->cost, &one) * (verify.rows ? 1 : 2);
        assert_true(more_us <= l->prefill_us || more_us <= least_us);
    }
    assert_int_equal(n_picks > 0, any_fits);
}

/* The oldest verification that fits alone always runs. */
static void check_oldest(const ft_work *w, size_t n, const ft_sched_limits *l, const ft_pick *picks,
                         size_t n_picks)
{
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (w[i].kind == FT_WORK_VERIFY && fits_alone(&w[i], l) &&
            (oldest == UINT32_MAX || earlier(w, i, oldest)))
            oldest = i;
    if (oldest != UINT32_MAX) {
        assert_true(n_picks > 0);
        assert_int_equal(picks[0].index, oldest);
    }
}

static void test_random_queues(void **state)
{
    ft_rng rng;
    ft_cost costs[3] = {known_cost(0), known_cost(1), known_cost(200)};
    (void)state;
    ft_rng_init(&rng, 1);
    for (int round = 0; round < 10000; round++) {
        ft_work w[MAX_WORK];
        ft_pick picks[MAX_WORK], again[MAX_WORK];
        size_t n = ft_rng_below(&rng, MAX_WORK + 1);
        ft_sched_limits l = random_limits(&rng, &costs[ft_rng_below(&rng, 3)]);
        for (size_t i = 0; i < n; i++)
            w[i] = random_work(&rng, i);
        size_t n_picks = ft_sched_fcfs.pick(w, n, &l, 1000, picks);
        check_picks(w, n, &l, picks, n_picks);
        check_oldest(w, n, &l, picks, n_picks);
        assert_int_equal(ft_sched_fcfs.pick(w, n, &l, 9999, again), n_picks); /* pure */
        assert_memory_equal(picks, again, n_picks * sizeof *picks);
    }
}

/* More arrives than a batch holds, for ever; each work that is there at the start is done within a
 * bounded number of batches, prompts too. */
static void test_nobody_starves(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 2);
    for (int run = 0; run < 40; run++) {
        ft_work w[MAX_WORK];
        ft_pick picks[MAX_WORK];
        ft_cost cost = known_cost((uint32_t)run % 4);
        const ft_sched_limits l = {.max_rows = 128,
                                   .prefill_us = 2000,
                                   .cost = &cost,
                                   .kv_blocks_free = 1000,
                                   .kv_block_tok = BLOCK_TOK};
        uint64_t id = 0, left = 20;
        for (size_t i = 0; i < MAX_WORK; i++) {
            w[i] = random_work(&rng, id++);
            w[i].arrival_us = (int64_t)i;
        }
        for (int batch = 0; left > 0; batch++) {
            assert_true(batch < 3000);
            size_t n = ft_sched_fcfs.pick(w, MAX_WORK, &l, 0, picks);
            ft_pass pass = {0};
            for (size_t i = 0; i < n; i++) {
                ft_work *p = &w[picks[i].index];
                pass = ft_pass_plus(pass, p->n_past, picks[i].n_tok, p->n_out);
                p->n_tok -= picks[i].n_tok;
                p->n_past += picks[i].n_tok;
                p->kv_blocks = blocks_of(p->n_past, p->n_tok);
                if (p->n_tok > 0)
                    continue;
                left -= p->id < 20;
                *p = random_work(&rng, id++); /* a newcomer in its place */
                p->kind = ft_rng_below(&rng, 10) ? FT_WORK_VERIFY : FT_WORK_PREFILL;
                p->arrival_us = MAX_WORK + batch;
            }
            ft_cost_observe(&cost, &pass, true_us(&pass));
        }
    }
}

static void test_prefill_beside_verifications(void **state)
{
    const ft_cost cost = known_cost(200);
    ft_sched_limits l = {.max_rows = 100,
                         .prefill_us = 2060,
                         .cost = &cost,
                         .kv_blocks_free = 1000,
                         .kv_block_tok = BLOCK_TOK};
    ft_work w[5];
    ft_pick picks[5];
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        w[i] = (ft_work){.kind = FT_WORK_VERIFY, .arrival_us = i, .n_tok = 30, .kv_blocks = 2};
    w[4] = (ft_work){.kind = FT_WORK_PREFILL, .arrival_us = 9, .n_tok = 500, .kv_blocks = 32};
    assert_int_equal(ft_sched_fcfs.pick(w, 5, &l, 0, picks), 3); /* 30 + 30, and 20 are kept */
    assert_int_equal(picks[2].index, 4);
    assert_in_range(picks[2].n_tok, 18, 20); /* 2 ms at 100 us a row */
    l.prefill_us = 200;                      /* less than a pass of one row takes: as if 1.1 ms */
    assert_int_equal(ft_sched_fcfs.pick(w, 5, &l, 0, picks), 4);
    assert_in_range(picks[3].n_tok, 9, 11);
    assert_int_equal(ft_sched_fcfs.pick(w + 4, 1, &l, 0, picks), 1); /* alone: two passes of one */
    assert_in_range(picks[0].n_tok, 10, 12);
    l.prefill_us = 0;
    assert_int_equal(ft_sched_fcfs.pick(w, 5, &l, 0, picks), 3); /* 30 + 30, a quarter is kept */
    assert_int_equal(picks[2].n_tok, 40);
    assert_int_equal(ft_sched_fcfs.pick(w, 4, &l, 0, picks), 3); /* no prompt: 30 + 30 + 30 */
    assert_int_equal(ft_sched_fcfs.pick(w + 4, 1, &l, 0, picks), 1);
    assert_int_equal(picks[0].n_tok, 100); /* no limit: the whole batch */
}

/* A small young work must not take the blocks that an older one needs next time. */
static void test_blocks_go_to_the_oldest(void **state)
{
    const ft_sched_limits l = {.max_rows = 100, .kv_blocks_free = 4, .kv_block_tok = BLOCK_TOK};
    const ft_work w[] = {
        {.kind = FT_WORK_VERIFY, .arrival_us = 0, .n_tok = 40, .n_past = 0, .kv_blocks = 3},
        {.kind = FT_WORK_VERIFY, .arrival_us = 1, .n_tok = 30, .n_past = 0, .kv_blocks = 2},
        {.kind = FT_WORK_VERIFY, .arrival_us = 2, .n_tok = 5, .n_past = 0, .kv_blocks = 1},
        {.kind = FT_WORK_VERIFY, .arrival_us = 3, .n_tok = 5, .n_past = 1, .kv_blocks = 0}};
    ft_pick picks[4];
    (void)state;
    assert_int_equal(ft_sched_fcfs.pick(w, 4, &l, 0, picks), 2);
    assert_int_equal(picks[0].index, 0);
    assert_int_equal(picks[1].index, 3); /* takes none */
}

/* A tenant with many prompts and one with a single one: the one that has had less of the server is
 * served first, so both get half of it, however many wait. Within a tenant, and for baselines,
 * first come, first served. */
static void test_tenants_are_equal(void **state)
{
    const ft_sched_limits l = {
        .max_rows = 100, .kv_blocks_free = 1000, .kv_block_tok = BLOCK_TOK, .static_batch = 9};
    double had[2] = {0, 0}, all = 0;
    uint64_t rows[2] = {0, 0};
    ft_work w[MAX_WORK];
    ft_pick picks[MAX_WORK];
    (void)state;
    for (uint32_t i = 0; i < MAX_WORK; i++)
        w[i] = (ft_work){.kind = FT_WORK_PREFILL, .arrival_us = i, .n_tok = 500, .kv_blocks = 32};
    assert_int_equal(ft_sched_fcfs.pick(w, MAX_WORK, &l, 0, picks), 1);
    assert_int_equal(picks[0].index, 0);
    for (int pass = 0; pass < 200; pass++) {
        for (uint32_t i = 0; i < MAX_WORK; i++) /* the last one is the other tenant's */
            w[i].share = (float)ft_fair_share(had[i == MAX_WORK - 1], all);
        assert_int_equal(ft_sched_fcfs.pick(w, MAX_WORK, &l, 0, picks), 1);
        const bool other = picks[0].index == MAX_WORK - 1;
        assert_true(other || picks[0].index == 0);
        for (int t = 0; t < 2; t++)
            had[t] = ft_fair_faded(had[t]);
        all = ft_fair_faded(all) + picks[0].n_tok;
        had[other] += picks[0].n_tok;
        rows[other] += picks[0].n_tok;
    }
    assert_in_range(rows[1], 9900, 10100);
    assert_int_equal(ft_sched_static.pick(w, MAX_WORK, &l, 0, picks), 1);
    assert_int_equal(picks[0].index, 0);
}

/* A batch as soon as it is full, or when its first has waited: of the oldest, never more. */
static void test_static(void **state)
{
    const ft_sched_limits l = {.max_rows = 100,
                               .kv_blocks_free = 9,
                               .kv_block_tok = BLOCK_TOK,
                               .static_batch = 2,
                               .static_wait_us = 500};
    ft_work w[4];
    ft_pick picks[4];
    (void)state;
    assert_int_equal(ft_sched_static.start_us(1, 1000, &l), 1500);
    assert_true(ft_sched_static.start_us(2, 1000, &l) <= 1000);
    assert_true(ft_sched_static.start_us(3, 1000, &l) <= 1000);
    for (uint32_t i = 0; i < 4; i++)
        w[i] = (ft_work){.kind = FT_WORK_VERIFY, .arrival_us = 9 - i, .n_tok = 5};
    assert_int_equal(ft_sched_static.pick(w, 4, &l, 2000, picks), 2);
    assert_int_equal(picks[0].index, 3);
    assert_int_equal(picks[1].index, 2);
    assert_null(ft_sched_fcfs.start_us);
}

static void test_hold(void **state)
{
    const ft_sched_limits l = {.static_batch = 3, .static_wait_us = 500};
    ft_hold hold = {0};
    (void)state;
    assert_int_equal(ft_hold_left_us(&hold, &ft_sched_static, &l, 1000), 0); /* nobody waits */
    ft_hold_add(&hold, 1000);
    ft_hold_add(&hold, 900);
    assert_int_equal(ft_hold_left_us(&hold, &ft_sched_static, &l, 1100), 300);
    assert_int_equal(ft_hold_left_us(&hold, &ft_sched_static, &l, 1400), 0);
    assert_int_equal(ft_hold_left_us(&hold, &ft_sched_fcfs, &l, 1100), 0);
    ft_hold_add(&hold, 1050); /* they are a batch */
    assert_int_equal(ft_hold_left_us(&hold, &ft_sched_static, &l, 1100), 0);
}

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(ft_sched_find("static"), &ft_sched_static);
    assert_ptr_equal(ft_sched_find("centralized"), &ft_sched_centralized);
    assert_ptr_equal(ft_sched_find("fcfs"), &ft_sched_fcfs);
    assert_null(ft_sched_find("lottery"));
    assert_ptr_equal(ft_sched_default(true), &ft_sched_wisp);
    assert_ptr_equal(ft_sched_default(false), &ft_sched_fcfs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_queues),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_prefill_beside_verifications),
        cmocka_unit_test(test_blocks_go_to_the_oldest),
        cmocka_unit_test(test_tenants_are_equal),
        cmocka_unit_test(test_static),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
