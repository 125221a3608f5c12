// SPDX-License-Identifier: Apache-2.0
// Which kernels of products with packed weights this machine can run. Stateless.
#include "engine/gemm_kernel.h"

#include "base/cpu.h"

size_t ft_gemm_kernels(const ft_gemm_kernel *out[FT_GEMM_KERNELS])
{
    const ft_cpu *cpu = ft_cpu_get();
    size_t n = 0;
#if defined(__x86_64__)
    if (cpu->vnni)
        out[n++] = &ft_gemm_kernel_vnni;
    if (cpu->bf16)
        out[n++] = &ft_gemm_kernel_bf16;
    if (cpu->avx512)
        out[n++] = &ft_gemm_kernel_avx512;
    if (cpu->avx2)
        out[n++] = &ft_gemm_kernel_avx2;
#elif defined(__aarch64__)
    if (cpu->dotprod)
        out[n++] = &ft_gemm_kernel_dotprod;
    if (cpu->neon)
        out[n++] = &ft_gemm_kernel_neon;
#endif
    out[n++] = &ft_gemm_kernel_plain;
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
