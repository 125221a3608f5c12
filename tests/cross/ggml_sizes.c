// SPDX-License-Identifier: Apache-2.0
// What packing asks of ggml: the sizes of the types that can be packed, and halves as floats. For
// programs without ggml.
#include "engine/f16.h"
#include "ggml.h"

int64_t ggml_blck_size(enum ggml_type type)
{
    if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16)
        return 1;
    return type >= GGML_TYPE_Q2_K && type <= GGML_TYPE_Q6_K ? 256 : 32;
}

size_t ggml_type_size(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F32:
        return 4;
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return 2;
    case GGML_TYPE_Q8_0:
        return 34;
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_IQ4_NL:
        return 18;
    case GGML_TYPE_Q4_1:
        return 20;
    case GGML_TYPE_Q5_0:
        return 22;
    case GGML_TYPE_Q5_1:
        return 24;
    case GGML_TYPE_Q4_K:
        return 144;
    case GGML_TYPE_Q5_K:
        return 176;
    case GGML_TYPE_Q6_K:
        return 210;
    default:
        return 0;
    }
}

size_t ggml_row_size(enum ggml_type type, int64_t n)
{
    return ggml_type_size(type) * (size_t)(n / ggml_blck_size(type));
}

void ggml_fp16_to_fp32_row(const ggml_fp16_t *half, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = ft_f16_to_f32(half[i]);
}
