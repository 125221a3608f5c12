/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching one file of a repository into the hub's cache. Any thread. */
#ifndef FT_HUB_DOWNLOAD_H
#define FT_HUB_DOWNLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "hub/files.h"

typedef struct ft_download {
    const char *root, *repo;      /* the cache, "ORG/REPO" */
    const char *endpoint, *token; /* of the hub; token NULL: none */
    const char *commit;
    ft_progress progress;    /* in bytes of all files */
    uint64_t before, of_all; /* bytes of the files before this one, and of all */
} ft_download;

/* Makes sure that the file's blob is in the cache. Errors as ft_blob_ensure and ft_get_run. */
FT_WARN_UNUSED ft_status ft_download_file(const ft_download *how, const ft_hub_file *file,
                                          ft_error *err, bool *fetched);

#endif
