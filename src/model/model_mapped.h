/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of a packed file that are mapped instead of read. For the model room only. */
#ifndef FT_MODEL_MODEL_MAPPED_H
#define FT_MODEL_MODEL_MAPPED_H

#include "model/gguf_file.h"
#include "model/model_impl.h"

/* Maps a packed file for a model that is planned. Nothing is mapped where reading weights from the
 * map for each token would be slower than from memory of our own. */
void ft_model_map(ft_model *model, const ft_gguf *gguf);

/* Whether this weight is to be used where it is mapped. */
bool ft_model_is_mapped(const ft_model *model, const ft_planned *w);

/* Lets the tensors of a place point into the map: all of its weights are mapped. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_model_map_place(ft_model *model, size_t place, ft_gguf *gguf);

/* Checks the hashes of all weights that are mapped, on all cores. FT_CORRUPT names the first one
 * that is wrong; FT_NOMEM. Returns gguf->st. */
FT_WARN_UNUSED ft_status ft_model_check_map(const ft_model *model, ft_gguf *gguf);

#endif
