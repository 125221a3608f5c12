// SPDX-License-Identifier: Apache-2.0
// Opens GGUF files: reads the metadata into memory, checks it, passes the same bytes to ggml's
// reader, and reads values by key without ggml's aborts. (It does not map the file: another process
// could change or truncate it between the check and the use.) A handle belongs to one thread. It
// does not read weights by itself; model.c does, through ft_gguf_read.
#include "model/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ggml.h"

#define FIRST_READ ((size_t)4 << 20) /* a vocabulary of 50,000 tokens takes 2 MB */
#define META_MAX   ((size_t)1 << 30) /* 50 times more than any real vocabulary takes */

ft_status ft_gguf_read(const ft_gguf *gguf, uint64_t offset, void *out, size_t n, ft_error *err)
{
    char *at = out;
    while (n > 0) {
        size_t chunk = n < ((size_t)1 << 30) ? n : (size_t)1 << 30; /* Linux reads 2 GiB at most */
        ssize_t got = pread(gguf->fd, at, chunk, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ft_error_set(err, FT_IO, "%s: cannot read at byte %" PRIu64 ": %s", gguf->path,
                                offset, got < 0 ? strerror(errno) : "the file became shorter");
        at += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return FT_OK;
}

static ft_status open_file(const char *path, ft_error *err, ft_gguf *gguf)
{
    struct stat info;
    gguf->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (gguf->fd < 0)
        return ft_error_set(err, errno == ENOENT ? FT_NOT_FOUND : FT_IO, "%s: %s", path,
                            strerror(errno));
    if (fstat(gguf->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return ft_error_set(err, FT_IO, "%s: not a regular file", path);
    gguf->file_size = (uint64_t)info.st_size;
    return FT_OK;
}

static ft_status prefix_path(const ft_gguf *gguf, ft_status st, const ft_error *why, ft_error *err)
{
    return ft_error_set(err, st, "%s: %s", gguf->path, why->message);
}

/* Reads and scans a growing prefix until all metadata lies in it. The caller frees *out. */
static ft_status read_meta(const ft_gguf *gguf, ft_error *err, uint8_t **out, size_t *n_out)
{
    size_t want = FIRST_READ;
    for (;;) {
        ft_error why = {0};
        bool short_data = false;
        size_t n = want < gguf->file_size ? want : (size_t)gguf->file_size;
        uint8_t *grown = realloc(*out, n ? n : 1);
        if (!grown)
            return ft_error_set(err, FT_NOMEM, "%s: out of memory for its metadata", gguf->path);
        *out = grown;
        ft_status st = ft_gguf_read(gguf, *n_out, grown + *n_out, n - *n_out, err);
        if (st != FT_OK)
            return st;
        *n_out = n;
        st = ft_gguf_scan(grown, n, gguf->file_size, &why, &short_data);
        if (st == FT_OK || !short_data)
            return st == FT_OK ? FT_OK : prefix_path(gguf, st, &why, err);
        if (want >= META_MAX)
            return ft_error_set(err, FT_CORRUPT, "%s: more than %zu bytes of metadata", gguf->path,
                                META_MAX);
        want *= 4;
    }
}

static ft_status refuse_split(const ft_gguf *gguf, ft_error *err)
{
    uint32_t count = 0;
    ft_status st = ft_gguf_u32(gguf, "split.count", false, err, &count);
    if (st == FT_OK && count > 1)
        return ft_error_set(err, FT_UNSUPPORTED,
                            "%s: one of %u parts of a split model: merge them with "
                            "llama-gguf-split --merge",
                            gguf->path, count);
    return st;
}

ft_status ft_gguf_open(const char *path, ft_error *err, ft_gguf *gguf)
{
    uint8_t *meta = NULL;
    size_t n = 0;
    *gguf = (ft_gguf){.fd = -1, .path = path};
    ft_status st = open_file(path, err, gguf);
    if (st == FT_OK)
        st = read_meta(gguf, err, &meta, &n);
    if (st == FT_OK) {
        struct gguf_init_params params = {.no_alloc = true};
        gguf->ctx = gguf_init_from_buffer(meta, n, params);
        if (gguf->ctx)
            gguf->data_offset = gguf_get_data_offset(gguf->ctx);
        else
            st = ft_error_set(err, FT_CORRUPT, "%s: ggml cannot read its metadata", path);
    }
    if (st == FT_OK)
        st = refuse_split(gguf, err);
    free(meta);
    if (st != FT_OK)
        ft_gguf_close(gguf);
    return st;
}

void ft_gguf_close(ft_gguf *gguf)
{
    gguf_free(gguf->ctx);
    if (gguf->fd >= 0)
        close(gguf->fd);
    *gguf = (ft_gguf){.fd = -1};
}

/* The key's id, -1 and FT_OK for a missing one that is not required. */
static ft_status find(const ft_gguf *gguf, const char *key, bool required, ft_error *err,
                      int64_t *id)
{
    *id = gguf_find_key(gguf->ctx, key);
    if (*id < 0 && required)
        return ft_error_set(err, FT_CORRUPT, "%s: GGUF key '%s' is missing", gguf->path, key);
    return FT_OK;
}

static ft_status wrong_type(const ft_gguf *gguf, const char *key, const char *wanted, ft_error *err)
{
    return ft_error_set(err, FT_CORRUPT, "%s: GGUF key '%s' is not %s", gguf->path, key, wanted);
}

ft_status ft_gguf_u32(const ft_gguf *gguf, const char *key, bool required, ft_error *err,
                      uint32_t *out)
{
    int64_t id = -1, value = -1;
    ft_status st = find(gguf, key, required, err, &id);
    if (st != FT_OK || id < 0)
        return st;
    const struct gguf_context *g = gguf->ctx;
    switch (gguf_get_kv_type(g, id)) {
    case GGUF_TYPE_UINT8:
        value = gguf_get_val_u8(g, id);
        break;
    case GGUF_TYPE_INT8:
        value = gguf_get_val_i8(g, id);
        break;
    case GGUF_TYPE_UINT16:
        value = gguf_get_val_u16(g, id);
        break;
    case GGUF_TYPE_INT16:
        value = gguf_get_val_i16(g, id);
        break;
    case GGUF_TYPE_UINT32:
        value = gguf_get_val_u32(g, id);
        break;
    case GGUF_TYPE_INT32:
        value = gguf_get_val_i32(g, id);
        break;
    case GGUF_TYPE_INT64:
        value = gguf_get_val_i64(g, id);
        break;
    case GGUF_TYPE_UINT64:
        value = (int64_t)gguf_get_val_u64(g, id);
        break;
    default:
        return wrong_type(gguf, key, "a whole number", err);
    }
    if (value < 0 || value > UINT32_MAX)
        return ft_error_set(err, FT_CORRUPT, "%s: GGUF key '%s' is out of range", gguf->path, key);
    *out = (uint32_t)value;
    return FT_OK;
}

ft_status ft_gguf_f32(const ft_gguf *gguf, const char *key, bool required, ft_error *err,
                      float *out)
{
    int64_t id = -1;
    double value = 0;
    ft_status st = find(gguf, key, required, err, &id);
    if (st != FT_OK || id < 0)
        return st;
    if (gguf_get_kv_type(gguf->ctx, id) == GGUF_TYPE_FLOAT32)
        value = gguf_get_val_f32(gguf->ctx, id);
    else if (gguf_get_kv_type(gguf->ctx, id) == GGUF_TYPE_FLOAT64)
        value = gguf_get_val_f64(gguf->ctx, id);
    else
        return wrong_type(gguf, key, "a floating-point number", err);
    if (!isfinite(value) || !isfinite((float)value))
        return ft_error_set(err, FT_CORRUPT, "%s: GGUF key '%s' is not finite", gguf->path, key);
    *out = (float)value;
    return FT_OK;
}

ft_status ft_gguf_bool(const ft_gguf *gguf, const char *key, bool required, ft_error *err,
                       bool *out)
{
    int64_t id = -1;
    ft_status st = find(gguf, key, required, err, &id);
    if (st != FT_OK || id < 0)
        return st;
    if (gguf_get_kv_type(gguf->ctx, id) != GGUF_TYPE_BOOL)
        return wrong_type(gguf, key, "true or false", err);
    *out = gguf_get_val_bool(gguf->ctx, id);
    return FT_OK;
}

ft_status ft_gguf_str(const ft_gguf *gguf, const char *key, bool required, ft_error *err,
                      const char **out)
{
    int64_t id = -1;
    ft_status st = find(gguf, key, required, err, &id);
    if (st != FT_OK || id < 0)
        return st;
    if (gguf_get_kv_type(gguf->ctx, id) != GGUF_TYPE_STRING)
        return wrong_type(gguf, key, "a string", err);
    *out = gguf_get_val_str(gguf->ctx, id);
    return FT_OK;
}

ft_status ft_gguf_array(const ft_gguf *gguf, const char *key, enum gguf_type type, bool required,
                        ft_error *err, ft_gguf_arr *out)
{
    *out = (ft_gguf_arr){.id = -1};
    ft_status st = find(gguf, key, required, err, &out->id);
    if (st != FT_OK || out->id < 0)
        return st;
    if (gguf_get_kv_type(gguf->ctx, out->id) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(gguf->ctx, out->id) != type) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "an array of %s", gguf_type_name(type));
        return wrong_type(gguf, key, wanted, err);
    }
    out->n = gguf_get_arr_n(gguf->ctx, out->id);
    return FT_OK;
}

uint64_t ft_gguf_tensor_file_offset(const ft_gguf *gguf, int64_t tensor)
{
    return gguf->data_offset + gguf_get_tensor_offset(gguf->ctx, tensor);
}
