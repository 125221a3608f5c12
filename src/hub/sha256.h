/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 of bytes that arrive in pieces. Owned by one thread. */
#ifndef FT_HUB_SHA256_H
#define FT_HUB_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "hub/files.h"

typedef struct ft_sha256 ft_sha256;

/* Of no bytes yet. The caller destroys *out. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sha256_create(ft_error *err, ft_sha256 **out);
void ft_sha256_destroy(ft_sha256 *hash);
void ft_sha256_add(ft_sha256 *hash, const void *data, size_t n);
/* Adds the first n bytes of a file. FT_IO: it cannot be read, or is shorter. */
FT_WARN_UNUSED ft_status ft_sha256_add_file(ft_sha256 *hash, int fd, uint64_t n,
                                            const ft_progress *progress, ft_error *err);
/* Writes the hash of all bytes in hexadecimal, and begins anew with none. */
void ft_sha256_end(ft_sha256 *hash, char out[FT_SHA256_HEX_SIZE]);

#endif
