/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags and words that name models: hf:, ollama: or a path (src/hub). Main thread. */
#ifndef FT_CMD_MODELS_H
#define FT_CMD_MODELS_H

#include "cmd/cmd.h"
#include "hub/hub.h"

/* What names mean in this process. Called once by main; the strings are borrowed. */
void ft_models_set_env(const ft_hub_env *env);

/* With this environment, and a progress line on a terminal. */
ft_hub_opts ft_models_opts(void);

#define FT_FOUND_MODELS_MAX 8

typedef struct ft_found_models {
    char *path[FT_FOUND_MODELS_MAX];
    size_t n;
} ft_found_models;

/* Replaces each name in the options and words of a command by the path of its file. *found owns
 * the paths; it needs a deinit in any case. Errors as ft_hub_find. */
FT_WARN_UNUSED ft_status ft_models_find(const ft_command *command, void *options, int n_words,
                                        char **words, ft_error *err, ft_found_models *found);
void ft_found_models_deinit(ft_found_models *found);

#endif
