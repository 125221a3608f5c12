// SPDX-License-Identifier: Apache-2.0
// The CPU attention kernels on random shapes, block tables and trees (support/attn_cases.h): every
// instruction set (attn_avx2, attn_avx512, attn_bf16, attn_vnni, attn_neon, chosen by attn_cpu,
// over attn_tile.h) against attn_plain, that against the definition of attention, and the work plan
// (attn_plan.c) on threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/attn.h"
#include "support/attn_cases.h"

static void check(const char *bad, uint64_t seed)
{
    if (bad)
        fail_msg("seed %d: %s", (int)seed, bad);
}

static void test_kernels(void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++)
        check(attn_case_kernels(seed), seed);
}

static void test_threads(void **state)
{
    for (uint64_t seed = 1; seed <= 9; seed++)
        check(attn_case_threads(seed), seed);
}

static void test_writing(void **state)
{
    for (uint64_t seed = 0; seed < 6; seed++)
        check(attn_case_writing(seed), seed);
}

static void test_halves(void **state)
{
    check(attn_case_halves(), 0);
}

/* What a head cannot be kept as, and a size that no kernel but plain C takes. */
static void test_best(void **state)
{
    assert_null(ft_attn_kernel_best(FT_KV_Q8_0, 80));
    assert_null(ft_attn_kernel_best(FT_KV_BF16, 63));
    assert_non_null(ft_attn_kernel_best(FT_KV_Q8_0, 96));
    assert_ptr_equal(ft_attn_kernel_best(FT_KV_F16, 63), ft_attn_kernel_plain(FT_KV_F16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_writing), cmocka_unit_test(test_halves), cmocka_unit_test(test_best)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
