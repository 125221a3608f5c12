// SPDX-License-Identifier: Apache-2.0
// Plans of small random problems beside all plans there are, and rules that every plan keeps.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/exhaustive.h"
#include "plan/memory.h"
#include "plan/runtime.h"

#define TASKS 100

typedef struct world {
    ft_plan_task tasks[TASKS];
    ft_plan_pair pair;
    ft_plan_problem p;
} world;

/* The pair LLaMA-1.1B, LLaMA-7B of tables I and II. */
static const ft_plan_pair paper_pair = {
    .draft = {.layers = 22, .hidden = 2048, .ffn = 5632, .c1 = 4.11e-13, .c2 = 0.56e-3},
    .verify = {.layers = 32, .hidden = 4096, .ffn = 11008, .c1 = 2.08e-14, .c2 = 1.28e-2}};

static void make_world(world *w, uint32_t n, uint32_t in_most, uint32_t out_most, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    *w = (world){.pair = paper_pair};
    for (uint32_t k = 0; k < n; k++)
        w->tasks[k] = (ft_plan_task){.in_tok = 1 + ft_rng_below(&rng, in_most),
                                     .out_tok = 1 + ft_rng_below(&rng, out_most),
                                     .payload_bits = 98304,
                                     .rate_bits_s = 1e8};
    w->p = (ft_plan_problem){.tasks = w->tasks,
                             .n = n,
                             .acceptance = 0.8,
                             .length_most = 3,
                             .times = ft_plan_pair_times,
                             .times_ctx = &w->pair,
                             .draft = {.most_bytes = 16e9,
                                       .model_bytes = ft_plan_weight_bytes(22, 2048, 5632),
                                       .token_bytes = ft_plan_token_bytes(22, 2048),
                                       .padded = true}};
}

static double plan_s(const world *w, ft_plan_algorithm algorithm)
{
    ft_batch_plan plan;
    ft_error err = {0};
    if (ft_batch_plan_make(&w->p, algorithm, NULL, &err, &plan) != FT_OK)
        fail_msg("%s", err.message);
    const double s = plan.inf_s;
    ft_batch_plan_deinit(&plan);
    return s;
}

static void test_small(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w;
        double contiguous, any;
        make_world(&w, 1 + seed % 6, 400, 40, seed);
        w.p.draft.most_bytes = 2.1e9; /* some batches do not fit */
        w.p.length_least = seed % 2;
        const double best = plan_s(&w, FT_PLAN_BEST), paper = plan_s(&w, FT_PLAN_PAPER);
        assert_int_equal(ft_plan_exhaustive(&w.p, FT_PLAN_CONTIGUOUS, NULL, &contiguous), FT_OK);
        assert_int_equal(ft_plan_exhaustive(&w.p, FT_PLAN_ALL_ORDERS, NULL, &any), FT_OK);
        assert_true(best <= paper);
        assert_true(best <= contiguous * (1 + 1e-9));
        assert_true(best >= any * (1 - 1e-9));
    }
}

/* What holds of every plan. */
static void check_plan(const ft_plan_problem *p, const ft_batch_plan *plan)
{
    bool seen[TASKS] = {false};
    double share = 0, last = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_batches; i++) {
        const ft_plan_batch *b = &plan->batches[i];
        double end = 0;
        assert_int_equal(b->first, n);
        assert_true(b->shape.n > 0 && ft_plan_fits(p, plan->length, &b->shape, 0));
        for (uint32_t k = 0; k < b->shape.n; k++, n++) {
            const uint32_t task = plan->order[n];
            assert_true(task < p->n && !seen[task]);
            seen[task] = true;
            assert_true(p->tasks[task].in_tok <= b->shape.in_max);
            assert_true(p->tasks[task].out_tok <= b->shape.out_max);
            end = fmax(end, plan->end_s[task]);
        }
        assert_true(end == b->end_s);
        last = fmax(last, end);
    }
    for (uint32_t k = 0; k < p->n; k++)
        share += plan->share[k];
    assert_int_equal(n, p->n);
    assert_true(fabs(share - 1) < 1e-9);
    assert_true(fabs(last / plan->total_s - 1) < 1e-9);
    assert_true(fabs(plan->com_s + plan->inf_s - plan->total_s) < 1e-9 * plan->total_s);
}

/* A hundred tasks, in all flows. Without a barrier nothing is later, and one stage at a time is the
 * slowest. */
static void test_hundred(void **state)
{
    double s[3][2];
    for (int flow = 0; flow < 3; flow++)
        for (int leave = 0; leave < 2; leave++) {
            world w;
            ft_batch_plan plan;
            make_world(&w, TASKS, 512, 256, 7);
            w.p.length_least = 1;
            w.p.flow = (ft_plan_flow)flow;
            w.p.leave = leave;
            const double paper = plan_s(&w, FT_PLAN_PAPER);
            assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
            check_plan(&w.p, &plan);
            assert_true(plan.inf_s <= paper);
            s[flow][leave] = plan.inf_s;
            ft_batch_plan_deinit(&plan);
        }
    for (int leave = 0; leave < 2; leave++) {
        assert_true(s[FT_PLAN_ROLLING][leave] < s[FT_PLAN_ROUNDS][leave]);
        assert_true(s[FT_PLAN_ROUNDS][leave] < s[FT_PLAN_SEQUENCE][leave]);
    }
    for (int flow = 0; flow < 3; flow++)
        assert_true(s[flow][1] < s[flow][0]);
}

static double given_s(const ft_plan_problem *p, const ft_plan_given *given)
{
    ft_batch_plan plan;
    ft_error err = {0};
    if (ft_batch_plan_given(p, given, &err, &plan) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(plan.n_batches, given->n_batches);
    const double s = plan.inf_s;
    ft_batch_plan_deinit(&plan);
    return s;
}

/* A plan's own batches take what the plan says. */
static void test_given(void **state)
{
    for (int flow = 0; flow < 3; flow++) {
        uint32_t sizes[TASKS];
        world w;
        ft_batch_plan plan;
        make_world(&w, TASKS, 512, 256, 3);
        w.p.length_least = 2;
        w.p.flow = (ft_plan_flow)flow;
        w.p.leave = flow == FT_PLAN_ROLLING;
        w.p.delay_s = 0.01;
        assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
        for (uint32_t i = 0; i < plan.n_batches; i++)
            sizes[i] = plan.batches[i].shape.n;
        const ft_plan_given given = {plan.length, plan.n_batches, sizes, plan.order};
        assert_true(fabs(given_s(&w.p, &given) / plan.inf_s - 1) < 1e-9);
        ft_batch_plan_deinit(&plan);
    }
}

/* A network between the stations delays each round but the first, unless nothing is drafted. With
 * two batches the other one fills the time, as long as it takes longer. */
static void test_delay(void **state)
{
    const uint32_t order[2] = {0, 1}, one[1] = {2}, two[2] = {1, 1};
    const ft_plan_given together = {2, 1, one, order}, apart = {2, 2, two, order},
                        undrafted = {0, 1, one, order};
    const double least_s = 1e-4, delay_s = 0.5;
    world w;
    make_world(&w, 2, 100, 10, 5);
    w.tasks[0].out_tok = w.tasks[1].out_tok = 40;
    const double later_s = (ft_plan_rounds(40, ft_plan_tokens(w.p.acceptance, 2)) - 1) * delay_s;
    for (int flow = FT_PLAN_ROLLING; flow <= FT_PLAN_SEQUENCE; flow++) {
        w.p.flow = (ft_plan_flow)flow;
        w.p.delay_s = 0;
        const double one_s = given_s(&w.p, &together), two_s = given_s(&w.p, &apart),
                     none_s = given_s(&w.p, &undrafted);
        w.p.delay_s = delay_s;
        assert_true(fabs(given_s(&w.p, &together) - one_s - later_s) < 1e-9);
        assert_true(given_s(&w.p, &undrafted) == none_s);
        if (flow == FT_PLAN_SEQUENCE)
            assert_true(fabs(given_s(&w.p, &apart) - two_s - 2 * later_s - delay_s) < 1e-9);
        else
            assert_true(given_s(&w.p, &apart) < two_s + later_s);
        w.p.delay_s = least_s;
        if (flow == FT_PLAN_ROLLING)
            assert_true(given_s(&w.p, &apart) - two_s < 1e-3);
    }
    w.p.delay_s = -1;
    ft_batch_plan plan;
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_INVALID);
}

static void test_lengths(void **state)
{
    world w;
    ft_batch_plan plan;
    make_world(&w, 30, 512, 256, 8);
    w.p.acceptance = 0; /* then drafts are for nothing */
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
    assert_int_equal(plan.length, 0);
    for (uint32_t i = 0; i < plan.n_batches; i++)
        assert_true(plan.batches[i].draft_s == 0);
    ft_batch_plan_deinit(&plan);
    w.p.acceptance = 1;
    w.pair.draft.c1 = w.pair.draft.c2 = 0; /* then they are for free, */
    w.pair.verify.c1 = 0;                  /* and so is their verification */
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
    assert_int_equal(plan.length, 3);
    assert_int_equal(plan.n_batches, 1); /* as many passes as one batch needs */
    ft_batch_plan_deinit(&plan);
    w.p.batch_most = 10;
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
    assert_int_equal(plan.n_batches, 3);
    ft_batch_plan_deinit(&plan);
}

static bool stopped(void)
{
    return true;
}

static void refuse(const ft_plan_problem *p, ft_plan_algorithm algorithm, const char *said)
{
    ft_batch_plan plan;
    ft_error err = {0};
    assert_int_equal(ft_batch_plan_make(p, algorithm, NULL, &err, &plan), FT_INVALID);
    assert_null(plan.batches);
    if (!strstr(err.message, said))
        fail_msg("%s: %s", said, err.message);
}

static void test_refused(void **state)
{
    const ft_plan_watch watch = {.stop = stopped};
    ft_batch_plan plan;
    world w;
    make_world(&w, 4, 400, 40, 9);
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, &watch, NULL, &plan), FT_CANCELLED);
    w.p.draft.most_bytes = w.p.draft.model_bytes + 450 * w.p.draft.token_bytes;
    w.tasks[2] = (ft_plan_task){"long", 440, 20, 0, 1, 1};
    refuse(&w.p, FT_PLAN_BEST, "task long alone exceeds the draft station's");
    refuse(&w.p, FT_PLAN_BEST, "450 together");
    w.p.length_most = 0; /* nothing is drafted */
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
    ft_batch_plan_deinit(&plan);
    w.p.length_most = w.p.length_least = 1;
    w.tasks[2].in_tok = 430; /* fits with its own output, but not with the longest */
    w.tasks[1] = (ft_plan_task){NULL, 10, 40, 0, 1, 1};
    refuse(&w.p, FT_PLAN_PAPER, "algorithm best");
    assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
    check_plan(&w.p, &plan);
    ft_batch_plan_deinit(&plan);
    w.p.draft.most_bytes = w.p.draft.model_bytes;
    refuse(&w.p, FT_PLAN_BEST, "do not hold its model");
    w.p.acceptance = NAN;
    refuse(&w.p, FT_PLAN_BEST, "acceptance");
    w.p.acceptance = 0.5;
    w.p.length_most = 65;
    refuse(&w.p, FT_PLAN_BEST, "lengths");
    w.p.length_most = 1;
    w.tasks[0].rate_bits_s = 0;
    refuse(&w.p, FT_PLAN_BEST, "rate");
    w.tasks[0].in_tok = 0;
    refuse(&w.p, FT_PLAN_BEST, "task 1: 0 tokens");
    w.p.n = 0;
    refuse(&w.p, FT_PLAN_BEST, "0 tasks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),   cmocka_unit_test(test_hundred),
        cmocka_unit_test(test_given),   cmocka_unit_test(test_delay),
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
