// SPDX-License-Identifier: Apache-2.0
// What the caches hold. No state.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/name.h"
#include "hub/ollama.h"

typedef struct listing {
    ft_hub_places places;
    ft_hub_list list;
} listing;

/* Takes name and path, which may be NULL. */
static ft_status add(ft_hub_list *list, char *name, char *path, size_t n_files, uint64_t bytes)
{
    ft_hub_entry *grown = realloc(list->entry, (list->n + 1) * sizeof *grown);
    if (grown)
        list->entry = grown;
    if (!grown || !name || !path) {
        free(name);
        free(path);
        return FT_NOMEM;
    }
    grown[list->n++] = (ft_hub_entry){name, path, n_files, bytes};
    return FT_OK;
}

/* The same, if the name is one: folders may have any names. */
static ft_status add_named(ft_hub_list *list, char *name, char *path, uint64_t bytes)
{
    ft_hub_name parsed;
    if (!name || ft_hub_name_parse(name, NULL, &parsed) == FT_OK)
        return add(list, name, path, 1, bytes);
    free(name);
    free(path);
    return FT_OK;
}

static ft_status add_repo(listing *l, const char *folder, const char *repo)
{
    ft_hub_files files;
    ft_error why = {0};
    ft_status status = ft_cache_read(folder, &why, &files);
    if (status != FT_OK && status != FT_NOT_FOUND && status != FT_NOMEM)
        FT_LOGW("hub", "repo=%s left out: %s", repo, why.message);
    if (status != FT_OK)
        return status == FT_NOMEM ? status : FT_OK;
    for (size_t i = 0; status == FT_OK && i < files.n; i++) {
        const ft_hub_set set = ft_hub_files_at(&files, i);
        uint64_t bytes = 0;
        for (size_t k = 0; k < set.n; k++)
            bytes += files.file[i + k].bytes;
        if (set.n > 0)
            status =
                add(&l->list, ft_cache_text("hf:%s:%s", repo, files.file[i].path),
                    ft_cache_text("%s/snapshots/%s/%s", folder, files.commit, files.file[i].path),
                    set.n, bytes);
    }
    ft_hub_files_deinit(&files);
    return status;
}

/* A folder of the hub's cache, models--ORG--REPO. */
static ft_status add_folder(listing *l, const char *name)
{
    ft_hub_name parsed;
    const char *org = name + strlen("models--"), *repo = strstr(org, "--");
    char *hf = repo ? ft_cache_text("hf:%.*s/%s", (int)(repo - org), org, repo + 2) : NULL;
    char *folder = hf ? ft_cache_text("%s/%s", l->places.hf_root, name) : NULL;
    ft_status status = repo && !folder ? FT_NOMEM : FT_OK;
    if (folder && ft_hub_name_parse(hf, NULL, &parsed) == FT_OK)
        status = add_repo(l, folder, parsed.repo);
    free(folder);
    free(hf);
    return status;
}

static ft_status add_ollama(void *ctx, const char *repo, const char *tag)
{
    listing *l = ctx;
    ft_error why = {0};
    ft_ollama_layer layer;
    char *path;
    ft_status status = ft_ollama_find(l->places.ollama_root, repo, tag, &why, &layer, &path);
    if (status == FT_OK) {
        static const char *const usual[] = {"registry.ollama.ai/library/", "registry.ollama.ai/"};
        const char *shown = repo;
        for (size_t i = 0; i < 2 && shown == repo; i++)
            if (strncmp(repo, usual[i], strlen(usual[i])) == 0)
                shown = repo + strlen(usual[i]);
        return add_named(&l->list, ft_cache_text("ollama:%s:%s", shown, tag), path, layer.bytes);
    }
    if (status != FT_NOMEM)
        FT_LOGW("hub", "model=%s:%s left out: %s", repo, tag, why.message);
    return status == FT_NOMEM ? status : FT_OK;
}

static bool name_before(const void *ctx, const void *a, const void *b)
{
    const ft_hub_entry *x = a, *y = b;
    return strcmp(x->name, y->name) < 0;
}

ft_status ft_hub_list_read(const ft_hub_env *env, ft_error *err, ft_hub_list *out)
{
    listing l = {0};
    *out = (ft_hub_list){0};
    ft_status status = ft_hub_places_init(env, err, &l.places);
    if (status != FT_OK)
        return status;
    DIR *dir = opendir(l.places.hf_root);
    for (struct dirent *entry; status == FT_OK && dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, "models--", strlen("models--")) == 0)
            status = add_folder(&l, entry->d_name);
    if (dir)
        closedir(dir);
    if (status == FT_OK)
        status = ft_ollama_each(l.places.ollama_root, add_ollama, &l);
    if (status == FT_OK) {
        ft_sort(l.list.entry, l.list.n, sizeof *l.list.entry, name_before, NULL);
        *out = l.list;
    } else {
        ft_hub_list_deinit(&l.list);
        ft_error_set(err, status, "out of memory");
    }
    ft_hub_places_deinit(&l.places);
    return status;
}

void ft_hub_list_deinit(ft_hub_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->entry[i].name);
        free(list->entry[i].path);
    }
    free(list->entry);
    *list = (ft_hub_list){0};
}
