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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ggml.h"
#include "model/llama_calls.h"

#define FIRST_READ ((size_t)5 << 19) /* a vocabulary of 50,000 tokens takes 2 MB */
#define META_MAX   ((size_t)1 << 30) /* 50 times more than any real vocabulary takes */

ft_status ft_gguf_refuse(ft_gguf *gguf, ft_status code, const char *fmt, ...)
{
    char what[sizeof gguf->err->message];
    va_list args;
    if (gguf->st != FT_OK)
        return gguf->st;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    gguf->st = ft_error_set(gguf->err, code, "%s: %s", gguf->path, what);
    return gguf->st;
}

/* The file that holds this offset, and its own offset there. */
static int file_at(const ft_gguf *gguf, uint64_t *offset)
{
    const ft_gguf_parts *parts = gguf->parts;
    uint32_t k = 0;
    if (!parts)
        return gguf->fd;
    while (k + 1 < parts->n && *offset >= parts->begin[k + 1])
        k++;
    *offset -= parts->begin[k];
    return parts->fd[k];
}

ft_status ft_gguf_read(ft_gguf *gguf, uint64_t offset, void *out, size_t n)
{
    char *at = out;
    const int fd = file_at(gguf, &offset);
    while (n > 0 && gguf->st == FT_OK) {
        size_t chunk = n < ((size_t)1 << 30) ? n : (size_t)1 << 30; /* Linux reads 2 GiB at most */
        ssize_t got = pread(fd, at, chunk, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ft_gguf_refuse(gguf, FT_IO, "cannot read at byte %" PRIu64 ": %s", offset,
                                  got < 0 ? strerror(errno) : "the file became shorter");
        at += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return gguf->st;
}

static void open_file(ft_gguf *gguf)
{
    struct stat info;
    gguf->fd = open(gguf->path, O_RDONLY | O_CLOEXEC);
    if (gguf->fd < 0)
        ft_gguf_refuse(gguf, errno == ENOENT ? FT_NOT_FOUND : FT_IO, "%s", strerror(errno));
    else if (fstat(gguf->fd, &info) != 0 || !S_ISREG(info.st_mode))
        ft_gguf_refuse(gguf, FT_IO, "not a regular file");
    else
        gguf->file_size = (uint64_t)info.st_size;
}

/* Reads and scans a growing prefix until all metadata lies in it. The caller frees *out. */
static void read_meta(ft_gguf *gguf, uint8_t **out, size_t *n_out)
{
    bool more = true;
    for (size_t want = FIRST_READ; more && gguf->st == FT_OK; want *= 4) {
        ft_error why = {0};
        size_t n = want < gguf->file_size ? want : (size_t)gguf->file_size;
        uint8_t *grown = realloc(*out, n ? n : 1);
        if (!grown) {
            ft_gguf_refuse(gguf, FT_NOMEM, "out of memory for its metadata");
            return;
        }
        *out = grown;
        if (ft_gguf_read(gguf, *n_out, grown + *n_out, n - *n_out) != FT_OK)
            return;
        *n_out = n;
        ft_status st = ft_gguf_scan(grown, n, gguf->file_size, &why, &more);
        if (st != FT_OK && !more)
            ft_gguf_refuse(gguf, st, "%s", why.message);
        else if (more && want >= META_MAX)
            ft_gguf_refuse(gguf, FT_CORRUPT, "more than %zu bytes of metadata", META_MAX);
    }
}

#define PARTS_MAX 1000

/* Opens one file, which may be a part. */
static void open_one(ft_gguf *gguf)
{
    ft_error why = {0};
    uint8_t *meta = NULL;
    size_t n = 0;
    open_file(gguf);
    read_meta(gguf, &meta, &n);
    if (gguf->st == FT_OK && ft_llama_gguf(meta, n, &why, &gguf->ctx) != FT_OK)
        ft_gguf_refuse(gguf, why.code, "%s", why.message);
    free(meta);
    if (gguf->st == FT_OK)
        gguf->data_offset = gguf_get_data_offset(gguf->ctx);
}

/* Adds a part's tensor to the metadata of all. */
static void add_tensor(ft_gguf *all, uint32_t k, ft_gguf *part, int64_t id)
{
    const char *name = gguf_get_tensor_name(part->ctx, id);
    const enum ggml_type type = gguf_get_tensor_type(part->ctx, id);
    const int64_t *ne = gguf_get_tensor_ne(part->ctx, id);
    const size_t n = (size_t)gguf_get_n_tensors(all->ctx);
    struct ggml_tensor t = {.type = type};
    uint64_t *grown = realloc(all->parts->tensor, (n + 1) * sizeof *grown);
    if (grown)
        all->parts->tensor = grown;
    if (gguf_find_tensor(all->ctx, name) >= 0) {
        ft_gguf_refuse(part, FT_CORRUPT, "tensor '%s' is in another part, too", name);
        return;
    }
    memcpy(t.ne, ne, sizeof t.ne);
    t.nb[0] = ggml_type_size(type);
    t.nb[1] = ggml_row_size(type, ne[0]);
    t.nb[2] = t.nb[1] * (size_t)ne[1];
    t.nb[3] = t.nb[2] * (size_t)ne[2];
    ggml_set_name(&t, name);
    if (!grown || ft_llama_add_tensor(all->ctx, &t, NULL) != FT_OK)
        ft_gguf_refuse(part, FT_NOMEM, "out of memory");
    else
        grown[n] = all->parts->begin[k] + ft_gguf_tensor_file_offset(part, id);
}

/* Part k, from 0: its path differs in its number. */
static void add_part(ft_gguf *all, uint32_t k)
{
    ft_gguf_parts *parts = all->parts;
    const size_t stem = strlen(all->path) - FT_GGUF_PART_SUFFIX;
    char *path = malloc(stem + FT_GGUF_PART_SUFFIX + 16);
    uint32_t number = 0, count = 0;
    if (!path) {
        ft_gguf_refuse(all, FT_NOMEM, "out of memory");
        return;
    }
    sprintf(path, "%.*s-%05u-of-%05u.gguf", (int)stem, all->path, k + 1, parts->n);
    ft_gguf part = {.fd = -1, .path = path, .err = all->err};
    open_one(&part);
    if (part.st == FT_OK) {
        ft_gguf_u32(&part, "split.no", true, &number);
        ft_gguf_u32(&part, "split.count", true, &count);
    }
    if (part.st == FT_OK && (number != k || count != parts->n))
        ft_gguf_refuse(&part, FT_CORRUPT, "it says that it is part %u of %u", number + 1, count);
    for (int64_t i = 0; part.st == FT_OK && i < gguf_get_n_tensors(part.ctx); i++)
        add_tensor(all, k, &part, i);
    parts->begin[k + 1] = parts->begin[k] + part.file_size;
    parts->fd[k] = part.fd;
    part.fd = -1;
    all->st = part.st;
    ft_gguf_close(&part);
    free(path);
}

/* The other parts of a model whose first one is open. */
static void open_parts(ft_gguf *gguf, uint32_t count)
{
    char suffix[32];
    const size_t n = strlen(gguf->path);
    snprintf(suffix, sizeof suffix, "-00001-of-%05u.gguf", count);
    if (count > PARTS_MAX || n < FT_GGUF_PART_SUFFIX ||
        strcmp(gguf->path + n - FT_GGUF_PART_SUFFIX, suffix) != 0) {
        ft_gguf_refuse(
            gguf, FT_UNSUPPORTED,
            "one of %u parts of a split model: pass the first one, whose name ends in %s", count,
            suffix);
        return;
    }
    ft_gguf_parts *parts = gguf->parts = calloc(1, sizeof *parts);
    const int64_t n_tensors = gguf_get_n_tensors(gguf->ctx);
    if (parts) {
        parts->fd = malloc(count * sizeof *parts->fd);
        parts->begin = calloc(count + 1, sizeof *parts->begin);
        parts->tensor = malloc(((size_t)n_tensors + 1) * sizeof *parts->tensor);
    }
    if (!parts || !parts->fd || !parts->begin || !parts->tensor) {
        ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
        return;
    }
    parts->n = count;
    parts->fd[0] = gguf->fd;
    parts->begin[1] = gguf->file_size;
    for (uint32_t k = 1; k < count; k++)
        parts->fd[k] = -1;
    for (int64_t i = 0; i < n_tensors; i++)
        parts->tensor[i] = gguf->data_offset + gguf_get_tensor_offset(gguf->ctx, i);
    for (uint32_t k = 1; k < count && gguf->st == FT_OK; k++)
        add_part(gguf, k);
    gguf->file_size = parts->begin[count];
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) /* files made from this one are whole */
        gguf_remove_key(gguf->ctx, keys[i]);
}

static void close_parts(ft_gguf_parts *parts)
{
    for (uint32_t k = 1; parts && k < parts->n; k++)
        if (parts->fd[k] >= 0)
            close(parts->fd[k]);
    if (parts) {
        free(parts->fd);
        free(parts->begin);
        free(parts->tensor);
    }
    free(parts);
}

ft_status ft_gguf_check_file(const char *path, ft_error *err)
{
    uint8_t *meta = NULL;
    size_t n = 0;
    ft_gguf gguf = {.fd = -1, .path = path, .err = err};
    open_file(&gguf);
    read_meta(&gguf, &meta, &n);
    free(meta);
    const ft_status st = gguf.st;
    ft_gguf_close(&gguf);
    return st;
}

ft_status ft_gguf_open(const char *path, ft_error *err, ft_gguf *gguf)
{
    uint32_t count = 0;
    *gguf = (ft_gguf){.fd = -1, .path = path, .err = err};
    open_one(gguf);
    if (gguf->st == FT_OK)
        ft_gguf_u32(gguf, "split.count", false, &count);
    if (gguf->st == FT_OK && count > 1)
        open_parts(gguf, count);
    ft_status st = gguf->st;
    if (st != FT_OK)
        ft_gguf_close(gguf);
    return st;
}

void ft_gguf_close(ft_gguf *gguf)
{
    gguf_free(gguf->ctx);
    close_parts(gguf->parts);
    if (gguf->fd >= 0)
        close(gguf->fd);
    *gguf = (ft_gguf){.fd = -1};
}

/* ---- values ---- */

/* Sets of types. */
#define BIT(type) (1u << GGUF_TYPE_##type)
#define SIGNED    (BIT(INT8) | BIT(INT16) | BIT(INT32) | BIT(INT64))
#define WHOLE     (SIGNED | BIT(UINT8) | BIT(UINT16) | BIT(UINT32) | BIT(UINT64))

/* The id of a key whose type is in the set; wanted: the set's name. -1: missing, or an error. */
static int64_t find(ft_gguf *gguf, const char *key, bool required, unsigned types,
                    const char *wanted)
{
    int64_t id = gguf_find_key(gguf->ctx, key);
    if (id < 0 && required)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is missing", key);
    if (id >= 0 && !(types >> gguf_get_kv_type(gguf->ctx, id) & 1))
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is not %s", key, wanted);
    return gguf->st == FT_OK ? id : -1;
}

void ft_gguf_u32(ft_gguf *gguf, const char *key, bool required, uint32_t *out)
{
    int64_t id = find(gguf, key, required, WHOLE, "a whole number");
    uint64_t value = 0;
    if (id < 0)
        return;
    enum gguf_type type = gguf_get_kv_type(gguf->ctx, id);
    size_t bytes = ft_gguf_scalar_bytes(type);
    memcpy(&value, gguf_get_val_data(gguf->ctx, id), bytes); /* little-endian, as in the file */
    bool negative = (SIGNED >> type & 1) && value >> (8 * bytes - 1);
    if (negative || value > UINT32_MAX)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is out of range", key);
    else
        *out = (uint32_t)value;
}

void ft_gguf_f32(ft_gguf *gguf, const char *key, bool required, float *out)
{
    int64_t id = find(gguf, key, required, BIT(FLOAT32) | BIT(FLOAT64), "a floating-point number");
    if (id < 0)
        return;
    float value = gguf_get_kv_type(gguf->ctx, id) == GGUF_TYPE_FLOAT32
                      ? gguf_get_val_f32(gguf->ctx, id)
                      : (float)gguf_get_val_f64(gguf->ctx, id);
    if (!isfinite(value))
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is not finite", key);
    else
        *out = value;
}

void ft_gguf_bool(ft_gguf *gguf, const char *key, bool required, bool *out)
{
    int64_t id = find(gguf, key, required, BIT(BOOL), "true or false");
    if (id >= 0)
        *out = gguf_get_val_bool(gguf->ctx, id);
}

void ft_gguf_str(ft_gguf *gguf, const char *key, bool required, const char **out)
{
    int64_t id = find(gguf, key, required, BIT(STRING), "a string");
    if (id >= 0)
        *out = gguf_get_val_str(gguf->ctx, id);
}

ft_gguf_arr ft_gguf_array(ft_gguf *gguf, const char *key, enum gguf_type type, bool required)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "an array of %s", gguf_type_name(type));
    int64_t id = find(gguf, key, required, BIT(ARRAY), wanted);
    if (id >= 0 && gguf_get_arr_type(gguf->ctx, id) != type) {
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is not %s", key, wanted);
        id = -1;
    }
    return (ft_gguf_arr){.id = id, .n = id >= 0 ? gguf_get_arr_n(gguf->ctx, id) : 0};
}

uint64_t ft_gguf_tensor_file_offset(const ft_gguf *gguf, int64_t tensor)
{
    return gguf->parts ? gguf->parts->tensor[tensor]
                       : gguf->data_offset + gguf_get_tensor_offset(gguf->ctx, tensor);
}
