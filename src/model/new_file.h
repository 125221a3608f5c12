/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file that has no name until it is complete: a run that is killed leaves nothing behind.
 * On file systems without such files it has a temporary name beside its own one meanwhile. Bytes
 * are written in large aligned blocks: then the system can keep its copy of the file in large
 * pages (file_map.h). For the model room only. */
#ifndef FT_MODEL_NEW_FILE_H
#define FT_MODEL_NEW_FILE_H

#include <stdint.h>

#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"

typedef struct ft_new_file {
    const char *out; /* borrowed */
    ft_buf temp;     /* the temporary name */
    bool named;      /* the file has it already */
    int fd;          /* open for writing */
    char *block;     /* the bytes that are not written yet; NULL: none were passed */
    uint64_t at;     /* where in the file they begin */
    size_t n;
} ft_new_file;

/* Creates an empty file. `in` is the file that it is made from; out is borrowed until finish.
 * FT_INVALID: in and out are the same file, so in would be lost before it is read. FT_IO. On
 * failure *file needs no finish. */
FT_WARN_UNUSED ft_status ft_new_file_create(const char *in, const char *out, ft_error *err,
                                            ft_new_file *file);

/* The same with its temporary name from the beginning, for a library that opens files by name: a
 * run that is killed leaves it. */
FT_WARN_UNUSED ft_status ft_new_file_create_named(const char *in, const char *out, ft_error *err,
                                                  ft_new_file *file);

/* Writes n bytes. FT_IO. */
FT_WARN_UNUSED ft_status ft_new_file_write(ft_new_file *file, const void *data, size_t n,
                                           ft_error *err);

/* Goes to a byte of the file, to write there next. FT_IO. */
FT_WARN_UNUSED ft_status ft_new_file_seek(ft_new_file *file, uint64_t offset, ft_error *err);

/* If st is FT_OK, renames the file to its final name (FT_IO if that fails). Otherwise removes it
 * and returns st. *file needs no cleanup afterwards. */
FT_WARN_UNUSED ft_status ft_new_file_finish(ft_new_file *file, ft_status st, ft_error *err);

#endif
