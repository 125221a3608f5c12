// SPDX-License-Identifier: Apache-2.0
// Sorting against the C library's, for every length up to a hundred, with few and with many equal
// keys.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/sort.h"

typedef struct item {
    uint32_t key, number;
    char rest[24];
} item;

/* By key times *ctx, equal ones by number. */
static bool before(const void *ctx, const void *a, const void *b)
{
    const item *x = a, *y = b;
    int sign = *(const int *)ctx;
    if (x->key != y->key)
        return sign > 0 ? x->key < y->key : x->key > y->key;
    return x->number < y->number;
}

static int ascending(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void test_like_the_library(void **state)
{
    const int up = 1, down = -1;
    item got[100], expected[100], popped[100];
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 5);
    for (uint32_t keys = 3; keys < 100000; keys *= 10)
        for (uint32_t n = 0; n <= 100; n++) {
            for (uint32_t i = 0; i < n; i++) {
                got[i] = (item){.key = ft_rng_below(&rng, keys), .number = i};
                memset(got[i].rest, (int)i, sizeof got[i].rest);
            }
            memcpy(expected, got, n * sizeof *got);
            qsort(expected, n, sizeof *expected, ascending);
            ft_sort(got, n, sizeof *got, before, &up);
            assert_memory_equal(got, expected, n * sizeof *got);
            ft_heap_make(got, n, sizeof *got, before, &down);
            for (uint32_t left = n; left > 0; left--) {
                ft_heap_pop(got, left, sizeof *got, before, &down);
                popped[n - left] = got[left - 1];
            }
            ft_sort(got, n, sizeof *got, before, &down);
            assert_memory_equal(got, popped, n * sizeof *got);
            for (uint32_t i = 0; i + 1 < n; i++)
                assert_true(before(&down, &got[i], &got[i + 1]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
