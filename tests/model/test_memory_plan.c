// SPDX-License-Identifier: Apache-2.0
// The division of a budget: what it goes to adds up to no more than the budget; the least budget is
// the least; more memory never means fewer resident layers or rows; resident layers are spread.
#include "model/memory_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MB ((uint64_t)1000000)

enum { N_LAYER = 40 };

static const ft_memory_part fixed[] = {{"program", 40 * MB, NULL}, {"kv", 30 * MB, "-c"}};

static uint64_t pass_bytes(const void *ctx, uint32_t rows, uint32_t out, bool parts)
{
    (void)ctx;
    return rows * 20000ull + out * (parts ? 250000ull : 200000ull);
}

static ft_memory_ask ask_for(uint64_t budget)
{
    ft_memory_ask ask = {.budget_bytes = budget,
                         .fixed = fixed,
                         .n_fixed = 2,
                         .weights = {.n_layer = N_LAYER,
                                     .vectors = 1 * MB,
                                     .head = 25 * MB,
                                     .embedding = 20 * MB,
                                     .reader = 1 * MB,
                                     .slot = 6 * MB},
                         .pass_bytes = pass_bytes,
                         .rows_least = 64,
                         .rows_most = 512,
                         .out_most = 65};
    for (uint32_t i = 0; i < N_LAYER; i++)
        ask.weights.layer[i] = (i % 2 ? 5 : 6) * MB;
    return ask;
}

static uint64_t least(void)
{
    ft_memory_ask ask = ask_for(1);
    ft_memory_plan plan;
    ft_error err = {0};
    assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_EXHAUSTED);
    return plan.least_bytes;
}

static uint64_t sum_of(const ft_memory_plan *plan)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < plan->n_parts; i++)
        sum += plan->parts[i].bytes;
    return sum;
}

static uint64_t part(const ft_memory_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n_parts; i++)
        if (strcmp(plan->parts[i].name, name) == 0)
            return plan->parts[i].bytes;
    fail_msg("no part '%s'", name);
    return 0;
}

static uint64_t weights(const ft_memory_plan *plan)
{
    return part(plan, "resident layers") + part(plan, "output head") + part(plan, "embedding");
}

static uint32_t count_resident(const ft_memory_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_layer; i++)
        n += ft_memory_is_resident(plan, i);
    return n;
}

static void test_least(void **state)
{
    (void)state;
    ft_memory_ask ask = ask_for(least() - 1);
    ft_memory_plan plan;
    ft_error err = {0};
    assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_EXHAUSTED);
    assert_non_null(strstr(err.message, "kv takes 30.0 MB (-c)"));
    ask.budget_bytes++;
    assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_OK);
    assert_int_equal(plan.bytes, ask.budget_bytes);
    assert_int_equal(plan.n_resident, 0);
    assert_int_equal(plan.n_slots, 2);
    assert_int_equal(plan.rows, 64);
    assert_false(plan.head_resident);
    assert_false(plan.embedding_resident);
    assert_false(plan.all_resident);
}

/* From the least budget up to all that there is. */
static void test_grows(void **state)
{
    ft_memory_plan before = {0}, plan;
    ft_error err = {0};
    uint64_t most = 0;
    (void)state;
    for (uint64_t budget = least(); !before.all_resident; budget += MB / 2) {
        ft_memory_ask ask = ask_for(budget);
        assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_OK);
        assert_int_equal(sum_of(&plan), plan.bytes);
        assert_true(plan.bytes <= budget);
        assert_true(plan.rows >= before.rows || (plan.all_resident && !before.all_resident));
        assert_true(plan.out == 64 || plan.out == 65);
        if (!plan.all_resident) {
            assert_int_equal(count_resident(&plan), plan.n_resident);
            assert_true(plan.n_resident < N_LAYER || !plan.head_resident);
            assert_true(plan.n_slots >= 2);
            assert_int_equal(part(&plan, "ring"), plan.n_slots * plan.slot_bytes + MB);
        } else {
            assert_int_equal(part(&plan, "ring"), 0);
            assert_int_equal(count_resident(&plan), N_LAYER);
        }
        /* a layer may make room for the output head or for rows of a pass */
        const uint64_t now = weights(&plan);
        assert_true(now + 10 * MB >= most);
        most = now > most ? now : most;
        before = plan;
        assert_true(budget < 1000 * MB);
    }
    assert_true(before.head_resident && before.embedding_resident);
    ft_memory_ask ask = ask_for(2000 * MB);
    assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_OK);
    assert_int_equal(plan.rows, 512);
}

/* Any two neighbouring streamed runs differ by one layer at most. */
static void test_spread(void **state)
{
    ft_memory_ask ask = ask_for(270 * MB);
    ft_memory_plan plan;
    ft_error err = {0};
    uint32_t run = 0, shortest = UINT32_MAX, longest = 0;
    (void)state;
    assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_OK);
    assert_in_range(plan.n_resident, 5, 30);
    for (uint32_t i = 0; i < N_LAYER; i++) {
        if (!ft_memory_is_resident(&plan, i)) {
            run++;
            continue;
        }
        shortest = run < shortest ? run : shortest;
        longest = run > longest ? run : longest;
        run = 0;
    }
    assert_true(longest <= shortest + 1);
}

/* One matrix is embedding and head. */
static void test_shared(void **state)
{
    ft_memory_ask ask = ask_for(400 * MB);
    ft_memory_plan plan;
    ft_error err = {0};
    (void)state;
    ask.weights.embedding = 0;
    for (uint64_t budget = 130 * MB; budget < 420 * MB; budget += MB) {
        ask.budget_bytes = budget;
        assert_int_equal(ft_memory_plan_make(&ask, &err, &plan), FT_OK);
        assert_int_equal(plan.head_resident, plan.embedding_resident);
        assert_int_equal(part(&plan, "embedding"), 0);
    }
    assert_true(plan.all_resident);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
