/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is written under a temporary name beside its own and takes its name when whole, so that
 * an interrupted run leaves no half file under the name that others open. For the model room only. */
#ifndef FT_MODEL_NEW_FILE_H
#define FT_MODEL_NEW_FILE_H

#include "base/buf.h"
#include "base/status.h"

typedef struct ft_new_file {
    const char *out; /* borrowed */
    ft_buf temp;     /* the name until it is whole */
    int fd;          /* open for writing */
} ft_new_file;

/* An empty file for what is made of `in`; out is borrowed until the end. FT_INVALID if in and out are
 * the same file, which would be lost before it is read; FT_IO. On failure *file owes nothing. */
FT_WARN_UNUSED ft_status ft_new_file_create(const char *in, const char *out, ft_error *err,
                                            ft_new_file *file);

/* All n bytes. FT_IO. */
FT_WARN_UNUSED ft_status ft_new_file_write(ft_new_file *file, const void *data, size_t n,
                                           ft_error *err);

/* st FT_OK: the file takes its name, FT_IO if it cannot. Otherwise it is removed, and st comes back.
 * *file owes nothing afterwards. */
FT_WARN_UNUSED ft_status ft_new_file_finish(ft_new_file *file, ft_status st, ft_error *err);

#endif
