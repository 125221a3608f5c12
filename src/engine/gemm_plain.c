// SPDX-License-Identifier: Apache-2.0
// Products with packed weights in plain C: the reference that the other kernels must equal bit for
// bit, and the kernel for machines that have no other. Written to be read, not for speed.
// Stateless.
#include <math.h>
#include <string.h>

#include "engine/f16.h"
#include "engine/gemm_types.h"
#include "model/pack.h"

enum { BLOCK = FT_PACK_BLOCK, ROWS = FT_PACK_ROWS };

/* ---- values to 8 bits ---- */

/* The scale is the largest magnitude / 127. The scale and the sum are rounded to half precision, as
 * in ggml (Q8_0, Q8_1), so that results differ from ggml's only by the order of summation. */
static void quantize_block(const float *x, ft_gemm_block *out)
{
    float max = 0;
    int32_t half[2] = {0};
    for (int i = 0; i < BLOCK; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    out->scale = ft_f16_to_f32(ft_f16_of(max / 127.0f));
    float inverse = out->scale > 0 ? 127.0f / max : 0.0f;
    for (int i = 0; i < BLOCK; i++) {
        float q = rintf(x[i] * inverse);
        out->q[i] = (int8_t)(q > -127.0f ? q < 127.0f ? q : 127.0f : -127.0f);
        half[i / 16] += out->q[i];
    }
    out->sum = ft_f16_to_f32(ft_f16_of(max / 127.0f * (float)(half[0] + half[1])));
    out->start8 = -8 * (half[0] + half[1]);
    out->start128 = -128 * (half[0] + half[1]);
    out->start32[0] = -32 * half[0];
    out->start32[1] = -32 * half[1];
}

static void quantize(const float *x, uint32_t n_blocks, ft_gemm_block *out, size_t stride)
{
    for (uint32_t b = 0; b < n_blocks; b++)
        quantize_block(x + b * BLOCK, out + b * stride);
}

/* ---- tiles ---- */

static const int8_t iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

/* Input i of an output of a block. */
static int weight_of(enum ggml_type type, const uint8_t *quants, int output, int i)
{
    if (type == GGML_TYPE_Q8_0)
        return quants[i / 4 * 64 + 4 * output + i % 4] - 128;
    int fifth = ft_pack_has_fifth(type) ? quants[4 * output + i % 4] >> (i / 4) & 1 : 0;
    quants += ft_pack_has_fifth(type) ? 64 : 0;
    int q = quants[i / 8 * 64 + 4 * output + i % 4] >> (i / 4 % 2 * 4) & 15;
    q += 16 * fifth;
    return ft_pack_has_min(type)    ? q
           : type == GGML_TYPE_Q4_0 ? q - 8
           : type == GGML_TYPE_Q5_0 ? q - 16
                                    : iq4_nl[q];
}

static float half_at(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, 2);
    return ft_f16_to_f32(bits);
}

static float sum_row(enum ggml_type type, const ft_gemm_tile *t, uint32_t row, int output)
{
    size_t scale_bytes = ft_pack_scale_bytes(type), quant_bytes = ft_pack_quant_bytes(type);
    float sum = 0;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        const ft_gemm_block *x = &t->rows[(size_t)b * t->row_blocks + row];
        uint32_t in_pair = b % 2 == 0 && b + 1 == t->n_blocks ? 1 : 2;
        const uint8_t *pair = t->weights + b / 2 * 2 * (scale_bytes + quant_bytes);
        const uint8_t *scales = pair + b % 2 * scale_bytes;
        const uint8_t *quants = pair + in_pair * scale_bytes + b % 2 * quant_bytes;
        int32_t dot = 0;
        for (int i = 0; i < BLOCK; i++)
            dot += weight_of(type, quants, output, i) * x->q[i];
        sum = fmaf((float)dot, half_at(scales + 2 * output) * x->scale, sum);
        if (ft_pack_has_min(type))
            sum = fmaf(half_at(scales + 2 * (ROWS + output)), x->sum, sum);
    }
    return sum;
}

static void tile_of(enum ggml_type type, const ft_gemm_tile *t)
{
    for (uint32_t r = 0; r < t->n_rows; r++)
        for (int o = 0; o < ROWS; o++) {
            float sum = sum_row(type, t, r, o);
            if (t->residual)
                sum += t->residual[r * t->residual_stride + (size_t)o];
            t->out[r * t->out_stride + (size_t)o] = sum;
        }
}

FT_GEMM_BLOCK_TYPES(FT_GEMM_FUNCTION)

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    switch (type) {
        FT_GEMM_BLOCK_TYPES(FT_GEMM_CASE)
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return ft_gemm_f_plain(type);
    default:
        return ft_gemm_k_plain(type);
    }
}

const ft_gemm_kernel ft_gemm_kernel_plain = {"plain", 8, quantize, tile};
