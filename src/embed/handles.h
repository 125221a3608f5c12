/* SPDX-License-Identifier: Apache-2.0
 *
 * What the handles of libforetoken are. Inside the room only. */
#ifndef FT_EMBED_HANDLES_H
#define FT_EMBED_HANDLES_H

#include "engine/engine.h"
#include "foretoken.h"
#include "model/vocab.h"
#include "spec/sampling.h"

struct foretoken_engine {
    ft_model *model;
    ft_vocab *vocab;
    ft_engine *engine;
};

/* This library, ggml and libllama log nothing from now on. */
void ft_embed_quiet(void);

/* Copies an error out; returns its code. error may be NULL. */
int ft_embed_error(const ft_error *err, foretoken_error *error);

/* Ours, checked. NULL: greedy. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_embed_sampling(const foretoken_sampling *sampling, ft_error *err,
                                           ft_sampling *out);

/* The file as model (NULL: not wanted) and vocabulary. */
FT_WARN_UNUSED ft_status ft_embed_load(const char *path, ft_error *err, ft_model **model,
                                       ft_vocab **vocab);

#endif
