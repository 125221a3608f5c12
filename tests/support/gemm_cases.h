/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of products with packed weights against the plain one, bit for bit, on random numbers:
 * for unit tests, and for tools/check-neon, which has neither models nor ggml's library.
 */
#ifndef FT_TESTS_GEMM_CASES_H
#define FT_TESTS_GEMM_CASES_H

#include "base/rng.h"
#include "engine/gemm_kernel.h"

#define GEMM_CASES_TYPES 9
/* Every type that can be packed. */
extern const enum ggml_type gemm_cases_types[GEMM_CASES_TYPES];

/* All three kinds of 8-bit rows: small and large values, some blocks empty. */
bool gemm_case_rows(ft_rng *rng, const ft_gemm_kernel *kernel);
/* A tile of any bytes, n_blocks plain blocks wide, with n_rows rows of a longer group. */
bool gemm_case_tile(ft_rng *rng, const ft_gemm_kernel *kernel, enum ggml_type type,
                    uint32_t n_blocks, uint32_t n_rows);

/* Many of both, for every kernel of this machine: NULL, or the name of the first that differs. */
const char *gemm_cases_run(uint64_t seed);

#endif
