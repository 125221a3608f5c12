// SPDX-License-Identifier: Apache-2.0
// Folders and the hub's address, from values of the environment. Pure functions.
#include "hub/places.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "hub/cache.h"

#define ENDPOINT "https://huggingface.co"

static const char *set(const char *value)
{
    return value && value[0] ? value : NULL;
}

/* The words that the hub's own programs take as yes. */
static bool is_yes(const char *value)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; i < FT_COUNT(words); i++)
        if (value && strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

static char *hf_root(const ft_hub_env *env)
{
    if (set(env->hf_hub_cache))
        return ft_cache_text("%s", env->hf_hub_cache);
    if (set(env->hf_home))
        return ft_cache_text("%s/hub", env->hf_home);
    if (set(env->xdg_cache_home))
        return ft_cache_text("%s/huggingface/hub", env->xdg_cache_home);
    return ft_cache_text("%s/.cache/huggingface/hub", env->home);
}

static char *endpoint_of(const ft_hub_env *env)
{
    char *endpoint = ft_cache_text("%s", set(env->hf_endpoint) ? env->hf_endpoint : ENDPOINT);
    for (size_t n = endpoint ? strlen(endpoint) : 0; n > 0 && endpoint[n - 1] == '/'; n--)
        endpoint[n - 1] = 0;
    return endpoint;
}

ft_status ft_hub_places_init(const ft_hub_env *env, ft_error *err, ft_hub_places *out)
{
    *out = (ft_hub_places){.token = set(env->hf_token), .offline = is_yes(env->hf_hub_offline)};
    if (!set(env->home) && (!set(env->hf_hub_cache) || !set(env->ollama_models)))
        return ft_error_set(err, FT_INVALID,
                            "HOME is not set: set it, or HF_HUB_CACHE and OLLAMA_MODELS");
    for (const char *c = out->token; c && *c; c++)
        if (*c <= ' ' || *c > '~')
            return ft_error_set(err, FT_INVALID,
                                "HF_TOKEN is no token: it has a blank, or a "
                                "character that is not ASCII");
    out->hf_root = hf_root(env);
    out->endpoint = endpoint_of(env);
    out->ollama_root = set(env->ollama_models) ? ft_cache_text("%s", env->ollama_models)
                                               : ft_cache_text("%s/.ollama/models", env->home);
    if (out->hf_root && out->endpoint && out->ollama_root)
        return FT_OK;
    ft_hub_places_deinit(out);
    return ft_error_set(err, FT_NOMEM, "out of memory");
}

void ft_hub_places_deinit(ft_hub_places *places)
{
    free(places->hf_root);
    free(places->ollama_root);
    free(places->endpoint);
    *places = (ft_hub_places){0};
}

static ft_status own_folder(const ft_hub_env *env, const char *name, ft_error *err, char **out)
{
    *out = NULL;
    if (set(env->xdg_cache_home))
        *out = ft_cache_text("%s/foretoken/%s", env->xdg_cache_home, name);
    else if (set(env->home))
        *out = ft_cache_text("%s/.cache/foretoken/%s", env->home, name);
    else
        return ft_error_set(err, FT_INVALID, "neither XDG_CACHE_HOME nor HOME is set");
    return *out ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
}

ft_status ft_hub_offers_folder(const ft_hub_env *env, ft_error *err, char **out)
{
    return own_folder(env, "offers", err, out);
}

ft_status ft_hub_learnt_folder(const ft_hub_env *env, ft_error *err, char **out)
{
    return own_folder(env, "learnt", err, out);
}

ft_status ft_hub_packed_folder(const ft_hub_env *env, ft_error *err, char **out)
{
    return own_folder(env, "packed", err, out);
}
