// SPDX-License-Identifier: Apache-2.0
// Which kernels of products with packed weights this machine can run. Stateless.
#include "engine/gemm_kernel.h"

size_t ft_gemm_kernels(const ft_gemm_kernel *out[FT_GEMM_KERNELS])
{
    const ft_gemm_kernel *const all[] = {ft_gemm_kernel_vnni(),    ft_gemm_kernel_bf16(),
                                         ft_gemm_kernel_avx512(),  ft_gemm_kernel_avx2(),
                                         ft_gemm_kernel_dotprod(), ft_gemm_kernel_neon(),
                                         &ft_gemm_kernel_plain};
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            out[n++] = all[i];
    return n;
}

const ft_gemm_kernel *ft_gemm_kernel_best(enum ggml_type type)
{
    const ft_gemm_kernel *all[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(all), i = 0;
    while (i + 1 < n && !all[i]->tile(type))
        i++;
    return all[i];
}
