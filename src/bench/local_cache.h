/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache folder for each method of bench local, or for the devices of bench capacity. So none of
 * them begins with what another one or the user's own processes have learnt, and none leaves
 * anything to them. Packed weights, which are large and say nothing, are kept for all of them
 * together. One thread. */
#ifndef FT_BENCH_LOCAL_CACHE_H
#define FT_BENCH_LOCAL_CACHE_H

#include <stddef.h>

#include "base/status.h"

#define FT_BENCH_LOCAL_CACHE_PATH 64

/* All-zero: there is none. */
typedef struct ft_bench_local_cache {
    char root[FT_BENCH_LOCAL_CACHE_PATH]; /* holds the folders; "": none */
} ft_bench_local_cache;

/* Makes n empty folders. FT_IO; owes a remove also then. */
FT_WARN_UNUSED ft_status ft_bench_local_cache_make(ft_bench_local_cache *cache, size_t n,
                                                   ft_error *err);
/* The path of folder i. */
void ft_bench_local_cache_path(const ft_bench_local_cache *cache, size_t i,
                               char path[FT_BENCH_LOCAL_CACHE_PATH]);
/* Removes them with all that is in them. */
void ft_bench_local_cache_remove(ft_bench_local_cache *cache);

#endif
