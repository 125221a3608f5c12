// SPDX-License-Identifier: Apache-2.0
// What the processor can do: by the compiler's run-time support on x86, which also asks whether the
// system saves the wide registers; by the kernel's auxiliary vector on AArch64. It is found out
// once, by pthread_once.
#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/secret.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static ft_cpu cpu, shown; /* what there is; what is reported */
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
    shown = cpu;
}

const ft_cpu *ft_cpu_get(void)
{
    pthread_once(&once, ask);
    return &shown;
}

void ft_cpu_limit(const ft_cpu *most)
{
    pthread_once(&once, ask);
    shown = cpu;
    if (!most)
        return;
    shown = (ft_cpu){.avx2 = cpu.avx2 && most->avx2,
                     .avx512 = cpu.avx512 && most->avx512,
                     .vnni = cpu.vnni && most->vnni,
                     .bf16 = cpu.bf16 && most->bf16,
                     .neon = cpu.neon && most->neon,
                     .dotprod = cpu.dotprod && most->dotprod};
}

/* Of the first processor; the rest of its lines are frequencies and numbers of cores. */
static bool names_it(const char *line)
{
    static const char *const keys[] = {"model name", "flags",       "Features",
                                       "CPU part",   "CPU variant", "CPU implementer"};
    for (size_t i = 0; i < FT_COUNT(keys); i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

uint64_t ft_cpu_fingerprint(void)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    uint64_t hash = FT_FNV64_INIT;
    char *line = NULL;
    size_t size = 0, named = 0;
    while (file && getline(&line, &size, file) > 1) /* an empty line ends the first one */
        if (names_it(line)) {
            hash = ft_fnv64(hash, line, strlen(line));
            named++;
        }
    free(line);
    if (file)
        fclose(file);
    return named > 0 ? hash : 0;
}

int ft_cpu_threads(int64_t asked)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return asked > 0 ? (int)asked : cores > 0 ? (int)cores : 1;
}
