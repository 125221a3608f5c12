/* SPDX-License-Identifier: Apache-2.0
 *
 * Model families as graphs. The hyperparameters name the family.
 */
#ifndef FT_ENGINE_FAMILIES_H
#define FT_ENGINE_FAMILIES_H

#include "engine/build.h"

/* Adds the embedding of the tokens: x, F32 [n_embd, n_rows]. */
struct ggml_tensor *ft_family_build_embedding(ft_build *build);
/* Adds layer il. Returns x behind it. Behind the last layer that is the rows that want logits,
 * [n_embd, n_out], as input of the output head; if n_out is 0, the last layer only writes K and V,
 * and the result is the write. */
struct ggml_tensor *ft_family_build_layer(ft_build *build, uint32_t il, struct ggml_tensor *x);
/* Adds the output head: logits [n, n_rows] of such rows, F32 [n_embd, n_rows]. output: the head's
 * matrix, or a part of its rows: [n_embd, n]. */
struct ggml_tensor *ft_family_build_head(ft_build *build, struct ggml_tensor *output,
                                         struct ggml_tensor *rows);

#endif
