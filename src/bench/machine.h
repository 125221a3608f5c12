/* SPDX-License-Identifier: Apache-2.0
 *
 * The best that this machine can do, measured: reading memory, multiplying. Together with the bytes
 * and products of a piece of work this gives the least time that the work can take (its
 * roofline). */
#ifndef FT_BENCH_MACHINE_H
#define FT_BENCH_MACHINE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_bench_machine {
    double read_gb_s;   /* 10^9 bytes read from memory a second, all threads together */
    double f32_gmac_s;  /* 10^9 f32 multiply-adds a second */
    double int8_gmac_s; /* 10^9 8-bit multiply-adds a second; 0: no products of bytes */
} ft_bench_machine;

/* Best of several short runs on n_threads threads; takes about a second. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_machine_measure(int n_threads, ft_error *err,
                                                  ft_bench_machine *out);
json_t *ft_bench_machine_json(const ft_bench_machine *machine);

/* What a piece of work needs at least. */
typedef struct ft_bench_work {
    double bytes;     /* read from memory */
    double int8_macs; /* counted as f32 where the machine has no products of bytes */
    double f32_macs;
} ft_bench_work;

/* The least seconds that the machine needs: by memory or by multiplication, whichever is more. */
double ft_bench_bound_s(const ft_bench_machine *machine, const ft_bench_work *work);

/* Kernels of the measurement: n rounds of 16 independent accumulators in registers, and how many
 * multiply-adds a round is. NULL where the build has none. The result only keeps the work alive. */
typedef struct ft_bench_mac_kernel {
    int (*run)(uint64_t n);
    uint32_t macs; /* a round */
} ft_bench_mac_kernel;
const ft_bench_mac_kernel *ft_bench_mac_f32_avx2(void);
const ft_bench_mac_kernel *ft_bench_mac_int8_avx2(void);
const ft_bench_mac_kernel *ft_bench_mac_f32_avx512(void);
const ft_bench_mac_kernel *ft_bench_mac_int8_vnni(void);
const ft_bench_mac_kernel *ft_bench_mac_f32_neon(void);
const ft_bench_mac_kernel *ft_bench_mac_int8_dotprod(void);

#endif
