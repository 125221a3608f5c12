/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine's processor: its cores, and its instruction sets, detected at run time. A file named
 * *_avx2.c, *_avx512.c, *_vnni.c, *_bf16.c, *_neon.c or *_dotprod.c is compiled for that
 * instruction set, whatever the rest of the build is compiled for (CMakeLists.txt). Its code runs
 * only if the matching field is true.
 */
#ifndef FT_BASE_CPU_H
#define FT_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_cpu {
    bool avx2;    /* with FMA and F16C */
    bool avx512;  /* F, BW, DQ, VL; with all of avx2 */
    bool vnni;    /* AVX-512 VNNI; with all of avx512 */
    bool bf16;    /* AVX-512 BF16; with all of avx512 */
    bool neon;    /* AArch64 */
    bool dotprod; /* AArch64's 8-bit dot product; with neon */
} ft_cpu;

/* The same at every call; borrowed for the life of the program. Any thread. */
const ft_cpu *ft_cpu_get(void);

/* A number for the processor's model and instruction sets, as the kernel names them: another one's
 * times say nothing of this one's. 0: the kernel does not say. Reads a file; any thread. */
uint64_t ft_cpu_fingerprint(void);

/* For tests: from now on ft_cpu_get reports only what `most` has, too; NULL: all that there is.
 * Engines and models must be made anew after it, and no other thread may ask meanwhile. */
void ft_cpu_limit(const ft_cpu *most);

/* As many threads as somebody asks for; 0 or less: one for each core. */
int ft_cpu_threads(int64_t asked);

#endif
