/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a model from the packed file that an earlier load has made of it, or makes that file. The
 * model's own file is not opened where there is a packed one: reading its metadata and its
 * fingerprint would take as long as all the rest. So a packed file belongs to a file of the system,
 * with its times, and not to a fingerprint. For the model room only. */
#ifndef FT_MODEL_MODEL_KEPT_H
#define FT_MODEL_MODEL_KEPT_H

#include "model/model_impl.h"

/* What the packed file of opts->path is called by: the file (or the parts of it), where it is and
 * when it was changed, and which types are packed. 0: opts do not ask for a cache or do not go with
 * one, or there is no such file. */
uint64_t ft_kept_key(const ft_model_opts *opts);

/* ft_model_load: it calls the functions below, which call it. */
typedef ft_status ft_load_fn(const ft_model_opts *opts, ft_error *err, ft_model **out);

/* The model, but for where its weights lie, from its packed file. NULL: there is none, or it is
 * damaged, and a line of the log says so; *vocab of opts is NULL then. */
ft_model *ft_kept_load(const ft_model_opts *opts, uint64_t key, ft_load_fn *load);

/* The model's own file, open, and what was read of it. The model is described and planned, without
 * weights. */
typedef struct ft_opened {
    ft_gguf *gguf;
    const ft_sources *sources;
    const ft_model *planned;
    ft_load_fn *load;
} ft_opened;

/* Makes the packed file, and loads it. NULL: there is nothing to pack, or it did not work, and a
 * line of the log says why; as above. */
ft_model *ft_kept_make(const ft_model_opts *opts, uint64_t key, const ft_opened *opened);

#endif
