// SPDX-License-Identifier: Apache-2.0
// bench/serving_settings: every combination of the lists once, with the settings in which edges
// choose a depth, and with leaders.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/serving_settings.h"

static ft_bench_serving_setting settings[FT_BENCH_SERVING_SETTINGS_MAX];
static uint32_t n;

static ft_status expand(const ft_bench_serving_sweep *sweep)
{
    ft_error err;
    return ft_bench_serving_settings(sweep, &err, settings, &n);
}

static ft_bench_serving_sweep one(void)
{
    return (ft_bench_serving_sweep){.batch = {{4}, 1},
                                    .depth = {{7}, 1},
                                    .draft_ms = {0},
                                    .n_draft_ms = 1,
                                    .shape = {[FT_BENCH_SHAPE_TREE] = true}};
}

static void test_one(void **state)
{
    const ft_bench_serving_sweep sweep = one();
    assert_int_equal(expand(&sweep), FT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(settings[0].batch, 4);
    assert_int_equal(settings[0].depth, 7);
    assert_false(settings[0].fixed);
    assert_int_equal(ft_bench_serving_multiple(&sweep), 8);
}

/* The choice comes first and may go as deep as any depth of the list. */
static void test_depths(void **state)
{
    ft_bench_serving_sweep sweep = one();
    sweep.depth = (ft_bench_list){{3, 9, 5}, 3};
    assert_int_equal(expand(&sweep), FT_OK);
    assert_int_equal(n, 4);
    assert_true(!settings[0].fixed && settings[0].depth == 9);
    for (uint32_t i = 1; i < n; i++) {
        assert_true(settings[i].fixed && settings[i].depth == sweep.depth.value[i - 1]);
        assert_int_equal(settings[i].leader, 0);
    }
}

/* Each combination once; the leader is the first with the same batch and shape. */
static void test_combinations(void **state)
{
    ft_bench_serving_sweep sweep = one();
    sweep.batch = (ft_bench_list){{1, 2, 6}, 3};
    sweep.draft_ms[1] = 5;
    sweep.n_draft_ms = 2;
    sweep.shape[FT_BENCH_SHAPE_CHAIN] = true;
    assert_int_equal(expand(&sweep), FT_OK);
    assert_int_equal(n, 3 * 2 * 2);
    for (uint32_t i = 0; i < n; i++) {
        const ft_bench_serving_setting *s = &settings[i], *l = &settings[s->leader];
        assert_true(s->leader <= i && l->leader == s->leader);
        assert_true(l->batch == s->batch && l->shape == s->shape);
        for (uint32_t k = 0; k < i; k++) {
            const ft_bench_serving_setting *t = &settings[k];
            assert_false(t->batch == s->batch && t->draft_ms == s->draft_ms &&
                         t->shape == s->shape);
            assert_true((t->leader == s->leader) == (t->batch == s->batch && t->shape == s->shape));
        }
    }
    assert_int_equal(ft_bench_serving_most_batch(&sweep), 6);
    assert_int_equal(ft_bench_serving_multiple(&sweep), 12);
}

static void test_too_many(void **state)
{
    ft_bench_serving_sweep sweep = one();
    sweep.batch.n = sweep.depth.n = 8;
    for (uint32_t i = 0; i < 8; i++)
        sweep.batch.value[i] = sweep.depth.value[i] = i + 1;
    assert_int_equal(expand(&sweep), FT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
