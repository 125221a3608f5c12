// SPDX-License-Identifier: Apache-2.0
// Checks a GGUF file's metadata byte by byte before any other reader sees it: header, keys, value
// types, lengths of strings and arrays, tensor names, dimensions, types and offsets, all against
// the size of the file. Invariants: nothing is read behind n_data; two tables are allocated, with
// one entry for each 14 bytes of input at most; the first error stays, and later checks change
// nothing. Stateless; any thread. It does not judge what keys mean: hparams.c and tokenizer_check.c
// do.
#include "model/gguf_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"

enum {
    KEY_MAX = 65535,         /* the format's own limit */
    ALIGNMENT_MAX = 1 << 20, /* real files use 32; larger ones could overflow sums of sizes */
    KEY_BYTES = 14,          /* of the smallest key with its value */
    TENSOR_BYTES = 33        /* of the smallest description of a tensor */
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
    ft_status st;
    bool short_data; /* the error is that the data ended before the file */
    char entry[112]; /* what is being checked, for messages: "key 'general.name'" */
    uint32_t alignment;
    uint64_t next_offset; /* where the next tensor must begin */
    uint64_t end;         /* of the last tensor's bytes; both relative to the data */
} scan;

static void bad(scan *s, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);

static void bad(scan *s, ft_status code, const char *fmt, ...)
{
    va_list args;
    if (s->st != FT_OK)
        return;
    va_start(args, fmt);
    s->st = ft_error_setv(s->err, code, fmt, args);
    va_end(args);
}

static void bad_end(scan *s, const char *what)
{
    s->short_data = s->short_data || (s->st == FT_OK && s->n < s->file_size);
    bad(s, FT_CORRUPT, "GGUF: the file ends inside %s, at byte %zu", what, s->n);
}

/* Reads n bytes; after an error it leaves *out unchanged. */
static void take(scan *s, void *out, size_t n, const char *what)
{
    if (n > s->n - s->pos)
        bad_end(s, what);
    if (s->st != FT_OK)
        return;
    memcpy(out, s->data + s->pos, n);
    s->pos += n;
}

/* Skips n bytes; the count comes from the file. */
static void skip(scan *s, uint64_t n, const char *what)
{
    if (n > s->file_size - s->pos)
        bad(s, FT_CORRUPT, "GGUF: %s of %" PRIu64 " bytes at byte %zu is longer than the file",
            what, n, s->pos);
    else if (n > s->n - s->pos)
        bad_end(s, what);
    if (s->st == FT_OK)
        s->pos += (size_t)n;
}

static void take_string(scan *s, uint64_t max, const char *what, name *out)
{
    uint64_t n = 0;
    take(s, &n, sizeof n, what);
    if (n > max)
        bad(s, FT_CORRUPT,
            "GGUF: %s at byte %zu has %" PRIu64 " bytes, at most %" PRIu64 " are allowed", what,
            s->pos - sizeof n, n, max);
    *out = (name){s->data + s->pos, (size_t)n};
    skip(s, n, what);
}

/* Reads the name of a key or tensor. It must not have control characters: the libraries would end
 * it at a NUL. */
static void take_name(scan *s, uint64_t max, const char *kind, const char *what, name *out)
{
    size_t at = s->pos;
    take_string(s, max, what, out);
    if (out->n == 0)
        bad(s, FT_CORRUPT, "GGUF: %s at byte %zu is empty", what, at);
    for (size_t i = 0; i < out->n && s->st == FT_OK; i++)
        if (out->text[i] < 0x20 || out->text[i] == 0x7f)
            bad(s, FT_CORRUPT, "GGUF: %s at byte %zu holds the control character 0x%02x", what, at,
                out->text[i]);
    if (s->st == FT_OK)
        snprintf(s->entry, sizeof s->entry, "%s '%.*s'", kind, (int)(out->n > 100 ? 100 : out->n),
                 (const char *)out->text);
}

static void check_header(scan *s, uint64_t *n_keys, uint64_t *n_tensors)
{
    char magic[4] = {0};
    uint32_t version = 0;
    take(s, magic, sizeof magic, "the header");
    if (memcmp(magic, GGUF_MAGIC, sizeof magic) != 0)
        bad(s, FT_CORRUPT, "not a GGUF file: it does not begin with 'GGUF'");
    take(s, &version, sizeof version, "the header");
    if ((version & 0xffff) == 0)
        bad(s, FT_UNSUPPORTED, "GGUF: version 0x%08x: the file has the other byte order", version);
    if (version < 2 || version > GGUF_VERSION)
        bad(s, FT_UNSUPPORTED, "GGUF: version %u; 2 and 3 can be read", version);
    take(s, n_tensors, sizeof *n_tensors, "the header");
    take(s, n_keys, sizeof *n_keys, "the header");
    uint64_t left = s->file_size - s->pos;
    if (*n_keys > left / KEY_BYTES || *n_tensors > left / TENSOR_BYTES)
        bad(s, FT_CORRUPT,
            "GGUF: %" PRIu64 " keys and %" PRIu64 " tensors do not fit in %" PRIu64 " bytes",
            *n_keys, *n_tensors, s->file_size);
}

size_t ft_gguf_scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[GGUF_TYPE_COUNT] = {
        [GGUF_TYPE_UINT8] = 1,   [GGUF_TYPE_INT8] = 1,   [GGUF_TYPE_UINT16] = 2,
        [GGUF_TYPE_INT16] = 2,   [GGUF_TYPE_UINT32] = 4, [GGUF_TYPE_INT32] = 4,
        [GGUF_TYPE_FLOAT32] = 4, [GGUF_TYPE_BOOL] = 1,   [GGUF_TYPE_UINT64] = 8,
        [GGUF_TYPE_INT64] = 8,   [GGUF_TYPE_FLOAT64] = 8};
    return type < GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static void check_array(scan *s)
{
    uint32_t type = 0;
    uint64_t n = 0;
    name item;
    take(s, &type, sizeof type, "an array");
    take(s, &n, sizeof n, "an array");
    size_t least = type == GGUF_TYPE_STRING ? sizeof(uint64_t) : ft_gguf_scalar_bytes(type);
    if (least == 0)
        bad(s, FT_CORRUPT, "GGUF: %s is an array of unknown type %u", s->entry, type);
    else if (n > ARRAY_MAX || n > (s->file_size - s->pos) / least)
        bad(s, FT_CORRUPT,
            "GGUF: %s is an array of %" PRIu64 " elements, more than the file can hold", s->entry,
            n);
    if (type != GGUF_TYPE_STRING)
        skip(s, n * least, "an array");
    else
        for (uint64_t i = 0; i < n && s->st == FT_OK; i++)
            take_string(s, STRING_MAX, "a string", &item);
}

static void check_alignment(scan *s, uint32_t type)
{
    if (type != GGUF_TYPE_UINT32)
        bad(s, FT_CORRUPT, "GGUF: %s is not a 32-bit number", s->entry);
    take(s, &s->alignment, sizeof s->alignment, "a value");
    if (s->alignment == 0 || s->alignment > ALIGNMENT_MAX ||
        (s->alignment & (s->alignment - 1)) != 0)
        bad(s, FT_CORRUPT, "GGUF: alignment %u is not a power of two up to %d", s->alignment,
            ALIGNMENT_MAX);
}

static void check_key(scan *s, name *key)
{
    static const char alignment[] = GGUF_KEY_GENERAL_ALIGNMENT;
    uint32_t type = 0;
    name text;
    take_name(s, KEY_MAX, "key", "a key", key);
    take(s, &type, sizeof type, "a value's type");
    if (s->st != FT_OK)
        return;
    if (key->n == strlen(alignment) && memcmp(key->text, alignment, key->n) == 0)
        check_alignment(s, type);
    else if (type == GGUF_TYPE_ARRAY)
        check_array(s);
    else if (type == GGUF_TYPE_STRING)
        take_string(s, STRING_MAX, "a string", &text);
    else if (ft_gguf_scalar_bytes(type) == 0)
        bad(s, FT_CORRUPT, "GGUF: %s has unknown type %u", s->entry, type);
    else
        skip(s, ft_gguf_scalar_bytes(type), "a value");
}

static void take_dims(scan *s, int64_t ne[GGML_MAX_DIMS])
{
    uint32_t n_dims = 0;
    int64_t elements = 1;
    take(s, &n_dims, sizeof n_dims, "a tensor's dimensions");
    if (n_dims < 1 || n_dims > GGML_MAX_DIMS)
        bad(s, FT_CORRUPT, "GGUF: %s has %u dimensions, not 1 to %d", s->entry, n_dims,
            GGML_MAX_DIMS);
    for (uint32_t i = 0; i < GGML_MAX_DIMS; i++) {
        ne[i] = 1;
        if (i < n_dims)
            take(s, &ne[i], sizeof ne[i], "a tensor's dimensions");
        if (ne[i] < 1 || __builtin_mul_overflow(elements, ne[i], &elements))
            bad(s, FT_CORRUPT, "GGUF: %s: dimension %u of %" PRId64 " is out of range", s->entry, i,
                ne[i]);
    }
}

/* The tensor's bytes; 0 after an error: an unknown type, split blocks, or more than the file. */
static uint64_t tensor_bytes(scan *s, const int64_t ne[GGML_MAX_DIMS], uint32_t type)
{
    uint64_t bytes = 0;
    int64_t block = type < GGML_TYPE_COUNT ? ggml_blck_size((enum ggml_type)type) : 0;
    if (block <= 0 || ggml_type_size((enum ggml_type)type) == 0)
        bad(s, FT_CORRUPT, "GGUF: %s has unknown type %u", s->entry, type);
    else if (ne[0] % block != 0)
        bad(s, FT_CORRUPT,
            "GGUF: %s: rows of %" PRId64 " elements are not whole blocks of %s (%" PRId64 ")",
            s->entry, ne[0], ggml_type_name((enum ggml_type)type), block);
    if (s->st != FT_OK)
        return 0;
    uint64_t blocks = (uint64_t)(ne[0] / block);
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        blocks *= (uint64_t)ne[i]; /* take_dims checked the larger product */
    if (__builtin_mul_overflow(blocks, (uint64_t)ggml_type_size((enum ggml_type)type), &bytes) ||
        bytes > s->file_size)
        bad(s, FT_CORRUPT, "GGUF: %s is larger than the file", s->entry);
    return s->st == FT_OK ? bytes : 0;
}

static uint64_t aligned(const scan *s, uint64_t at)
{
    return (at + s->alignment - 1) & ~(uint64_t)(s->alignment - 1);
}

static void check_tensor(scan *s, name *out)
{
    int64_t ne[GGML_MAX_DIMS];
    uint32_t type = 0;
    uint64_t offset = 0;
    take_name(s, GGML_MAX_NAME - 1, "tensor", "a tensor name", out);
    take_dims(s, ne);
    take(s, &type, sizeof type, "a tensor's type");
    take(s, &offset, sizeof offset, "a tensor's offset");
    uint64_t bytes = tensor_bytes(s, ne, type);
    /* ggml's reader requires the tensors' bytes in order and without gaps. So they cannot
     * overlap. */
    if (offset != s->next_offset)
        bad(s, FT_CORRUPT, "GGUF: %s has offset %" PRIu64 ", but %" PRIu64 " is expected", s->entry,
            offset, s->next_offset);
    s->end = s->next_offset + bytes; /* both at most file_size and a little: no overflow */
    if (s->end > s->file_size)
        bad(s, FT_CORRUPT,
            "GGUF: %s ends behind the file's %" PRIu64 " bytes: is the download complete?",
            s->entry, s->file_size);
    s->next_offset = aligned(s, s->end);
}

static int compare_names(const void *a, const void *b)
{
    const name *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Runs `each` n times and checks that the names differ. least: bytes of the smallest entry. The
 * table has room for the entries that fit in the data, so a false count allocates little. */
static void check_entries(scan *s, uint64_t n, size_t least, const char *kind,
                          void (*each)(scan *s, name *out))
{
    size_t fit = (s->n - s->pos) / least + 1; /* the last one is cut */
    if (s->st != FT_OK || n == 0)
        return;
    name *names = malloc((n < fit ? (size_t)n : fit) * sizeof *names);
    if (!names)
        bad(s, FT_NOMEM, "GGUF: out of memory for %" PRIu64 " names", n);
    for (uint64_t i = 0; i < n && s->st == FT_OK; i++)
        each(s, &names[i]);
    if (s->st == FT_OK)
        qsort(names, (size_t)n, sizeof *names, compare_names);
    for (uint64_t i = 1; i < n && s->st == FT_OK; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            bad(s, FT_CORRUPT, "GGUF: %s '%.*s' occurs twice", kind,
                (int)(names[i].n > 100 ? 100 : names[i].n), (const char *)names[i].text);
    free(names);
}

ft_status ft_gguf_scan(const void *data, size_t n_data, uint64_t file_size, ft_error *err,
                       bool *short_data)
{
    scan s = {.data = data,
              .n = n_data < file_size ? n_data : (size_t)file_size,
              .file_size = file_size,
              .err = err,
              .alignment = GGUF_DEFAULT_ALIGNMENT};
    uint64_t n_keys = 0, n_tensors = 0;
    check_header(&s, &n_keys, &n_tensors);
    check_entries(&s, n_keys, KEY_BYTES, "key", check_key);
    check_entries(&s, n_tensors, TENSOR_BYTES, "tensor", check_tensor);
    uint64_t begin = aligned(&s, s.pos);
    if (n_tensors > 0 && (begin > file_size || s.end > file_size - begin))
        bad(&s, FT_CORRUPT,
            "GGUF: the tensors end at byte %" PRIu64 ", but the file has %" PRIu64
            ": is the download complete?",
            begin + s.end, file_size);
    else if (n_tensors > 0 && begin > s.n)
        bad_end(&s, "the padding before the tensors");
    *short_data = s.short_data;
    return s.st;
}
