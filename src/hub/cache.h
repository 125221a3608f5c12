/* SPDX-License-Identifier: Apache-2.0
 *
 * The hub's cache on disk, in the layout that its own programs use, so that both read and write the
 * same files:
 *
 *   ROOT/models--ORG--REPO/refs/main               the newest commit that is here
 *   ROOT/models--ORG--REPO/snapshots/COMMIT/PATH   a link to the blob
 *   ROOT/models--ORG--REPO/blobs/SHA256            a file's bytes
 *   ROOT/.locks/models--ORG--REPO/SHA256.lock      locked (flock) by who writes the blob
 *
 * A blob has its name only when its bytes are complete and have that hash. Until then it is
 * blobs/SHA256.incomplete, which a later try continues. Any thread, any process. */
#ifndef FT_HUB_CACHE_H
#define FT_HUB_CACHE_H

#include "base/status.h"
#include "hub/files.h"

/* A string as printf makes it, which the caller frees; NULL: no memory. */
char *ft_cache_text(const char *fmt, ...) FT_PRINTF(1, 2);

/* The folder of a repository "ORG/REPO"; the caller frees it. NULL: no memory. */
char *ft_cache_folder(const char *root, const char *repo);

/* Makes the folder and those above it. FT_IO. */
FT_WARN_UNUSED ft_status ft_cache_make_folder(const char *path, ft_error *err);

/* Lists the GGUF files below refs/main that have bytes, sorted. The caller deinits *out, which is
 * empty after an error. FT_NOT_FOUND: refs/main or its snapshot is not here; FT_CORRUPT; FT_IO. */
FT_WARN_UNUSED ft_status ft_cache_read(const char *folder, ft_error *err, ft_hub_files *out);

/* Waits until this process alone has locked the file at `path`, which is made if it is missing;
 * what: for the log line of a process that waits. *fd: close it to let others. FT_IO. */
FT_WARN_UNUSED ft_status ft_cache_lock(const char *path, const char *what, ft_error *err, int *fd);

/* Makes snapshots/COMMIT/PATH a link to the file's blob. FT_IO. */
FT_WARN_UNUSED ft_status ft_cache_link(const char *folder, const char *commit,
                                       const ft_hub_file *file, ft_error *err);

/* From now on refs/main is this commit. FT_IO. */
FT_WARN_UNUSED ft_status ft_cache_set_main(const char *folder, const char *commit, ft_error *err);

#endif
