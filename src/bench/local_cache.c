// SPDX-License-Identifier: Apache-2.0
// Folders in one temporary folder. One thread, which owns them.
#include "bench/local_cache.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_MOST 16 /* folders that are open while the tree is walked */

void ft_bench_local_cache_path(const ft_bench_local_cache *cache, size_t i,
                               char path[FT_BENCH_LOCAL_CACHE_PATH])
{
    snprintf(path, FT_BENCH_LOCAL_CACHE_PATH, "%.40s/%zu", cache->root, i);
}

ft_status ft_bench_local_cache_make(ft_bench_local_cache *cache, size_t n, ft_error *err)
{
    char path[FT_BENCH_LOCAL_CACHE_PATH];
    strcpy(cache->root, "/tmp/foretoken-bench-XXXXXX");
    if (!mkdtemp(cache->root)) {
        cache->root[0] = 0;
        return ft_error_set(err, FT_IO, "no temporary folder: %s", strerror(errno));
    }
    for (size_t i = 0; i < n; i++) {
        ft_bench_local_cache_path(cache, i, path);
        if (mkdir(path, 0700) != 0)
            return ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno));
    }
    return FT_OK;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

void ft_bench_local_cache_remove(ft_bench_local_cache *cache)
{
    if (cache->root[0])
        (void)nftw(cache->root, remove_one, OPEN_MOST, FTW_DEPTH | FTW_PHYS);
    cache->root[0] = 0;
}
