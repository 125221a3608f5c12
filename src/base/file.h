/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading small files as a whole. Any thread.
 */
#ifndef FT_BASE_FILE_H
#define FT_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Reads a file of less than `most` bytes. *out: its *n bytes and a NUL; the caller frees it. FT_IO,
 * FT_TOO_LARGE, FT_NOMEM; messages name the path. */
FT_WARN_UNUSED ft_status ft_file_read(const char *path, size_t most, ft_error *err, char **out,
                                      size_t *n);
/* Reads a certificate or a key in PEM form as a string that the caller frees. FT_INVALID: it cannot
 * be read, or is no PEM file. */
FT_WARN_UNUSED ft_status ft_file_read_pem(const char *path, ft_error *err, char **out);

#endif
