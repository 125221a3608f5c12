// SPDX-License-Identifier: Apache-2.0
// Kernels of products with packed weights against the plain one, bit for bit.
#include "support/gemm_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gemm_f.h"
#include "model/pack.h"

enum { BLOCKS = 19, WIDTH = 32 * BLOCKS, TILE_ROWS = FT_GEMM_GROUP + 3 };
enum { TILES = 3, RESIDUAL = 16 * TILES + 1, OUT = 16 * TILES + 3 }; /* strides, in floats */

const enum ggml_type gemm_cases_types[GEMM_CASES_TYPES] = {
    GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
    GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

static void fill(ft_rng *rng, float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * ((float)ft_rng_below(rng, 20001) / 10000.0f - 1.0f);
}

bool gemm_case_rows(ft_rng *rng, const ft_gemm_kernel *kernel)
{
    ft_gemm_quantize_fn *a = kernel->quantize, *b = ft_gemm_kernel_plain.quantize;
    ft_gemm_block ours[3][2 * BLOCKS], plain[3][2 * BLOCKS];
    float x[2 * WIDTH], weight[WIDTH];
    uint32_t n = 1 + ft_rng_below(rng, BLOCKS);
    memset(ours, 0, sizeof ours);
    memset(plain, 0, sizeof plain);
    fill(rng, x, 2 * WIDTH, ldexpf(1.0f, (int)ft_rng_below(rng, 40) - 30));
    if (ft_rng_below(rng, 4) == 0)
        memset(x, 0, 32 * sizeof *x);
    fill(rng, weight, WIDTH, 2.0f);
    const ft_gemm_f_row rows[3] = {
        {.x = x},
        {.x = x, .weight = weight, .factor = ft_gemm_f_rms_factor(x, 32 * n, 1e-6f)},
        {.x = x, .up = x + WIDTH}};
    for (int i = 0; i < 3; i++) {
        ft_gemm_f_quantize(a, &rows[i], (ft_gemm_f_range){0, n}, ours[i], 2);
        ft_gemm_f_quantize(b, &rows[i], (ft_gemm_f_range){0, n}, plain[i], 2);
    }
    return memcmp(ours, plain, sizeof ours) == 0;
}

/* Every quant there can be; scales, which are a block's first or last halves, without
 * infinities. */
static void fill_tile(ft_rng *rng, uint8_t *plain, size_t bytes, size_t block_bytes)
{
    for (size_t i = 0; i < bytes; i++)
        plain[i] = (uint8_t)ft_rng_below(rng, 256);
    for (size_t i = 0; i < bytes; i += block_bytes)
        for (size_t h = 1; h < 4; h += 2) {
            plain[i + h] &= 0xbf;
            plain[i + block_bytes - h] &= 0xbf;
        }
}

bool gemm_case_tile(ft_rng *rng, const ft_gemm_kernel *kernel, enum ggml_type type,
                    uint32_t n_blocks, uint32_t n_rows)
{
    n_blocks *= (uint32_t)ggml_blck_size(type) / 32;
    size_t tile_bytes = ft_pack_tile_bytes(type, 32 * n_blocks), n_x = (size_t)n_blocks * 32;
    size_t bytes = TILES * tile_bytes;
    uint8_t *plain = malloc(bytes), *packed = malloc(bytes);
    float *x = malloc(n_x * sizeof *x), residual[TILE_ROWS * RESIDUAL];
    float ours[TILE_ROWS * OUT] = {0}, expected[TILE_ROWS * OUT] = {0};
    ft_gemm_block *rows = malloc((size_t)TILE_ROWS * n_blocks * sizeof *rows);
    fill_tile(rng, plain, bytes, ggml_type_size(type));
    ft_pack(type, (int64_t)n_x, 16 * TILES, plain, packed);
    for (uint32_t r = 0; r < TILE_ROWS; r++) {
        fill(rng, x, n_x, 3.0f);
        ft_gemm_kernel_plain.quantize(x, n_blocks, rows + r, TILE_ROWS);
    }
    fill(rng, residual, TILE_ROWS * RESIDUAL, 9.0f);
    ft_gemm_tile t = {.weights = packed,
                      .n_tiles = TILES,
                      .tile_bytes = tile_bytes,
                      .n_blocks = n_blocks,
                      .n_rows = n_rows,
                      .row_blocks = TILE_ROWS,
                      .rows = rows,
                      .residual = n_rows % 2 ? residual : NULL,
                      .residual_stride = RESIDUAL,
                      .out = ours,
                      .out_stride = OUT,
                      .prefetch = n_rows % 3 ? packed : NULL};
    kernel->tile(type)(&t);
    t.out = expected;
    ft_gemm_kernel_plain.tile(type)(&t);
    free(plain);
    free(packed);
    free(x);
    free(rows);
    return memcmp(ours, expected, sizeof ours) == 0;
}

static bool tiles_equal(ft_rng *rng, const ft_gemm_kernel *kernel, enum ggml_type type)
{
    uint32_t most = ggml_blck_size(type) > 32 ? 4 : 9;
    for (uint32_t n_blocks = 1; n_blocks <= most; n_blocks++)
        for (uint32_t n_rows = 1; n_rows <= FT_GEMM_GROUP; n_rows++)
            if (!gemm_case_tile(rng, kernel, type, n_blocks, n_rows))
                return false;
    return true;
}

const char *gemm_cases_run(uint64_t seed)
{
    const ft_gemm_kernel *kernels[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(kernels);
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (size_t k = 0; k + 1 < n; k++) { /* the last is the plain one */
        for (int round = 0; round < 1000; round++)
            if (!gemm_case_rows(&rng, kernels[k]))
                return kernels[k]->name;
        for (int t = 0; t < GEMM_CASES_TYPES; t++)
            if (kernels[k]->tile(gemm_cases_types[t]) &&
                !tiles_equal(&rng, kernels[k], gemm_cases_types[t]))
                return kernels[k]->name;
    }
    return NULL;
}
