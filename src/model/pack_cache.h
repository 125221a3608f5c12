/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of packed files (packed_file.h) that loading makes by itself, so that a later start need
 * not pack. A file's name follows from the model's content and from what is packed how. Several
 * processes may use a folder at once: a file appears complete, and one that is deleted stays for
 * who has mapped it. For the model room only, but for the struct. */
#ifndef FT_MODEL_PACK_CACHE_H
#define FT_MODEL_PACK_CACHE_H

#include <stdint.h>

#include "base/status.h"

typedef struct ft_pack_cache {
    const char *folder; /* borrowed; it exists */
    uint64_t max_bytes; /* of all its files */
} ft_pack_cache;

/* The path of a file; the caller frees it. NULL: no memory. */
char *ft_pack_cache_path(const ft_pack_cache *cache, uint64_t key);

/* The file was used now. */
void ft_pack_cache_touch(const char *path);

/* Makes room for a new file: deletes those that were used longest ago. bytes 0: there is no new
 * file, and the one that was used last stays, however large. FT_EXHAUSTED, and nothing is deleted:
 * the file is larger than the folder may be, or would leave less of the disk free than it takes
 * itself. FT_IO: the folder cannot be read. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_pack_cache_make_room(const ft_pack_cache *cache, uint64_t bytes,
                                                 ft_error *err);

#endif
