/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file, checked and opened: the metadata in ggml's reader, and getters that report a missing
 * key or a wrong type (ggml's getters abort). For the model room only, but for ft_gguf_check_file.
 */
#ifndef FT_MODEL_GGUF_FILE_H
#define FT_MODEL_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "gguf.h"

/* Bytes of a part's path from the first '-' on: STEM-00001-of-00003.gguf. */
#define FT_GGUF_PART_SUFFIX 20

/* The files of a split model. An offset counts through all of them, in their order. */
typedef struct ft_gguf_parts {
    uint32_t n;
    int *fd;          /* [n]; the first is ft_gguf.fd */
    uint64_t *begin;  /* [n + 1] offset of each, and of their end */
    uint64_t *tensor; /* [tensors] offset of each tensor's bytes */
} ft_gguf_parts;

typedef struct ft_gguf {
    int fd;                   /* open for reading; -1 after close */
    uint64_t file_size;       /* of all parts */
    uint64_t data_offset;     /* offset in the file where tensor data begins */
    struct gguf_context *ctx; /* metadata only; of a split model with the tensors of all parts */
    ft_gguf_parts *parts;     /* NULL: the model is one file */
    const char *path;         /* borrowed from the caller of ft_gguf_open, like err */
    ft_error *err;
    ft_status st; /* the first error stays, and later getters do nothing */
} ft_gguf;

/* Reads the metadata, checks it with ft_gguf_scan, and only then passes it to ggml. Of a split
 * model the path is that of the first part and ends in -00001-of-00003.gguf; the others lie beside
 * it. A part that is missing is FT_NOT_FOUND, another path FT_UNSUPPORTED. On failure *gguf needs
 * no close. path and err must outlive *gguf. */
FT_WARN_UNUSED ft_status ft_gguf_open(const char *path, ft_error *err, ft_gguf *gguf);
void ft_gguf_close(ft_gguf *gguf);

/* Checks a file with ft_gguf_scan. It may be a part of a split model, or of a family that cannot be
 * loaded. FT_NOT_FOUND, FT_IO, FT_CORRUPT, FT_UNSUPPORTED, FT_NOMEM; messages name the path. */
FT_WARN_UNUSED ft_status ft_gguf_check_file(const char *path, ft_error *err);

/* Records an error, unless there was one before. The message begins with the file's path. Returns
 * gguf->st. */
ft_status ft_gguf_refuse(ft_gguf *gguf, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);

/* Checks header, keys, strings, arrays, dimensions, types, offsets and sizes of tensors against
 * file_size. data: the first n_data bytes of the file. *short_data is set if the only error is that
 * the metadata continues behind n_data and the file is longer, too. */
FT_WARN_UNUSED ft_status ft_gguf_scan(const void *data, size_t n_data, uint64_t file_size,
                                      ft_error *err, bool *short_data);

/* Bytes of a value of a scalar type (gguf_type); 0 for strings, arrays and unknown types. */
size_t ft_gguf_scalar_bytes(uint32_t type);

/* The getters below refuse a wrong type, and a missing key if it is required (FT_CORRUPT; messages
 * name the key). A missing key leaves *out unchanged. */

/* A whole number of any type within [0, UINT32_MAX]. */
void ft_gguf_u32(ft_gguf *gguf, const char *key, bool required, uint32_t *out);
/* A float of either width; it must be finite. */
void ft_gguf_f32(ft_gguf *gguf, const char *key, bool required, float *out);
void ft_gguf_bool(ft_gguf *gguf, const char *key, bool required, bool *out);
/* Borrowed until ft_gguf_close. */
void ft_gguf_str(ft_gguf *gguf, const char *key, bool required, const char **out);
/* An array: id is for gguf_get_arr_*, -1 if the key is missing. */
typedef struct ft_gguf_arr {
    int64_t id;
    size_t n;
} ft_gguf_arr;
/* The element type is checked. After an error, and if the key is missing: {-1, 0}. */
ft_gguf_arr ft_gguf_array(ft_gguf *gguf, const char *key, enum gguf_type type, bool required);

/* The offset of a tensor's bytes in the file. */
uint64_t ft_gguf_tensor_file_offset(const ft_gguf *gguf, int64_t tensor);

/* Reads exactly n bytes at offset. FT_IO. Returns gguf->st. */
ft_status ft_gguf_read(ft_gguf *gguf, uint64_t offset, void *out, size_t n);

#endif
