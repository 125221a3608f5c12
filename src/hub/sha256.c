// SPDX-License-Identifier: Apache-2.0
// SHA-256 by GnuTLS, which foretoken has for TLS already.
#include "hub/sha256.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"

#define PIECE 262144 /* bytes read at once; halved or doubled, nothing changes */

struct ft_sha256 {
    gnutls_hash_hd_t handle;
};

ft_status ft_sha256_create(ft_error *err, ft_sha256 **out)
{
    ft_sha256 *hash = malloc(sizeof *hash);
    *out = NULL;
    if (!hash || gnutls_hash_init(&hash->handle, GNUTLS_DIG_SHA256) != 0) {
        free(hash);
        return ft_error_set(err, FT_NOMEM, "no memory for SHA-256");
    }
    *out = hash;
    return FT_OK;
}

void ft_sha256_destroy(ft_sha256 *hash)
{
    if (hash)
        gnutls_hash_deinit(hash->handle, NULL);
    free(hash);
}

void ft_sha256_add(ft_sha256 *hash, const void *data, size_t n)
{
    gnutls_hash(hash->handle, data, n);
}

ft_status ft_sha256_add_file(ft_sha256 *hash, int fd, uint64_t n, const ft_progress *progress,
                             ft_error *err)
{
    char *piece = malloc(PIECE);
    ft_status status = piece ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint64_t at = 0; status == FT_OK && at < n;) {
        const size_t want = n - at < PIECE ? (size_t)(n - at) : PIECE;
        const ssize_t got = pread(fd, piece, want, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            status = ft_error_set(err, FT_IO, "cannot be read: %s",
                                  got < 0 ? strerror(errno) : "it became shorter");
            break;
        }
        ft_sha256_add(hash, piece, (size_t)got);
        at += (uint64_t)got;
        ft_progress_report(progress, at, n);
    }
    free(piece);
    return status;
}

void ft_sha256_end(ft_sha256 *hash, char out[FT_SHA256_HEX_SIZE])
{
    unsigned char digest[32];
    gnutls_hash_output(hash->handle, digest);
    ft_hex(digest, sizeof digest, out);
}
