/* SPDX-License-Identifier: Apache-2.0
 *
 * Model families as graphs. The hyperparameters name the family.
 */
#ifndef FT_ENGINE_FAMILIES_H
#define FT_ENGINE_FAMILIES_H

#include "engine/build.h"

/* Adds the layers to the graph. Returns the rows that want logits, [n_embd, n_out], as input of the
 * output head. If n_out is 0, only K and V are written, and the result is the last write. */
struct ggml_tensor *ft_family_build(ft_build *build);
/* Adds the output head: logits [n_vocab, n] of such rows, F32 [n_embd, n]. */
struct ggml_tensor *ft_family_build_head(ft_build *build, struct ggml_tensor *rows);

#endif
