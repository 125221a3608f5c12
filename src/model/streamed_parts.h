/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read as one in a pass (a part, stream.h): the matrices of a layer, or some rows of the
 * output head. Where each lies in the file, and how its bytes become weights in a slot of the ring.
 * For the model room only. Pure functions of a model's plan, but for the lists that they allocate.
 */
#ifndef FT_MODEL_STREAMED_PARTS_H
#define FT_MODEL_STREAMED_PARTS_H

#include "model/extents.h"
#include "model/memory_plan.h"
#include "model/stream.h"

/* A part of the output head's rows. */
typedef struct ft_head_part {
    uint32_t first, n; /* tokens */
} ft_head_part;

typedef struct ft_streamed_part {
    uint32_t layer; /* UINT32_MAX: the head's */
    ft_head_part head;
    ft_matrix matrix[FT_LAYER_MATRICES]; /* [n]; of the head: its rows */
    size_t n;
    size_t at[FT_LAYER_MATRICES]; /* with convert: where each matrix is in the slot */
    ft_weight_extent *extents;    /* in the order of matrices and of their parts */
} ft_streamed_part;

typedef struct ft_streamed_parts {
    ft_streamed_part *at; /* [n] in the order of a pass */
    size_t n, n_layers;   /* the layers come first */
    ft_weight_part *read; /* [n] the same for stream.h */
    bool convert;         /* some bytes have to change before they are weights */
    size_t slot_bytes;    /* with convert: of the largest part */
    char *joined;         /* [joined_bytes] scratch of convert: for matrices of several parts */
    size_t joined_bytes;
    ft_weight_extent *extents;
} ft_streamed_parts;

/* The parts of a model under a plan; NULL: of all that could be streamed. FT_NOMEM: there is
 * nothing to deinit then. */
FT_WARN_UNUSED ft_status ft_streamed_parts_make(const ft_model *model, const ft_memory_plan *plan,
                                                ft_error *err, ft_streamed_parts *out);
void ft_streamed_parts_deinit(ft_streamed_parts *parts);

/* Bytes of the largest layer: no part of the head is larger. */
uint64_t ft_streamed_largest(const ft_model *model);

/* As ft_weight_convert; ctx: the parts. */
void ft_streamed_convert(void *ctx, size_t part, const void *const *extents, void *slot);

/* What a stream of these parts is made with, but for file and slots: also to learn what it needs.
 * embedding: NULL if its rows are not looked up. */
ft_weight_stream_opts ft_streamed_reads(ft_streamed_parts *parts, const ft_matrix *embedding);

/* Looking up rows of the embedding in the file: what is read for a token. */
typedef struct ft_row_place {
    uint64_t offset; /* in the file */
    size_t bytes;
} ft_row_place;
ft_row_place ft_streamed_row(const ft_matrix *embedding, int32_t token);
/* Makes F32 [n_embd] of what was read. */
void ft_streamed_row_make(const ft_matrix *embedding, int32_t token, const void *bytes, float *out);

#endif
