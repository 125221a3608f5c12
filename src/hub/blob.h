/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching one file of a repository into the cache. Any thread. */
#ifndef FT_HUB_BLOB_H
#define FT_HUB_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "hub/files.h"

typedef struct ft_blob_opts {
    const char *root, *repo;      /* the cache, "ORG/REPO" */
    const char *endpoint, *token; /* of the hub; token NULL: none */
    const char *commit;
    ft_progress progress;    /* in bytes of all files */
    uint64_t before, of_all; /* bytes of the files before this one, and of all */
} ft_blob_opts;

/* Makes sure that the blob is in the cache with this size and SHA-256: reads it if it is there,
 * otherwise fetches what is missing. *fetched: bytes came from the hub. What has a wrong hash is
 * deleted (FT_CORRUPT). If the transfer ends early, what came stays for the next try
 * (FT_UNAVAILABLE). FT_IO: the disk is full, or cannot be written; also as ft_get_run. */
FT_WARN_UNUSED ft_status ft_blob_ensure(const ft_blob_opts *opts, const ft_hub_file *file,
                                        ft_error *err, bool *fetched);

#endif
