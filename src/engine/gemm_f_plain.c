// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights in plain C: what the other kernels must equal bit for bit, and
// the kernel of machines that have no other. Written to be read, not for speed. Stateless.
#include <math.h>
#include <string.h>

#include "engine/f16.h"
#include "engine/gemm_types.h"
#include "model/pack.h"

enum { ROWS = FT_PACK_ROWS };

static float bf16_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, 2);
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static float f16_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, 2);
    return ft_f16_to_f32(half);
}

static float f32_at(const uint8_t *p)
{
    float value;
    memcpy(&value, p, 4);
    return value;
}

/* sum + what a step adds: unit x of a row with weight `at` of the tile. */
static float step(enum ggml_type type, const uint8_t *w, size_t at, const uint8_t *x, float sum)
{
    if (type == GGML_TYPE_F32)
        return fmaf(f32_at(w + 4 * at), f32_at(x), sum);
    if (type == GGML_TYPE_F16)
        return fmaf(f16_at(w + 2 * at), f32_at(x), sum);
    sum = fmaf(bf16_at(w + 4 * at + 2), bf16_at(x + 2), sum);
    return fmaf(bf16_at(w + 4 * at), bf16_at(x), sum);
}

static void tile_of(enum ggml_type type, const ft_gemm_tile *t)
{
    size_t n_steps = t->n_in / (type == GGML_TYPE_BF16 ? 2 : 1);
    for (uint32_t r = 0; r < t->n_rows; r++)
        for (int o = 0; o < ROWS; o++) {
            float part[2] = {0};
            for (size_t i = 0; i < n_steps; i++) {
                const uint8_t *x = (const uint8_t *)(t->units + i * t->row_blocks + r);
                part[i % 2] = step(type, t->weights, i * ROWS + (size_t)o, x, part[i % 2]);
            }
            float sum = part[0] + part[1];
            if (t->residual)
                sum += t->residual[r * t->residual_stride + (size_t)o];
            t->out[r * t->out_stride + (size_t)o] = sum;
        }
}

FT_GEMM_FLOAT_TYPES(FT_GEMM_FUNCTION)

ft_gemm_tile_fn *ft_gemm_f_plain(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_FLOAT_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}
