/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the bytes of a model's matrices lie in its file, and how they become what the engine
 * multiplies with. For an engine that reads some of them in every pass.
 *
 * The matrices that ft_model_opts.stream chose have tensors (type, shape, name, mark of packing)
 * whose data and buffer are NULL. Their reader sets both before it computes with them. Everything
 * else of a model stays immutable.
 */
#ifndef FT_MODEL_EXTENTS_H
#define FT_MODEL_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

enum {
    FT_EXTENT_PARTS = 3,  /* tensors of a file that are joined to one weight, at most */
    FT_LAYER_MATRICES = 7 /* of a layer, at most; 4 where parts are joined */
};

/* Bytes [offset, offset + bytes) of the file. */
typedef struct ft_extent {
    uint64_t offset, bytes;
    uint64_t hash; /* XXH3 (64 bits) of them, in packed files; else 0 */
} ft_extent;

/* How the bytes of a file become a weight. */
typedef enum ft_extent_way {
    FT_EXTENT_AS_IS, /* the parts, one behind the other, are the weight */
    FT_EXTENT_PACK,  /* the parts, one behind the other, are packed (ft_pack); a tile may hold rows
                        of two parts */
    FT_EXTENT_GGML   /* the parts, one behind the other, go whole through ggml_backend_tensor_set
                        into memory of type `buft`: ggml has a layout of its own */
} ft_extent_way;

/* A matrix, which is one weight of a model. */
typedef struct ft_matrix {
    struct ggml_tensor *tensor; /* NULL while ft_model_opts.stream is asked */
    enum ggml_type type;
    int64_t n_in, n_out;
    uint64_t bytes; /* of the weight; the sum of its parts */
    ft_extent part[FT_EXTENT_PARTS];
    uint32_t n_parts;
    ft_extent_way way;
    ggml_backend_buffer_type_t buft; /* of the memory that it must lie in */
    bool packed;                     /* in our own layout, once it is in memory */
    bool hashed;                     /* the parts' hashes are known */
} ft_matrix;

/* The matrices of a layer in the order in which a pass wants them. Returns how many. In a packed
 * file each has one part, as it is or for ggml; the parts are in ascending order, each begins at a
 * multiple of 4 KiB, and nothing but padding lies between them. So one read can bring them all.
 * Any thread. */
size_t ft_model_layer_matrices(const ft_model *model, uint32_t layer,
                               ft_matrix out[FT_LAYER_MATRICES]);
/* The output head, and the embedding: they have the same extents in tied models without a packed
 * copy, and the same tensor where nothing is copied in memory. */
ft_matrix ft_model_head_matrix(const ft_model *model);
ft_matrix ft_model_embedding_matrix(const ft_model *model);

/* The file, open for reading as long as the model lives, if ft_model_opts.stream was set; else -1.
 * It is the file that was checked, whatever its path names by now. Borrowed. */
int ft_model_fd(const ft_model *model);

/* Whether these extent->bytes bytes have the hash. */
bool ft_extent_matches(const ft_extent *extent, const void *bytes);

/* Where the file has bytes [at, at + n) of the parts, one behind the other: *out in their order,
 * without hashes. Returns how many. The range is within m->bytes. */
size_t ft_matrix_range(const ft_matrix *m, uint64_t at, uint64_t n, ft_extent out[FT_EXTENT_PARTS]);
/* FT_EXTENT_AS_IS and FT_EXTENT_PACK: makes bytes [at, at + n) of the weight from the same bytes of
 * the parts, one behind the other. at and n are multiples of ft_matrix_unit. Any thread. */
void ft_matrix_put(const ft_matrix *m, const void *bytes, uint64_t at, size_t n, void *weight);
/* 1, or the bytes of a packed tile. */
size_t ft_matrix_unit(const ft_matrix *m);

#endif
