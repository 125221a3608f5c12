/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a model from the packed file that an earlier load has made of it, or makes that file. For
 * the model room only. */
#ifndef FT_MODEL_MODEL_KEPT_H
#define FT_MODEL_MODEL_KEPT_H

#include "model/model_impl.h"

/* The same file, open, and what was read of it. The model is described and planned, without
 * weights. */
typedef struct ft_opened {
    ft_gguf *gguf;
    const ft_sources *sources;
    const ft_model *planned;
} ft_opened;

/* The model that it returns is the planned one but for where its weights lie. NULL: opts do not ask
 * for a cache or do not go with one, there is nothing to pack, or it did not work, and a line of
 * the log says why; *vocab of opts is NULL then. */
ft_model *ft_model_load_kept(const ft_model_opts *opts, const ft_opened *opened);

#endif
