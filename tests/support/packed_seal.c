// SPDX-License-Identifier: Apache-2.0
// Writes checksums into packed files. Finds the keys by their names' bytes; the readers have
// checked by then that what stands behind these is whole. Stateless.
#include "support/packed_seal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/packed_file.h"
#include "xxhash.h"

/* Writes n bytes behind a key's name and `skip` bytes of types and counts. */
static bool put(const ft_gguf *gguf, int fd, const char *key, size_t skip, const void *data,
                size_t n)
{
    size_t n_key = strlen(key), n_meta = gguf->data_offset;
    char *meta = malloc(n_meta), *at = NULL;
    uint64_t length = n_key;
    char *name = malloc(n_key + sizeof length);
    if (meta && name && pread(fd, meta, n_meta, 0) == (ssize_t)n_meta) {
        memcpy(name, &length, sizeof length);
        memcpy(name + sizeof length, key, n_key);
        at = memmem(meta, n_meta, name, n_key + sizeof length);
    }
    size_t offset = at ? (size_t)(at - meta) + sizeof length + n_key + skip : n_meta;
    bool done = n_meta - offset >= n && pwrite(fd, data, n, (off_t)offset) == (ssize_t)n;
    free(meta);
    free(name);
    return done;
}

static bool put_hashes(ft_gguf *gguf, int fd)
{
    size_t n = (size_t)gguf_get_n_tensors(gguf->ctx);
    ft_gguf_arr array = ft_gguf_array(gguf, FT_KEY_PACKED_HASH, GGUF_TYPE_UINT64, true);
    uint64_t *hash = calloc(n ? n : 1, sizeof *hash);
    bool done = array.id >= 0 && array.n == n;
    for (size_t i = 0; i < n && hash && done; i++) {
        size_t bytes = gguf_get_tensor_size(gguf->ctx, (int64_t)i);
        void *data = malloc(bytes ? bytes : 1);
        done = data && ft_gguf_read(gguf, ft_gguf_tensor_file_offset(gguf, (int64_t)i), data,
                                    bytes) == FT_OK;
        hash[i] = done ? XXH3_64bits(data, bytes) : 0;
        free(data);
    }
    done = done && hash && put(gguf, fd, FT_KEY_PACKED_HASH, 16, hash, n * sizeof *hash);
    free(hash);
    return done;
}

static bool put_header(ft_gguf *gguf, int fd)
{
    int64_t id = gguf_find_key(gguf->ctx, FT_KEY_PACKED_HEADER);
    uint64_t header = 0;
    return id >= 0 && gguf_get_kv_type(gguf->ctx, id) == GGUF_TYPE_UINT64 &&
           ft_packed_header(gguf->ctx, &header) == FT_OK &&
           put(gguf, fd, FT_KEY_PACKED_HEADER, 4, &header, sizeof header);
}

static bool run(const char *path, int fd, bool (*step)(ft_gguf *gguf, int fd))
{
    ft_gguf gguf;
    ft_error err = {0};
    if (ft_gguf_open(path, &err, &gguf) != FT_OK)
        return false;
    bool done = step(&gguf, fd);
    ft_gguf_close(&gguf);
    return done;
}

bool packed_seal(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool done = fd >= 0 && run(path, fd, put_hashes);
    done =
        fd >= 0 && run(path, fd, put_header) && done; /* a key with a bad array is for tests, too */
    if (fd >= 0)
        close(fd);
    return done;
}
