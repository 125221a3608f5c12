/* SPDX-License-Identifier: Apache-2.0
 * Writes a GGUF file with more layers that change nothing but cost: benchmarks get the cost of a large
 * model with the text and the draft's acceptance of a small one. */
#ifndef FT_MODEL_INFLATE_H
#define FT_MODEL_INFLATE_H

#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"

typedef struct ft_inflate_opts {
    const char *in, *out;
    uint32_t n_layer;     /* that the new file is to have in all */
    ft_progress progress; /* in bytes */
} ft_inflate_opts;

/* Any family and weight type that ft_model_load takes. The layers of the file *had (may be NULL) stay;
 * n_layer - *had more are copies of them whose output projections are zero, so that each adds exactly
 * nothing to the residual stream: the logits are those of the old file, bit for bit wherever both are
 * computed by the same kernels. Blocks until done; takes a megabyte of memory beside the metadata.
 * FT_INVALID (n_layer is not more than the file has, or more than can be loaded; in and out are one
 * file), errors of the file as ft_model_load has them, FT_IO. */
FT_WARN_UNUSED ft_status ft_model_inflate(const ft_inflate_opts *opts, ft_error *err,
                                          uint32_t *had);

#endif
