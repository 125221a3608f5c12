/* SPDX-License-Identifier: Apache-2.0
 *
 * Models by name: hf:ORG/REPO[:QUANT|:FILE] (a Hugging Face hub and its cache), ollama:NAME[:TAG]
 * (what Ollama has on this disk), or a path. Any thread. Messages begin with the name. */
#ifndef FT_HUB_HUB_H
#define FT_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "hub/files.h"
#include "hub/places.h"

typedef struct ft_hub_opts {
    ft_hub_env env;
    ft_progress progress; /* in bytes of all files of a model that is fetched or checked */
} ft_hub_opts;

typedef struct ft_hub_model {
    char *path;                      /* of its file, or of the first part */
    char sha256[FT_SHA256_HEX_SIZE]; /* of that */
    char commit[FT_HUB_COMMIT_SIZE]; /* of its repository; "": it has none */
    size_t n_files;
    uint64_t bytes; /* of all files */
    bool fetched;   /* something of it came from the hub, not from the disk */
} ft_hub_model;

/* Finds a model's file, for programs that are about to load it. What is in a cache is taken from
 * there, and its bytes are not read; the hub is asked only for what is not. A path is taken as it
 * is. The caller frees *path. Errors as ft_hub_pull. */
FT_WARN_UNUSED ft_status ft_hub_find(const ft_hub_opts *opts, const char *name, ft_error *err,
                                     char **path);

/* Asks the hub for the newest commit, fetches what is missing, and checks SHA-256 and GGUF
 * structure of all files of the model. For ollama: only the check. The caller frees out->path.
 * FT_INVALID: the name is none, is a path, or means several models; FT_PRECONDITION: the hub may
 * not be asked (HF_HUB_OFFLINE); FT_CORRUPT: wrong bytes (a wrong hash: the file is deleted, except
 * Ollama's); FT_UNSUPPORTED; FT_IO; FT_NOMEM; and as ft_get_run. */
FT_WARN_UNUSED ft_status ft_hub_pull(const ft_hub_opts *opts, const char *name, ft_error *err,
                                     ft_hub_model *out);

typedef struct ft_hub_entry {
    char *name; /* one that ft_hub_find takes */
    char *path; /* of its file, or of the first part */
    size_t n_files;
    uint64_t bytes;
} ft_hub_entry;

typedef struct ft_hub_list {
    ft_hub_entry *entry; /* [n], sorted by name */
    size_t n;
} ft_hub_list;

/* Lists the models of both caches. What is damaged there is left out, with a warning in the log.
 * The caller deinits *out. FT_INVALID (ft_hub_places_init), FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_hub_list_read(const ft_hub_env *env, ft_error *err, ft_hub_list *out);
void ft_hub_list_deinit(ft_hub_list *list);

#endif
