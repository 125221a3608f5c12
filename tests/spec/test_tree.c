// SPDX-License-Identifier: Apache-2.0
// Token trees: building, looking up, rejecting what is no tree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/tree.h"

static void small_tree(ft_tree *tree)
{
    ft_tree_clear(tree);
    assert_int_equal(ft_tree_add(tree, -1, 5, -0.5f), 0);
    assert_int_equal(ft_tree_add(tree, -1, 6, -1.0f), 1);
    assert_int_equal(ft_tree_add(tree, 0, 5, -0.25f), 2);
    assert_int_equal(ft_tree_add(tree, 2, 7, -0.125f), 3);
}

static void test_add_and_find(void **state)
{
    ft_tree tree;
    small_tree(&tree);
    assert_int_equal(tree.depth[0], 0);
    assert_int_equal(tree.depth[3], 2);
    assert_int_equal(ft_tree_levels(&tree), 3);
    assert_true(tree.cum_logp[3] == -0.875f);
    assert_int_equal(ft_tree_find_child(&tree, -1, 6), 1);
    assert_int_equal(ft_tree_find_child(&tree, 0, 5), 2);
    assert_int_equal(ft_tree_find_child(&tree, 0, 6), -1);
    assert_int_equal(ft_tree_find_child(&tree, 3, 7), -1);
    assert_int_equal(ft_tree_check(&tree, 8, NULL), FT_OK);
    ft_tree_clear(&tree);
    assert_int_equal(ft_tree_levels(&tree), 0);
    assert_int_equal(ft_tree_find_child(&tree, -1, 5), -1);
    assert_int_equal(ft_tree_check(&tree, 8, NULL), FT_OK);
}

static void test_bad_trees_are_refused(void **state)
{
    ft_tree tree;
    ft_error err;
    static const struct {
        uint32_t node;
        int32_t parent, token;
        const char *word;
    } bad[] = {
        {1, 1, 6, "parent"},           {1, 3, 6, "parent"},
        {2, -2, 5, "parent"},          {0, 0, 5, "parent"},
        {3, 2, 8, "outside"},          {3, 2, -1, "outside"},
        {1, -1, 5, "equal"},           {3, 0, 5, "equal"},
        {2, INT32_MAX, 5, "parent"},   {2, INT32_MIN, 5, "parent"},
        {0, -1, INT32_MAX, "outside"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        small_tree(&tree);
        tree.parent[bad[i].node] = bad[i].parent;
        tree.token[bad[i].node] = bad[i].token;
        assert_int_equal(ft_tree_check(&tree, 8, &err), FT_INVALID);
        assert_non_null(strstr(err.message, bad[i].word));
    }
    small_tree(&tree);
    tree.n = FT_TREE_MAX + 1;
    assert_int_equal(ft_tree_check(&tree, 8, &err), FT_INVALID);
}

static void test_full_tree(void **state)
{
    ft_tree tree;
    ft_tree_clear(&tree);
    for (int i = 0; i < FT_TREE_MAX; i++)
        ft_tree_add(&tree, i - 1, 0, -0.01f);
    assert_int_equal(tree.depth[FT_TREE_MAX - 1], FT_TREE_MAX - 1);
    assert_int_equal(ft_tree_check(&tree, 1, NULL), FT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_and_find),
        cmocka_unit_test(test_bad_trees_are_refused),
        cmocka_unit_test(test_full_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
