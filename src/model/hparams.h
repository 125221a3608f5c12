/* SPDX-License-Identifier: Apache-2.0
 *
 * The families that can be computed, a file's hyperparameters, and the role of each of its tensors;
 * all checked against each other. For the model room only.
 */
#ifndef FT_MODEL_HPARAMS_H
#define FT_MODEL_HPARAMS_H

#include "model/gguf_file.h"
#include "model/model.h"

/* Reads and checks all hyperparameters. FT_UNSUPPORTED: the file asks for something that the engine
 * does not compute. FT_CORRUPT (names the key): a value makes no sense. */
FT_WARN_UNUSED ft_status ft_hparams_read(ft_gguf *gguf, ft_hparams *out);

/* The tensors of one layer. */
enum {
    FT_PART_ATTN_NORM,
    FT_PART_Q,
    FT_PART_K,
    FT_PART_V,
    FT_PART_BQ,
    FT_PART_BK,
    FT_PART_BV,
    FT_PART_Q_NORM,
    FT_PART_K_NORM,
    FT_PART_O,
    FT_PART_BO,
    FT_PART_FFN_NORM,
    FT_PART_GATE,
    FT_PART_UP,
    FT_PART_DOWN,
    FT_PART_QKV,     /* Q, K and V, joined */
    FT_PART_GATE_UP, /* gate and up, joined */
    FT_PART_COUNT
};

/* Indices of the file's tensors; -1: an optional tensor that the file lacks. Only packed files
 * (packed_file.h) have joined parts, and packed copies of a tied output head. */
typedef struct ft_sources {
    int64_t tok_embd, output_norm, output, output_copy, rope_freqs;
    int64_t (*layers)[FT_PART_COUNT]; /* [n_layer] */
    bool packed;                      /* of a packed file */
} ft_sources;

/* Finds every tensor and checks its shape and type. packed: in a packed file. A tensor that the
 * family's forward pass would not use is FT_UNSUPPORTED, because leaving it out would change the
 * results. */
FT_WARN_UNUSED ft_status ft_sources_find(ft_gguf *gguf, const ft_hparams *hp, bool packed,
                                         ft_sources *out);
void ft_sources_deinit(ft_sources *sources);

/* The name of a layer's matrix in a packed file. part: FT_PART_...; packed: in our own layout. */
void ft_sources_name(uint32_t layer, int part, bool packed, char out[GGML_MAX_NAME]);
#define FT_NAME_PACKED_EMBEDDING "token_embd.packed"
#define FT_NAME_PACKED_HEAD      "output.packed"
#define FT_NAME_PACKED_COPY      "output_tied.packed" /* of a tied head */

/* Opens a file that is not packed and does all of the above. On failure the caller owes nothing. */
FT_WARN_UNUSED ft_status ft_sources_open(const char *path, ft_error *err, ft_gguf *gguf,
                                         ft_hparams *hp, ft_sources *out);

#endif
