/* SPDX-License-Identifier: Apache-2.0
 *
 * Where models are: what the environment says, with the defaults of the hub's programs and of
 * Ollama. */
#ifndef FT_HUB_PLACES_H
#define FT_HUB_PLACES_H

#include <stdbool.h>

#include "base/status.h"

/* Variables of the environment; NULL or "": not set. */
typedef struct ft_hub_env {
    const char *home;           /* HOME */
    const char *xdg_cache_home; /* XDG_CACHE_HOME */
    const char *hf_home;        /* HF_HOME */
    const char *hf_hub_cache;   /* HF_HUB_CACHE */
    const char *hf_hub_offline; /* HF_HUB_OFFLINE */
    const char *hf_endpoint;    /* HF_ENDPOINT */
    const char *hf_token;       /* HF_TOKEN */
    const char *ollama_models;  /* OLLAMA_MODELS */
} ft_hub_env;

typedef struct ft_hub_places {
    char *hf_root;     /* the hub's cache */
    char *ollama_root; /* Ollama's models */
    char *endpoint;    /* without '/' at its end */
    const char *token; /* borrowed from the environment; NULL: none */
    bool offline;      /* the hub is not to be asked */
} ft_hub_places;

/* The caller deinits *out. FT_INVALID: no variable says where the cache is, or HF_TOKEN has
 * characters that no token has; FT_NOMEM. On failure *out needs no deinit. */
FT_WARN_UNUSED ft_status ft_hub_places_init(const ft_hub_env *env, ft_error *err,
                                            ft_hub_places *out);
void ft_hub_places_deinit(ft_hub_places *places);

/* Where the drafts are kept that servers have offered. The caller frees *out. FT_INVALID: no
 * variable says where the cache is; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_hub_offers_folder(const ft_hub_env *env, ft_error *err, char **out);
/* The same of what edges have learnt (edge/kept.h). */
FT_WARN_UNUSED ft_status ft_hub_learnt_folder(const ft_hub_env *env, ft_error *err, char **out);
/* The same of packed weights (model/pack_cache.h). */
FT_WARN_UNUSED ft_status ft_hub_packed_folder(const ft_hub_env *env, ft_error *err, char **out);

#endif
