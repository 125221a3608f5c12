// SPDX-License-Identifier: Apache-2.0
// What the processor can do: by the compiler's run-time support on x86, which also asks whether the
// system saves the wide registers; by the kernel's auxiliary vector on AArch64. It is found out
// once, by pthread_once.
#include "base/cpu.h"

#include <pthread.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static ft_cpu cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ask(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("f16c");
    cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
    cpu.vnni = cpu.avx512 && __builtin_cpu_supports("avx512vnni");
    cpu.bf16 = cpu.avx512 && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
    unsigned long caps = getauxval(AT_HWCAP);
    cpu.neon = (caps & HWCAP_ASIMD) != 0;
    cpu.dotprod = cpu.neon && (caps & HWCAP_ASIMDDP) != 0;
#endif
}

const ft_cpu *ft_cpu_get(void)
{
    pthread_once(&once, ask);
    return &cpu;
}

int ft_cpu_threads(int64_t asked)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return asked > 0 ? (int)asked : cores > 0 ? (int)cores : 1;
}
