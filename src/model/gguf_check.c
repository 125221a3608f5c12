// SPDX-License-Identifier: Apache-2.0
// Checks a GGUF file's metadata byte by byte before any other reader sees it: header, keys, value
// types, lengths of strings and arrays, tensor names, dimensions, types and offsets, all against
// the size of the file. Invariants: nothing is read behind n_data; only two tables are allocated,
// and each entry stands for at least 13 bytes of input. Stateless; any thread. It does not judge
// what keys mean: hparams.c and tokenizer_check.c do.
#include "model/gguf_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"
#include "model/model.h"

enum {
    KEY_MAX = 65535,        /* the format's own limit */
    ALIGNMENT_MAX = 1 << 20 /* real files use 32; larger ones could overflow sums of sizes */
};
#define ARRAY_MAX  ((uint64_t)1 << 30) /* ggml's reader allows no more elements */
#define STRING_MAX ((uint64_t)1 << 30) /* the same limit for strings */

typedef struct name {
    const uint8_t *text; /* borrowed from the input */
    size_t n;
} name;

typedef struct scan {
    const uint8_t *data;
    size_t n, pos;
    uint64_t file_size;
    ft_error *err;
    bool short_data; /* the data ended before the file */
    uint64_t n_tensors, n_kv;
    uint32_t alignment;
} scan;

static ft_status corrupt_end(scan *s, const char *what)
{
    s->short_data = s->n < s->file_size;
    return ft_error_set(s->err, FT_CORRUPT, "GGUF: the file ends inside %s, at byte %zu", what,
                        s->n);
}

static ft_status take(scan *s, void *out, size_t n, const char *what)
{
    if (n > s->n - s->pos)
        return corrupt_end(s, what);
    memcpy(out, s->data + s->pos, n);
    s->pos += n;
    return FT_OK;
}

/* n bytes are skipped; the count comes from the file. */
static ft_status skip(scan *s, uint64_t n, const char *what)
{
    if (n > s->file_size - s->pos)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: %s of %" PRIu64 " bytes at byte %zu is longer than the file",
                            what, n, s->pos);
    if (n > s->n - s->pos)
        return corrupt_end(s, what);
    s->pos += (size_t)n;
    return FT_OK;
}

static ft_status take_string(scan *s, uint64_t max, const char *what, name *out)
{
    uint64_t n = 0;
    ft_status st = take(s, &n, sizeof n, what);
    if (st != FT_OK)
        return st;
    if (n > max)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: %s at byte %zu has %" PRIu64 " bytes, at most %" PRIu64
                            " are allowed",
                            what, s->pos - sizeof n, n, max);
    out->text = s->data + s->pos;
    out->n = (size_t)n;
    return skip(s, n, what);
}

static int compare_names(const void *a, const void *b)
{
    const name *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static ft_status check_unique(scan *s, name *names, size_t n, const char *what)
{
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return ft_error_set(s->err, FT_CORRUPT, "GGUF: %s '%.*s' occurs twice", what,
                                (int)(names[i].n > 100 ? 100 : names[i].n),
                                (const char *)names[i].text);
    return FT_OK;
}

/* Reads a name: printable text without NUL, because the libraries would end it there. */
static ft_status take_name(scan *s, uint64_t max, const char *what, name *out)
{
    size_t at = s->pos;
    ft_status st = take_string(s, max, what, out);
    if (st != FT_OK)
        return st;
    if (out->n == 0)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: %s at byte %zu is empty", what, at);
    for (size_t i = 0; i < out->n; i++)
        if (out->text[i] < 0x20 || out->text[i] == 0x7f)
            return ft_error_set(s->err, FT_CORRUPT,
                                "GGUF: %s at byte %zu holds the control character 0x%02x", what, at,
                                out->text[i]);
    return FT_OK;
}

static ft_status check_header(scan *s)
{
    char magic[4] = {0};
    uint32_t version = 0;
    ft_status st = take(s, magic, sizeof magic, "the header");
    if (st != FT_OK)
        return st;
    if (memcmp(magic, GGUF_MAGIC, sizeof magic) != 0)
        return ft_error_set(s->err, FT_CORRUPT, "not a GGUF file: it does not begin with 'GGUF'");
    st = take(s, &version, sizeof version, "the header");
    if (st != FT_OK)
        return st;
    if ((version & 0xffff) == 0)
        return ft_error_set(s->err, FT_UNSUPPORTED,
                            "GGUF: version 0x%08x: the file has the other byte order", version);
    if (version < 2 || version > GGUF_VERSION)
        return ft_error_set(s->err, FT_UNSUPPORTED, "GGUF: version %u; 2 and 3 can be read",
                            version);
    st = take(s, &s->n_tensors, sizeof s->n_tensors, "the header");
    if (st == FT_OK)
        st = take(s, &s->n_kv, sizeof s->n_kv, "the header");
    if (st != FT_OK)
        return st;
    /* The smallest key-value pair has 14 bytes, the smallest tensor description 33. */
    uint64_t left = s->file_size - s->pos;
    if (s->n_kv > left / 14 || s->n_tensors > left / 33)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: %" PRIu64 " keys and %" PRIu64 " tensors do not fit in %" PRIu64
                            " bytes",
                            s->n_kv, s->n_tensors, s->file_size);
    return FT_OK;
}

/* Bytes of a scalar type; 0 for other types. */
static size_t scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[GGUF_TYPE_COUNT] = {
        [GGUF_TYPE_UINT8] = 1,   [GGUF_TYPE_INT8] = 1,   [GGUF_TYPE_UINT16] = 2,
        [GGUF_TYPE_INT16] = 2,   [GGUF_TYPE_UINT32] = 4, [GGUF_TYPE_INT32] = 4,
        [GGUF_TYPE_FLOAT32] = 4, [GGUF_TYPE_BOOL] = 1,   [GGUF_TYPE_UINT64] = 8,
        [GGUF_TYPE_INT64] = 8,   [GGUF_TYPE_FLOAT64] = 8};
    return type < GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static ft_status check_array(scan *s, const name *key)
{
    uint32_t type = 0;
    uint64_t n = 0;
    name item;
    ft_status st = take(s, &type, sizeof type, "an array");
    if (st == FT_OK)
        st = take(s, &n, sizeof n, "an array");
    if (st != FT_OK)
        return st;
    size_t least = type == GGUF_TYPE_STRING ? sizeof(uint64_t) : scalar_bytes(type);
    if (least == 0)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: key '%.*s' is an array of unknown type %u",
                            (int)key->n, (const char *)key->text, type);
    if (n > ARRAY_MAX || n > (s->file_size - s->pos) / least)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: key '%.*s' is an array of %" PRIu64
                            " elements, more than the file can hold",
                            (int)key->n, (const char *)key->text, n);
    if (type != GGUF_TYPE_STRING)
        return skip(s, n * least, "an array");
    for (uint64_t i = 0; i < n && st == FT_OK; i++)
        st = take_string(s, STRING_MAX, "a string", &item);
    return st;
}

static ft_status check_value(scan *s, const name *key)
{
    static const char alignment_key[] = GGUF_KEY_GENERAL_ALIGNMENT;
    uint32_t type = 0;
    name text;
    bool is_alignment =
        key->n == strlen(alignment_key) && memcmp(key->text, alignment_key, key->n) == 0;
    ft_status st = take(s, &type, sizeof type, "a value's type");
    if (st != FT_OK)
        return st;
    if (is_alignment && type != GGUF_TYPE_UINT32)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: key '%s' is not a 32-bit number",
                            alignment_key);
    if (type == GGUF_TYPE_ARRAY)
        return check_array(s, key);
    if (type == GGUF_TYPE_STRING)
        return take_string(s, STRING_MAX, "a string", &text);
    if (scalar_bytes(type) == 0)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: key '%.*s' has unknown type %u", (int)key->n,
                            (const char *)key->text, type);
    if (!is_alignment)
        return skip(s, scalar_bytes(type), "a value");
    st = take(s, &s->alignment, sizeof s->alignment, "a value");
    if (st == FT_OK && (s->alignment == 0 || s->alignment > ALIGNMENT_MAX ||
                        (s->alignment & (s->alignment - 1)) != 0))
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: alignment %u is not a power of two up to %d",
                            s->alignment, ALIGNMENT_MAX);
    return st;
}

/* Runs `each` n times, with space for one name each, then checks that the names differ. The table
 * grows with the entries that are really read, so a false count allocates little. */
static ft_status check_entries(scan *s, uint64_t n, const char *what,
                               ft_status (*each)(scan *s, name *out))
{
    ft_status st = FT_OK;
    size_t cap = 0;
    name *names = NULL;
    for (uint64_t i = 0; i < n && st == FT_OK; i++) {
        if (i == cap) {
            size_t grown = cap ? 2 * cap : 64;
            name *more = realloc(names, grown * sizeof *names);
            if (!more) {
                free(names);
                return ft_error_set(s->err, FT_NOMEM, "GGUF: out of memory for %" PRIu64 " names",
                                    n);
            }
            names = more;
            cap = grown;
        }
        st = each(s, &names[i]);
    }
    if (st == FT_OK && n > 0)
        st = check_unique(s, names, (size_t)n, what);
    free(names);
    return st;
}

static ft_status check_kv(scan *s, name *key)
{
    ft_status st = take_name(s, KEY_MAX, "a key", key);
    if (st != FT_OK)
        return st;
    name shown = {key->text, key->n > 100 ? 100 : key->n};
    return check_value(s, key->n > 100 ? &shown : key);
}

typedef struct tensor_desc {
    name name;
    int64_t ne[GGML_MAX_DIMS];
    uint32_t type;
    uint64_t offset;
} tensor_desc;

static ft_status take_dims(scan *s, tensor_desc *t)
{
    uint32_t n_dims = 0;
    int64_t elements = 1;
    ft_status st = take(s, &n_dims, sizeof n_dims, "a tensor's dimensions");
    if (st != FT_OK)
        return st;
    if (n_dims < 1 || n_dims > GGML_MAX_DIMS)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: tensor '%.*s' has %u dimensions, not 1 to %d", (int)t->name.n,
                            (const char *)t->name.text, n_dims, GGML_MAX_DIMS);
    for (uint32_t i = 0; i < GGML_MAX_DIMS; i++) {
        t->ne[i] = 1;
        if (i < n_dims)
            st = take(s, &t->ne[i], sizeof t->ne[i], "a tensor's dimensions");
        if (st != FT_OK)
            return st;
        if (t->ne[i] < 1 || __builtin_mul_overflow(elements, t->ne[i], &elements))
            return ft_error_set(s->err, FT_CORRUPT,
                                "GGUF: tensor '%.*s': dimension %u of %" PRId64 " is out of range",
                                (int)t->name.n, (const char *)t->name.text, i, t->ne[i]);
    }
    return FT_OK;
}

/* The tensor's bytes, or an error for an unknown type, split blocks or overflow. */
static ft_status tensor_bytes(scan *s, const tensor_desc *t, uint64_t *out)
{
    int64_t block = t->type < GGML_TYPE_COUNT ? ggml_blck_size((enum ggml_type)t->type) : 0;
    if (block <= 0 || ggml_type_size((enum ggml_type)t->type) == 0)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: tensor '%.*s' has unknown type %u",
                            (int)t->name.n, (const char *)t->name.text, t->type);
    if (t->ne[0] % block != 0)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: tensor '%.*s': rows of %" PRId64
                            " elements are not whole blocks of %s (%" PRId64 ")",
                            (int)t->name.n, (const char *)t->name.text, t->ne[0],
                            ggml_type_name((enum ggml_type)t->type), block);
    uint64_t blocks = (uint64_t)(t->ne[0] / block);
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        blocks *= (uint64_t)t->ne[i]; /* take_dims checked the larger product */
    if (__builtin_mul_overflow(blocks, (uint64_t)ggml_type_size((enum ggml_type)t->type), out) ||
        *out > s->file_size)
        return ft_error_set(s->err, FT_CORRUPT, "GGUF: tensor '%.*s' is larger than the file",
                            (int)t->name.n, (const char *)t->name.text);
    return FT_OK;
}

typedef struct tensor_scan {
    scan s; /* first member: check_tensor receives a scan and casts it to this struct */
    uint64_t next_offset;
    uint64_t end; /* of the last tensor's bytes, relative to the data */
} tensor_scan;

static ft_status check_tensor(scan *s, name *out)
{
    tensor_scan *ts = (tensor_scan *)(void *)s;
    tensor_desc t = {0};
    uint64_t bytes = 0;
    ft_status st = take_name(s, GGML_MAX_NAME - 1, "a tensor name", &t.name);
    *out = t.name;
    if (st == FT_OK)
        st = take_dims(s, &t);
    if (st == FT_OK)
        st = take(s, &t.type, sizeof t.type, "a tensor's type");
    if (st == FT_OK)
        st = take(s, &t.offset, sizeof t.offset, "a tensor's offset");
    if (st == FT_OK)
        st = tensor_bytes(s, &t, &bytes);
    if (st != FT_OK)
        return st;
    /* ggml's reader requires the tensors' bytes in order and without gaps. So they cannot
     * overlap. */
    if (t.offset != ts->next_offset)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: tensor '%.*s' has offset %" PRIu64 ", but %" PRIu64
                            " is expected",
                            (int)t.name.n, (const char *)t.name.text, t.offset, ts->next_offset);
    ts->end = t.offset + bytes; /* both at most file_size and a little: no overflow */
    if (ts->end > s->file_size)
        return ft_error_set(s->err, FT_CORRUPT,
                            "GGUF: tensor '%.*s' ends behind the file's %" PRIu64
                            " bytes: is the download complete?",
                            (int)t.name.n, (const char *)t.name.text, s->file_size);
    ts->next_offset = (ts->end + s->alignment - 1) & ~(uint64_t)(s->alignment - 1);
    return FT_OK;
}

ft_status ft_gguf_scan(const void *data, size_t n_data, uint64_t file_size, ft_error *err,
                       bool *short_data)
{
    tensor_scan ts = {.s = {.data = data,
                            .n = n_data < file_size ? n_data : (size_t)file_size,
                            .file_size = file_size,
                            .err = err,
                            .alignment = GGUF_DEFAULT_ALIGNMENT}};
    scan *s = &ts.s;
    ft_status st = check_header(s);
    if (st == FT_OK)
        st = check_entries(s, s->n_kv, "key", check_kv);
    if (st == FT_OK)
        st = check_entries(s, s->n_tensors, "tensor", check_tensor);
    if (st == FT_OK && s->n_tensors > 0) {
        uint64_t begin = ((uint64_t)s->pos + s->alignment - 1) & ~(uint64_t)(s->alignment - 1);
        if (begin > file_size || ts.end > file_size - begin)
            st = ft_error_set(err, FT_CORRUPT,
                              "GGUF: the tensors end at byte %" PRIu64 ", but the file has %" PRIu64
                              ": is the download complete?",
                              begin + ts.end, file_size);
        else if (begin > s->n)
            st = corrupt_end(s, "the padding before the tensors");
    }
    *short_data = st != FT_OK && s->short_data;
    return st;
}

ft_status ft_gguf_check(const void *data, size_t n_data, uint64_t file_size, ft_error *err)
{
    bool short_data = false;
    return ft_gguf_scan(data, n_data, file_size, err, &short_data);
}
