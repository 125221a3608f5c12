/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files in which one process leaves what it has learnt to the next one. A file's name goes by
 * a hash of what it is about. There are 64 names of a kind, so two subjects may share one and
 * overwrite each other: a file says itself what it is about. Any thread. */
#ifndef FT_BASE_KEPT_FILE_H
#define FT_BASE_KEPT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Where such files are. */
typedef struct ft_kept_place {
    const char *folder; /* borrowed; it exists; NULL: nothing is kept */
    const char *of;     /* borrowed; what times depend on beside models and kernels: addresses,
                           threads, memory */
} ft_kept_place;

/* Sets *text to the file's bytes and a NUL; the caller frees it. FT_NOT_FOUND: there is none.
 * FT_IO, FT_TOO_LARGE, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_kept_file_read(const ft_kept_place *place, const char *kind,
                                           uint64_t subject, ft_error *err, char **text, size_t *n);
/* Writes the file whole or not at all. FT_IO, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_kept_file_write(const ft_kept_place *place, const char *kind,
                                            uint64_t subject, const char *text, size_t n,
                                            ft_error *err);

/* Looks at "version" of a file's JSON. FT_NOT_FOUND: it is of an older version, 1 or more, as after
 * an upgrade. FT_INVALID: it is of a newer one, or does not say. */
FT_WARN_UNUSED ft_status ft_kept_file_check_version(const json_t *file, int version, ft_error *err);

#endif
