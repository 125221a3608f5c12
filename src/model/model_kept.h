/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a model from the packed file that an earlier load has made of it, or makes that file. A
 * packed file belongs to the content of a model's file (content.h), whatever that is called and
 * wherever it lies. The model's own file is not opened where its content is remembered: reading its
 * metadata and its fingerprint would take as long as all the rest, and a fingerprint covers a part
 * of the weights only. For the model room only. */
#ifndef FT_MODEL_MODEL_KEPT_H
#define FT_MODEL_MODEL_KEPT_H

#include "model/model_impl.h"

/* ft_model_load: it calls the functions below, which call it. */
typedef ft_status ft_load_fn(const ft_model_opts *opts, ft_error *err, ft_model **out);

/* A load that may use a cache. */
typedef struct ft_kept {
    const ft_model_opts *opts;
    ft_load_fn *load;
    uint64_t state, content; /* of opts->path (content.h); content 0: not known */
} ft_kept;

/* The model, but for where its weights lie, from its packed file. NULL: opts do not ask for a cache
 * or do not go with one; the content of opts->path is not remembered; or there is no packed file.
 * NULL, too, if the packed file is damaged: a line of the log says so. *vocab of opts is NULL then.
 */
ft_model *ft_kept_load(ft_kept *kept);

/* The model's own file, open, and what was read of it. The model is described and planned, without
 * weights. */
typedef struct ft_opened {
    ft_gguf *gguf;
    const ft_sources *sources;
    const ft_model *planned;
} ft_opened;

/* After ft_kept_load: the same from the packed file of another file with this content, or makes the
 * packed file and loads it. NULL: there is nothing to pack, or it did not work, and a line of the
 * log says why; as above. */
ft_model *ft_kept_make(const ft_kept *kept, const ft_opened *opened);

#endif
