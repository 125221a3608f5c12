/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is known by its SHA-256 and comes from elsewhere. FOLDER/SHA256 has that name only
 * when its bytes are complete and have that hash; until then it is FOLDER/SHA256.incomplete, which
 * a later try continues. Any thread, any process. */
#ifndef FT_HUB_BLOB_H
#define FT_HUB_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"

typedef struct ft_blob ft_blob; /* one that is being written */

typedef struct ft_blob_opts {
    const char *folder, *lock; /* lock: the file that is locked by who writes the blob */
    const char *sha256;
    uint64_t bytes;
    /* Gets the bytes from ft_blob_at on, and gives them to ft_blob_take. */
    ft_status (*transfer)(void *ctx, ft_blob *blob, ft_error *err);
    void *ctx;
    ft_progress progress;    /* in bytes of all files */
    uint64_t before, of_all; /* bytes of the files before this one, and of all */
} ft_blob_opts;

/* Makes sure that the blob is there with this size and SHA-256: reads it if it is there, otherwise
 * has what is missing transferred. *fetched: it was not there. What has a wrong hash is deleted
 * (FT_CORRUPT). If the transfer ends early, what came stays for the next try (FT_UNAVAILABLE).
 * FT_IO: the disk is full, or cannot be written; also as `transfer`. */
FT_WARN_UNUSED ft_status ft_blob_ensure(const ft_blob_opts *opts, ft_error *err, bool *fetched);

/* The bytes that are there. */
uint64_t ft_blob_at(const ft_blob *blob);
/* Drops them: the transfer begins anew. FT_IO. */
FT_WARN_UNUSED ft_status ft_blob_restart(ft_blob *blob, ft_error *err);
/* The next bytes. FT_CORRUPT: more than the blob has; FT_IO. */
FT_WARN_UNUSED ft_status ft_blob_take(ft_blob *blob, const void *data, size_t n, ft_error *err);

#endif
