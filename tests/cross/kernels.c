// SPDX-License-Identifier: Apache-2.0
// The tests of the kernels alone, without ggml and without a test library: tools/check-neon
// compiles it for AArch64 and runs it under an emulator. The logic is that of the unit tests
// (support/).
#include <stdio.h>

#include "support/attn_cases.h"
#include "support/gemm_cases.h"

static int report(const char *name, uint64_t seed, const char *bad)
{
    if (bad)
        fprintf(stderr, "%s, seed %d: %s\n", name, (int)seed, bad);
    return bad != NULL;
}

static int attention(void)
{
    int failed = report("halves", 0, attn_case_halves());
    for (uint64_t seed = 1; seed <= 3; seed++)
        failed += report("attention", seed, attn_case_kernels(seed));
    for (uint64_t seed = 0; seed < 3; seed++)
        failed += report("writing K and V", seed, attn_case_writing(seed));
    return failed;
}

int main(void)
{
    int failed = attention();
    for (uint64_t seed = 1; seed <= 2; seed++)
        failed += report("products with packed weights", seed, gemm_cases_run(seed));
    if (!failed)
        puts("kernels: passed");
    return failed ? 1 : 0;
}
