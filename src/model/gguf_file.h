/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file, checked and opened: the metadata as ggml's reader holds it, and getters that report a
 * missing key or a wrong type where ggml's abort. For the model room only.
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
    uint64_t data_offset;     /* of the first tensor's bytes in the file */
    struct gguf_context *ctx; /* metadata only */
    const char *path;         /* borrowed from the caller of ft_gguf_open */
} ft_gguf;

/* Reads the metadata, passes it to ft_gguf_check and only then to ggml. Split files are
 * FT_UNSUPPORTED. On failure *gguf owes nothing. path must outlive *gguf. */
FT_WARN_UNUSED ft_status ft_gguf_open(const char *path, ft_error *err, ft_gguf *gguf);
void ft_gguf_close(ft_gguf *gguf);

/* ft_gguf_check over the metadata's first bytes. *short_data is set if the only trouble is that the
 * metadata goes on behind n_data while the file does too. */
FT_WARN_UNUSED ft_status ft_gguf_scan(const void *data, size_t n_data, uint64_t file_size,
                                      ft_error *err, bool *short_data);

/* Scalars of any integer type within [0, UINT32_MAX]. A missing key leaves *out alone: FT_OK if not
 * required, else FT_CORRUPT. A wrong type is FT_CORRUPT and names the key. */
FT_WARN_UNUSED ft_status ft_gguf_u32(const ft_gguf *gguf, const char *key, bool required,
                                     ft_error *err, uint32_t *out);
/* Floats of both widths; must be finite. */
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

/* Where a tensor's bytes are in the file. */
uint64_t ft_gguf_tensor_file_offset(const ft_gguf *gguf, int64_t tensor);

/* Reads exactly n bytes at offset. FT_IO. */
FT_WARN_UNUSED ft_status ft_gguf_read(const ft_gguf *gguf, uint64_t offset, void *out, size_t n,
                                      ft_error *err);

#endif
