// SPDX-License-Identifier: Apache-2.0
// Maps files. A file gets large pages only if its address is a multiple of one, so twice as much
// address space is asked for at first. A map belongs to who opened it; any thread may read it.
#include "model/file_map.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20) /* a large page of x86-64, and of AArch64 with pages of 4 KiB */
/* The processor's second table of addresses (1536 entries or more) holds so many small pages. */
#define SMALL_FILE ((size_t)6 << 20)
#define PROBES     8

bool ft_file_map_open(int fd, size_t bytes, ft_file_map *map)
{
    *map = (ft_file_map){0};
    if (bytes == 0 || bytes > SIZE_MAX - 2 * LARGE)
        return false;
    const size_t room = (bytes + LARGE - 1) / LARGE * LARGE;
    char *all = mmap(NULL, room + LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return false;
    const size_t before = (LARGE - (uintptr_t)all % LARGE) % LARGE;
    char *base = all + before;
    if (before > 0)
        (void)munmap(all, before);
    (void)munmap(base + room, LARGE - before);
    if (mmap(base, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        (void)munmap(base, room);
        return false;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(base, bytes, MADV_HUGEPAGE);
#endif
    *map = (ft_file_map){base, bytes, room};
    return true;
}

void ft_file_map_close(ft_file_map *map)
{
    if (map->base)
        (void)munmap((void *)map->base, map->room);
    *map = (ft_file_map){0};
}

/* Bytes of a file in large pages at this address, as the system tells: 0 if it does not. The system
 * needs time for each page of a map that is read about, so reading ends behind the map that
 * counts. */
static size_t in_large_pages(const void *base)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false;
    size_t bytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        uintptr_t begin, end;
        size_t kb;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
            if (begin > (uintptr_t)base)
                break;
            here = (uintptr_t)base < end;
        } else if (here && (sscanf(line, "FilePmdMapped: %zu kB", &kb) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %zu kB", &kb) == 1)) {
            bytes += kb << 10;
        }
    }
    if (file)
        fclose(file);
    return bytes;
}

bool ft_file_map_is_fast(const ft_file_map *map)
{
    const size_t n = map->bytes / LARGE, probes = n < PROBES ? n : PROBES;
    if (map->bytes <= SMALL_FILE)
        return map->bytes > 0;
    for (size_t i = 0; i < probes; i++) /* the last ones, as small tensors lie in front */
        (void)*(const volatile char *)(map->base + (n - 1 - i * n / (2 * probes)) * LARGE);
    return in_large_pages(map->base) >= probes * LARGE / 2;
}
