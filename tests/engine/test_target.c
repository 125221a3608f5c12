// SPDX-License-Identifier: Apache-2.0
// A target's fingerprint: whatever may change a text's last bits changes it, and nothing else does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/target.h"

#define BIT(type) (1ull << GGML_TYPE_##type)

static void test_each_part_counts(void **state)
{
    const ft_target all[] = {
        {.weights = 1, .products.packed = BIT(Q8_0)},
        {.weights = 2, .products.packed = BIT(Q8_0)},
        {.weights = 1, .products.packed = BIT(Q4_1)},
        {.weights = 1, .products.by_ggml = BIT(Q8_0)},
        {.weights = 1, .products.on_devices = BIT(Q8_0)},
        {.weights = 1, .products.on_devices = BIT(Q8_0), .n_gpu_layers = 1},
        {.weights = 1, .products.packed = BIT(Q8_0), .kv_type = FT_KV_BF16},
        {.weights = 1, .products.packed = BIT(Q8_0), .portable_attention = true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const ft_target again = all[i];
        assert_true(ft_target_fingerprint(&all[i]) != 0);
        assert_true(ft_target_fingerprint(&all[i]) == ft_target_fingerprint(&again));
        for (size_t k = 0; k < i; k++)
            if (ft_target_fingerprint(&all[i]) == ft_target_fingerprint(&all[k]))
                fail_msg("targets %zu and %zu have the same fingerprint", k, i);
    }
}

static void test_words(void **state)
{
    char words[FT_TARGET_KERNELS];
    const ft_target target = {.products = {.packed = BIT(Q4_1) | BIT(Q8_0), .by_ggml = BIT(Q6_K)},
                              .kv_type = FT_KV_Q8_0};
    ft_target_kernels(&target, words);
    assert_string_equal(words, "packed q4_1 q8_0 ggml q6_K, kv q8_0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_counts),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
