// SPDX-License-Identifier: Apache-2.0
// The rule by which products are ours or ggml's, and how it is told. Pure functions; measures
// nothing. The rule rests on these ratios of ggml's time to ours (geometric means over 1, 4, 16 and
// 64 rows of matrices 576 wide, behind the slash 1536 wide; one thread's own time; ggml's fastest
// layout; `foretoken bench kernels -t 1` compares the same on a file):
//
//                  AVX-512 VNNI  AVX2
//   q4_0           1.9 / 1.9     2.3 / 2.1
//   iq4_nl         2.0 / 1.9     1.4 / 1.2
//   q4_1           5.1 / 4.5     4.8 / 4.0
//   q5_0           2.9 / 2.6     3.0 / 2.7
//   q5_1           5.3 / 4.8     3.4 / 2.7
//   q8_0           2.5 / 2.2     2.1 / 1.9
//   q4_K           - / 2.1       - / 1.3
//   q5_K           - / 4.2       - / 2.6
//   q6_K           - / 3.5       - / 2.0
//   f16            1.2 / 1.0     1.8 / 1.3
//   bf16           1.1 / 0.8     2.0 / 1.8
//
// BF16 on AVX-512 is the one where ggml's is faster, in a way that rounds a row differently among
// others; a row at a time (gemm.c) it is slower. AArch64 was not measured: there the rule is for
// equal bits alone.
#include "engine/products.h"

#include <stdio.h>
#include <string.h>

#include "engine/gemm_kernel.h"

static const char *const names[] = {
    [FT_PRODUCTS_AUTO] = "auto", [FT_PRODUCTS_PACKED] = "packed", [FT_PRODUCTS_GGML] = "ggml"};

ft_status ft_products_parse(const char *name, ft_error *err, ft_products *out)
{
    *out = FT_PRODUCTS_AUTO;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (ft_products)i;
            name = NULL;
        }
    if (!name)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "--kernels: '%s' is not auto, packed or ggml", name);
}

void ft_products_apply(ft_products products, ft_model_opts *opts)
{
    opts->no_pack = products == FT_PRODUCTS_GGML;
    opts->choose = products == FT_PRODUCTS_PACKED ? NULL : ft_products_choose;
}

bool ft_products_choose(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return ft_gemm_kernel_best(type) != &ft_gemm_kernel_plain;
}

static size_t put_types(const char *who, uint64_t types, size_t n, char out[FT_PRODUCTS_TEXT])
{
    if (types)
        n += (size_t)snprintf(out + n, FT_PRODUCTS_TEXT - n, "%s%s", n ? " " : "", who);
    for (int t = 0; t < GGML_TYPE_COUNT && n < FT_PRODUCTS_TEXT; t++)
        if (types >> t & 1)
            n += (size_t)snprintf(out + n, FT_PRODUCTS_TEXT - n, " %s", ggml_type_name(t));
    return n < FT_PRODUCTS_TEXT ? n : FT_PRODUCTS_TEXT - 1;
}

void ft_products_text(const ft_model_products *products, char out[FT_PRODUCTS_TEXT])
{
    out[0] = 0;
    size_t n = put_types("packed", products->packed, 0, out);
    n = put_types("ggml", products->by_ggml, n, out);
    put_types("device", products->on_devices, n, out);
}
