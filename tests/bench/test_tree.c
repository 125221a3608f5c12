// SPDX-License-Identifier: Apache-2.0
// bench/tree: chains and best-first trees of any size, and where walks down them end.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/tree.h"

static ft_bench_tree tree;

static void test_chain(void **state)
{
    double p = 1;
    ft_bench_tree_make(&tree, 5, true);
    assert_int_equal(tree.n, 5);
    assert_int_equal(tree.n_leaves, 1);
    assert_int_equal(tree.n_depth, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(tree.parent[i], (int)i - 1);
        assert_int_equal(tree.depth[i], i);
        assert_int_equal(tree.leaf[i], i < 4 ? -1 : 0);
        p *= 0.6;
        assert_true(fabs(tree.p[i] - p) < 1e-12);
    }
}

/* The likeliest nodes are in the tree: a larger tree only adds less likely ones. */
static void test_best_first(void **state)
{
    for (uint32_t n = 1; n <= FT_BENCH_TREE_MAX; n += n < 8 ? 1 : 31) {
        uint32_t leaves = 0, deepest = 0;
        ft_bench_tree_make(&tree, n, false);
        assert_int_equal(tree.n, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(tree.parent[i] < (int)i);
            assert_true(i == 0 || tree.p[i] <= tree.p[i - 1]);
            assert_true(tree.parent[i] < 0 || tree.p[i] < tree.p[tree.parent[i]]);
            if (tree.leaf[i] >= 0)
                assert_int_equal(tree.leaf[i], leaves++);
            deepest = tree.depth[i] > deepest ? tree.depth[i] : deepest;
        }
        assert_int_equal(tree.n_leaves, leaves);
        assert_int_equal(tree.n_depth, deepest + 1);
    }
}

static void test_above(void **state)
{
    ft_bench_tree_make(&tree, 64, false);
    for (uint32_t b = 0; b < tree.n; b++)
        for (uint32_t a = 0; a < tree.n; a++) {
            bool above = false;
            for (int32_t at = (int32_t)b; at >= 0; at = tree.parent[at])
                above |= at == (int32_t)a;
            assert_true(ft_bench_tree_above(&tree, a, b) == above);
        }
}

/* Of many walks, spread evenly, as many pass through a node as its probability says. */
static void test_walks_end_as_p_says(void **state)
{
    enum { WALKS = 20000 };
    uint32_t through[32] = {0}, none = 0;
    ft_bench_tree_make(&tree, 32, false);
    for (uint32_t w = 0; w < WALKS; w++) {
        int32_t end = ft_bench_tree_end(&tree, (w + 0.5) / WALKS);
        none += end < 0;
        for (; end >= 0; end = tree.parent[end])
            through[end]++;
    }
    for (uint32_t i = 0; i < 32; i++)
        assert_true(fabs(through[i] / (double)WALKS - tree.p[i]) < 1e-3);
    double first = 0;
    for (uint32_t i = 0; i < 32; i++)
        first += tree.parent[i] < 0 ? tree.p[i] : 0;
    assert_true(fabs(none / (double)WALKS - (1 - first)) < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_best_first),
        cmocka_unit_test(test_above),
        cmocka_unit_test(test_walks_end_as_p_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
