// SPDX-License-Identifier: Apache-2.0
// The paper's benchmarks on small cells: what each does, and that it never beats the plan.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/baselines.h"
#include "plan/memory.h"
#include "plan/runtime.h"

#define TASKS 40

typedef struct world {
    ft_plan_task tasks[TASKS];
    ft_plan_pair pair;
    ft_plan_problem p;
} world;

static void make_world(world *w, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    *w = (world){.pair = {.draft = {22, 2048, 5632, 4.11e-13, 0.56e-3},
                          .verify = {32, 4096, 11008, 2.08e-14, 1.28e-2}}};
    for (uint32_t k = 0; k < TASKS; k++)
        w->tasks[k] = (ft_plan_task){.in_tok = 1 + ft_rng_below(&rng, 300),
                                     .out_tok = 1 + ft_rng_below(&rng, 200),
                                     .payload_bits = 1e6,
                                     .rate_bits_s = 1e6 * exp(4 * ft_rng_unit(&rng))};
    w->p = (ft_plan_problem){.tasks = w->tasks,
                             .n = TASKS,
                             .acceptance = 0.8,
                             .length_least = 1,
                             .length_most = 8,
                             .times = ft_plan_pair_times,
                             .times_ctx = &w->pair,
                             .draft = {.most_bytes = 3e9,
                                       .model_bytes = ft_plan_weight_bytes(22, 2048, 5632),
                                       .token_bytes = ft_plan_token_bytes(22, 2048),
                                       .padded = true}};
}

/* Whether the order is that of arrival and all batches but the last have this many tasks. */
static bool in_arrival(const ft_batch_plan *plan, uint32_t size)
{
    bool good = true;
    for (uint32_t i = 0; i < plan->n_batches; i++) {
        const ft_plan_batch *b = &plan->batches[i];
        good = good && (b->shape.n == size || i + 1 == plan->n_batches);
        for (uint32_t k = 0; k < b->shape.n; k++)
            good = good && plan->order[b->first + k] / size == i;
    }
    return good;
}

static void check(const world *w, ft_plan_baseline i, const ft_batch_plan *plan,
                  const ft_batch_plan *other)
{
    const ft_plan_shape *first = &other->batches[0].shape;
    switch (i) {
    case FT_PLAN_NO_PIPELINE: {
        double sum = 0;
        for (uint32_t k = 0; k < other->n_batches; k++)
            sum += other->batches[k].draft_s + other->batches[k].verify_s;
        assert_true(fabs(other->inf_s / sum - 1) < 1e-9);
        assert_int_equal(other->n_batches, plan->n_batches);
        break;
    }
    case FT_PLAN_NO_BATCHING:
        assert_true(in_arrival(other, 1) && other->n_batches == TASKS);
        break;
    case FT_PLAN_FIXED_LENGTH:
        assert_int_equal(other->length, 7);
        break;
    case FT_PLAN_AUTOREGRESSIVE:
        assert_true(other->length == 0 && in_arrival(other, first->n));
        break;
    case FT_PLAN_STATIC:
        assert_true(first->n == 4 && in_arrival(other, 4));
        break;
    case FT_PLAN_MAXIMUM: { /* with one task more, a batch of the longest would not fit */
        ft_plan_shape longest = {.n = first->n};
        for (uint32_t k = 0; k < TASKS; k++) {
            longest.in_max =
                w->tasks[k].in_tok > longest.in_max ? w->tasks[k].in_tok : longest.in_max;
            longest.out_max =
                w->tasks[k].out_tok > longest.out_max ? w->tasks[k].out_tok : longest.out_max;
        }
        assert_true(in_arrival(other, first->n) && ft_plan_fits(&w->p, 1, &longest, 0));
        longest.n++;
        assert_false(ft_plan_fits(&w->p, 1, &longest, 0));
        break;
    }
    case FT_PLAN_HEURISTIC:
        assert_true(first->n >= 2 && in_arrival(other, first->n));
        break;
    default:
        assert_true(other->share[0] == 1.0 / TASKS && other->com_s > plan->com_s);
        assert_true(other->inf_s == plan->inf_s);
    }
}

static void test_all(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        world w;
        ft_batch_plan plan, other;
        make_world(&w, seed);
        assert_int_equal(ft_batch_plan_make(&w.p, FT_PLAN_BEST, NULL, NULL, &plan), FT_OK);
        const ft_plan_baseline_opts opts = {&plan, FT_PLAN_BEST, 4};
        for (int i = 0; i < FT_PLAN_BASELINES; i++) {
            ft_error err = {0};
            if (ft_plan_baseline_make(&w.p, (ft_plan_baseline)i, &opts, &err, &other) != FT_OK)
                fail_msg("%s: %s", ft_plan_baseline_name[i], err.message);
            check(&w, (ft_plan_baseline)i, &plan, &other);
            /* With lengths from 1 on, plain decoding may be quicker than the plan. */
            assert_true(i == FT_PLAN_AUTOREGRESSIVE || other.total_s >= plan.total_s);
            ft_batch_plan_deinit(&other);
        }
        ft_batch_plan_deinit(&plan);
    }
}

static void test_refused(void **state)
{
    world w;
    ft_batch_plan plan;
    ft_error err = {0};
    const ft_plan_baseline_opts opts = {NULL, FT_PLAN_BEST, 4};
    make_world(&w, 1);
    w.p.draft.most_bytes = w.p.draft.model_bytes + 10 * w.p.draft.token_bytes;
    assert_int_equal(ft_plan_baseline_make(&w.p, FT_PLAN_STATIC, &opts, &err, &plan), FT_INVALID);
    assert_non_null(strstr(err.message, "alone exceeds"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
