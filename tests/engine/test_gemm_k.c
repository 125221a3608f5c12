// SPDX-License-Identifier: Apache-2.0
// Products with packed K-quants where numbers are largest: every quant, scale and value at its
// limit, by every kernel of this machine and by a sum in whole numbers, with which all must agree.
// (On random tiles test_gemm.c compares them.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/gemm_kernel.h"
#include "model/pack.h"

enum { N_IN = 512, BLOCKS = N_IN / 32 };

/* Largest quants, and the scale and min (Q6_K's scale: 8 bits with a sign) that go with them. */
static const struct limits {
    enum ggml_type type;
    int quant, scale, min, offset;
} limits[] = {{GGML_TYPE_Q4_K, 15, 63, 63, 0},
              {GGML_TYPE_Q5_K, 31, 63, 63, 0},
              {GGML_TYPE_Q6_K, 63, 127, 0, 32}};
#define N_TYPES (sizeof limits / sizeof *limits)

static void set_half(uint8_t *at, float x)
{
    uint16_t bits = ggml_fp32_to_fp16(x);
    memcpy(at, &bits, 2);
}

/* Rows whose numbers are all at their limits, d and dmin 1. */
static void fill_plain(const struct limits *l, uint8_t *plain)
{
    size_t block = ggml_type_size(l->type);
    memset(plain, 0xff, ft_pack_tile_bytes(l->type, N_IN));
    for (size_t s = 0; s < 16 * N_IN / 256; s++, plain += block) {
        if (l->type == GGML_TYPE_Q6_K) {
            memset(plain + 192, l->scale, 16);
            set_half(plain + 208, 1.0f);
        } else {
            set_half(plain, 1.0f);
            set_half(plain + 2, 1.0f);
        }
    }
}

static void check_limits(const struct limits *l, ft_gemm_tile_fn *tile, float sign)
{
    size_t bytes = ft_pack_tile_bytes(l->type, N_IN);
    uint8_t *plain = malloc(bytes), *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    ft_gemm_block rows[BLOCKS];
    float x[N_IN], out[16];
    fill_plain(l, plain);
    ft_pack(l->type, N_IN, 16, plain, packed);
    for (int i = 0; i < N_IN; i++)
        x[i] = sign * 127.0f;
    ft_gemm_kernel_plain.quantize(x, BLOCKS, rows, 1);
    ft_gemm_tile t = {.weights = packed,
                      .n_tiles = 1,
                      .n_blocks = BLOCKS,
                      .n_rows = 1,
                      .row_blocks = 1,
                      .rows = rows,
                      .out = out,
                      .out_stride = 16};
    tile(&t);
    /* Below 2^24, and a multiple of a block's share: exact in f32. */
    double expected = sign * 127.0 * N_IN * (l->scale * (l->quant - l->offset) - l->min);
    for (int o = 0; o < 16; o++)
        assert_true(fabs(out[o] - expected) <= 1e-6 * fabs(expected));
    free(plain);
    free(packed);
}

static void test_limits(void **state)
{
    const ft_gemm_kernel *all[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(all);
    for (size_t k = 0; k < n; k++)
        for (size_t t = 0; t < N_TYPES; t++) {
            ft_gemm_tile_fn *tile = all[k]->tile(limits[t].type);
            if (tile) {
                check_limits(&limits[t], tile, 1);
                check_limits(&limits[t], tile, -1);
            }
        }
}

/* Kernels for quantized weights take all K-quants, and no type that cannot be packed. */
static void test_which(void **state)
{
    const ft_gemm_kernel *all[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(all);
    for (size_t k = 0; k < n; k++) {
        for (size_t t = 0; t < N_TYPES; t++)
            assert_int_equal(all[k]->tile(limits[t].type) != NULL,
                             all[k]->tile(GGML_TYPE_Q8_0) != NULL);
        assert_null(all[k]->tile(GGML_TYPE_Q3_K));
    }
    assert_null(ft_gemm_k_plain(GGML_TYPE_Q8_0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_which)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
