/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file, checked and opened: the metadata in ggml's reader, and getters that report a missing
 * key or a wrong type (ggml's getters abort). For the model room only.
 */
#ifndef FT_MODEL_GGUF_FILE_H
#define FT_MODEL_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "gguf.h"

typedef struct ft_gguf {
    int fd; /* open for reading; -1 after close */
    uint64_t file_size;
    uint64_t data_offset;     /* offset in the file where tensor data begins */
    struct gguf_context *ctx; /* metadata only */
    const char *path;         /* borrowed from the caller of ft_gguf_open */
} ft_gguf;

/* Reads the metadata, checks it with ft_gguf_check, and only then passes it to ggml. Split files
 * are FT_UNSUPPORTED. On failure *gguf needs no close. path must outlive *gguf. */
FT_WARN_UNUSED ft_status ft_gguf_open(const char *path, ft_error *err, ft_gguf *gguf);
void ft_gguf_close(ft_gguf *gguf);

/* ft_gguf_check on the first bytes of the metadata. *short_data is set if the only error is that
 * the metadata continues behind n_data and the file is longer, too. */
FT_WARN_UNUSED ft_status ft_gguf_scan(const void *data, size_t n_data, uint64_t file_size,
                                      ft_error *err, bool *short_data);

/* Reads a scalar of any integer type within [0, UINT32_MAX]. A missing key leaves *out unchanged;
 * it is FT_CORRUPT if the key is required, else FT_OK. A wrong type is FT_CORRUPT. Messages name
 * the key. */
FT_WARN_UNUSED ft_status ft_gguf_u32(const ft_gguf *gguf, const char *key, bool required,
                                     ft_error *err, uint32_t *out);
/* Reads a float of either width; it must be finite. */
FT_WARN_UNUSED ft_status ft_gguf_f32(const ft_gguf *gguf, const char *key, bool required,
                                     ft_error *err, float *out);
FT_WARN_UNUSED ft_status ft_gguf_bool(const ft_gguf *gguf, const char *key, bool required,
                                      ft_error *err, bool *out);
/* Borrowed until ft_gguf_close. */
FT_WARN_UNUSED ft_status ft_gguf_str(const ft_gguf *gguf, const char *key, bool required,
                                     ft_error *err, const char **out);
/* An array: id is for gguf_get_arr_*, -1 if the key is missing. */
typedef struct ft_gguf_arr {
    int64_t id;
    size_t n;
} ft_gguf_arr;
/* The element type is checked. */
FT_WARN_UNUSED ft_status ft_gguf_array(const ft_gguf *gguf, const char *key, enum gguf_type type,
                                       bool required, ft_error *err, ft_gguf_arr *out);

/* The offset of a tensor's bytes in the file. */
uint64_t ft_gguf_tensor_file_offset(const ft_gguf *gguf, int64_t tensor);

/* Reads exactly n bytes at offset. FT_IO. */
FT_WARN_UNUSED ft_status ft_gguf_read(const ft_gguf *gguf, uint64_t offset, void *out, size_t n,
                                      ft_error *err);

#endif
