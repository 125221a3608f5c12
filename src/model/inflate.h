/* SPDX-License-Identifier: Apache-2.0
 * Writes a GGUF file with more layers that change nothing but the cost. So benchmarks can have the
 * cost of a large model with the text and the draft acceptance of a small one. */
#ifndef FT_MODEL_INFLATE_H
#define FT_MODEL_INFLATE_H

#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"

typedef struct ft_inflate_opts {
    const char *in, *out;
    uint32_t n_layer;     /* layers of the new file, in total */
    ft_progress progress; /* in bytes */
} ft_inflate_opts;

/* Takes any family and weight type that ft_model_load takes. The file's own layers stay; their
 * number is written to *had (may be NULL). The n_layer - *had new layers are copies of them whose
 * output projections are zero. Such a layer adds exactly nothing to the residual stream, so the
 * logits are those of the old file, bit for bit, if both are computed by the same kernels. Blocks
 * until done; needs a megabyte of memory beside the metadata. FT_INVALID (n_layer is not more than
 * the file has, or more than can be loaded; in and out are the same file), errors of the file as in
 * ft_model_load, FT_IO. */
FT_WARN_UNUSED ft_status ft_model_inflate(const ft_inflate_opts *opts, ft_error *err,
                                          uint32_t *had);

#endif
