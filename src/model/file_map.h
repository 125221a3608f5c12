/* SPDX-License-Identifier: Apache-2.0
 *
 * A file in memory, read-only and shared with other processes. Where the system can, its pages are
 * large ones. Who cuts a file while it is mapped ends the processes that read behind its new end:
 * only for files that are replaced as a whole. For the model room only. */
#ifndef FT_MODEL_FILE_MAP_H
#define FT_MODEL_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* All-zero: nothing is mapped. */
typedef struct ft_file_map {
    const char *base; /* of the file's first byte; at a multiple of a large page; NULL: none */
    size_t bytes;
    size_t room; /* address space that is held, from base on */
} ft_file_map;

/* Maps the first `bytes` of a file. False: the system does not, and *map is empty. */
bool ft_file_map_open(int fd, size_t bytes, ft_file_map *map);
void ft_file_map_close(ft_file_map *map);

/* Whether reading all of it again and again is as fast as from memory of our own: it lies in large
 * pages, or is so small that small ones do as well. Reads a few places of the file to find out. */
bool ft_file_map_is_fast(const ft_file_map *map);

#endif
