// SPDX-License-Identifier: Apache-2.0
// From names of models to paths. The only state is the environment, which main sets.
#include "cmd/models.h"

#include <assert.h>
#include <stdlib.h>

#include "base/progress.h"

static ft_hub_env environment;

void ft_models_set_env(const ft_hub_env *env)
{
    environment = *env;
}

ft_hub_opts ft_models_opts(void)
{
    return (ft_hub_opts){.env = environment,
                         .progress = ft_progress_terminal("fetching the model")};
}

/* *name: what a flag or a word says. */
static ft_status find(const char **name, ft_error *err, ft_found_models *found)
{
    const ft_hub_opts opts = ft_models_opts();
    assert(found->n < FT_FOUND_MODELS_MAX);
    ft_status status = ft_hub_find(&opts, *name, err, &found->path[found->n]);
    if (status == FT_OK)
        *name = found->path[found->n++];
    return status;
}

ft_status ft_models_find(const ft_command *command, void *options, int n_words, char **words,
                         ft_error *err, ft_found_models *found)
{
    const ft_flag *flag;
    size_t at;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && (flag = ft_flags_nth(&command->flags, i, &at)); i++) {
        const char **name = flag->model ? (const char **)(void *)((char *)options + at) : NULL;
        if (name && *name)
            status = find(name, err, found);
    }
    if (status == FT_OK && command->model_word && n_words > 0) {
        const char *word = words[0];
        status = find(&word, err, found);
        words[0] = (char *)(uintptr_t)word;
    }
    return status;
}

void ft_found_models_deinit(ft_found_models *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->path[i]);
    *found = (ft_found_models){0};
}
