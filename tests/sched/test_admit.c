// SPDX-License-Identifier: Apache-2.0
// Admission: what a promise takes, when no more is given, and which rounds count as behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/admit.h"

#define S 1000000 /* us */

/* 10 ms a row, 1 us for a row to attend to a token, and 50 ms for any pass. */
static ft_cost known(void)
{
    const double us[FT_COST_FACTORS] = {
        [FT_COST_PASS] = 50000, [FT_COST_ROW] = 10000, [FT_COST_INTERACTION] = 1};
    ft_cost cost;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, us, 0.05);
    return cost;
}

static void test_load(void **state)
{
    const ft_cost cost = known();
    const ft_gain none = {0}, seen = {.rows = {true, 3.5}, .tok = {true, 3.5}},
                  other = {.rows = {true, 8}, .tok = {true, 2}};
    ft_cost unknown;
    ft_admit_text text = {.tokens_per_s = 8, .len = 500};
    (void)state;
    /* No round was seen: 8 rows a second. What any pass costs is no round's. */
    assert_float_equal(ft_admit_load(&cost, &none, &text), 8. * (10000 + 500 + 1) / S, 1e-9);
    assert_float_equal(ft_admit_load(&cost, &other, &text), /* as rounds usually are */
                       4. * (8 * 10000 + 8 * 500 + 36) / S, 1e-9);
    text.gain = &seen; /* as the session's own are: 3.5 of 4 rows */
    text.len = 1000;
    const double row_us = 4 * 10000 + 4 * 1000 + 10;
    assert_float_equal(ft_admit_load(&cost, &other, &text), 8 / 3.5 * row_us * 3.5 / 4 / S, 1e-9);
    text.gain = &none; /* open, and without a round: its own context */
    assert_float_equal(ft_admit_load(&cost, &other, &text), 4. * (8 * 10000 + 8 * 1000 + 36) / S,
                       1e-9);
    ft_cost_init(&unknown);
    assert_true(ft_admit_load(&unknown, &none, &text) == 0);
}

static void test_promises(void **state)
{
    (void)state;
    assert_true(ft_admit_promise(0, 100, 1)); /* somebody must try */
    assert_true(ft_admit_promise(0.4, 0.24, 0));
    assert_false(ft_admit_promise(0.4, 0.26, 0));
    assert_true(ft_admit_promise(0.1, 0.1, 0.019));
    assert_false(ft_admit_promise(0.1, 0.1, 0.021));
}

/* As many as can be given one after another. */
static void test_more(void **state)
{
    static const double promised[] = {0, 0.1, 0.4, 0.7}, asked[] = {0.03, 0.1, 0.27, 1.5};
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++)
            for (int behind = 0; behind < 2; behind++) {
                double load = promised[i];
                uint32_t n = 0;
                for (; n < 10 && ft_admit_promise(load, asked[k], behind * 0.5); n++)
                    load += asked[k];
                assert_int_equal(ft_admit_more(promised[i], asked[k], behind * 0.5, 10), n);
            }
    assert_int_equal(ft_admit_more(0, 1.5, 1, 10), 1);
    assert_int_equal(ft_admit_more(0.1, 0, 0, 10), 10); /* costs are not known */
    assert_int_equal(ft_admit_more(0, 0.03, 0, 0), 0);
}

/* 4 tokens/s since 90 s; it is 100 s, so that 40 tokens are owed but for those of two passes. The
 * round came at 99 s. */
static bool is_behind(uint32_t had_tok, int64_t budget_us, int64_t pass_us)
{
    const ft_promise p = {.tokens_per_s = 4, .asked_us = 90 * S, .had_tok = had_tok};
    return ft_admit_is_behind(&p, &(ft_late_round){.arrival_us = 99 * S,
                                                   .pass_us = 100 * S - pass_us,
                                                   .verdict_us = 100 * S,
                                                   .budget_us = budget_us});
}

static void test_behind(void **state)
{
    const int64_t came = 99 * S, now = 100 * S, late = now - 1;
    (void)state;
    assert_true(is_behind(39, late, 0));
    assert_false(is_behind(39, now, 0));      /* the verdict is in time */
    assert_false(is_behind(39, came + 1, 0)); /* its edge left it no time */
    assert_true(is_behind(39, came + 2, 0));
    assert_false(is_behind(40, late, 0));
    assert_true(is_behind(0, late, 0)); /* it has waited for its prompt: it is as far behind */
    assert_true(is_behind(35, late, S / 2));
    assert_false(is_behind(36, late, S / 2));
}

/* Four late rounds in a row are borne, the fifth is not; what was late is forgotten. */
static void test_behind_share(void **state)
{
    ft_admit_behind behind = {0};
    int n = 0;
    (void)state;
    ft_admit_saw(&behind, false, S);
    assert_true(ft_admit_behind_share(&behind, S) == 0);
    for (; n < 1000 && ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, S)); n++)
        ft_admit_saw(&behind, true, S);
    assert_int_equal(n, 5);
    for (n = 0; n < 1000 && !ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, S)); n++)
        ft_admit_saw(&behind, false, S);
    assert_in_range(n, 30, 60);
}

/* A server with five rounds a second: what it was like in overload does not last. */
static void test_slow_rounds(void **state)
{
    ft_admit_behind behind = {0};
    int64_t now = 100 * S;
    (void)state;
    for (int i = 0; i < 1000; i++, now += S / 5)
        ft_admit_saw(&behind, i % 20 == 0, now);
    assert_true(ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, now)));
    for (int i = 0; i < 200; i++, now += S / 5)
        ft_admit_saw(&behind, true, now);
    assert_float_equal(ft_admit_behind_share(&behind, now), 0.25, 0.01);
    assert_false(ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, now + 20 * S)));
    assert_true(ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, now + 30 * S)));
    ft_admit_saw(&behind, false, now + 30 * S);
    assert_true(ft_admit_promise(0.1, 0.1, ft_admit_behind_share(&behind, now + 30 * S)));
}

static void test_kv(void **state)
{
    (void)state;
    assert_true(ft_admit_kv(&(ft_admit_blocks){.all = 400, .of_tenant = 400, .n_tenants = 1}, 100));
    assert_false(
        ft_admit_kv(&(ft_admit_blocks){.all = 401, .of_tenant = 401, .n_tenants = 1}, 100));
    /* Others have grown: an equal part is there all the same, and no more. */
    assert_true(
        ft_admit_kv(&(ft_admit_blocks){.all = 9999, .of_tenant = 200, .n_tenants = 2}, 100));
    assert_false(
        ft_admit_kv(&(ft_admit_blocks){.all = 9999, .of_tenant = 201, .n_tenants = 2}, 100));
    assert_true(ft_admit_kv(&(ft_admit_blocks){.all = 400, .of_tenant = 399, .n_tenants = 9}, 100));
    const uint64_t most = 4ull * UINT32_MAX;
    const ft_admit_blocks large = {.all = most, .of_tenant = most, .n_tenants = 1};
    assert_true(ft_admit_kv(&large, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),         cmocka_unit_test(test_promises),
        cmocka_unit_test(test_more),         cmocka_unit_test(test_behind),
        cmocka_unit_test(test_behind_share), cmocka_unit_test(test_slow_rounds),
        cmocka_unit_test(test_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
