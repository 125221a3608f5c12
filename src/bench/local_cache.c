// SPDX-License-Identifier: Apache-2.0
// Folders in one temporary folder. Their `foretoken/packed` are links to one folder. One thread,
// which owns them.
#include "bench/local_cache.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
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

/* Makes folder i, with the link to the packed weights. */
static bool make_folder(const ft_bench_local_cache *cache, size_t i)
{
    char path[FT_BENCH_LOCAL_CACHE_PATH], below[FT_BENCH_LOCAL_CACHE_PATH + 20];
    ft_bench_local_cache_path(cache, i, path);
    if (mkdir(path, 0700) != 0)
        return false;
    snprintf(below, sizeof below, "%s/foretoken", path);
    if (mkdir(below, 0700) != 0)
        return false;
    strcat(below, "/packed");
    return symlink("../../packed", below) == 0;
}

ft_status ft_bench_local_cache_make(ft_bench_local_cache *cache, size_t n, ft_error *err)
{
    char packed[FT_BENCH_LOCAL_CACHE_PATH];
    strcpy(cache->root, "/tmp/foretoken-bench-XXXXXX");
    if (!mkdtemp(cache->root)) {
        cache->root[0] = 0;
        return ft_error_set(err, FT_IO, "no temporary folder: %s", strerror(errno));
    }
    snprintf(packed, sizeof packed, "%.40s/packed", cache->root);
    bool made = mkdir(packed, 0700) == 0;
    for (size_t i = 0; i < n && made; i++)
        made = make_folder(cache, i);
    return made ? FT_OK : ft_error_set(err, FT_IO, "%s: %s", cache->root, strerror(errno));
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
