// SPDX-License-Identifier: Apache-2.0
// Finding and fetching models by name. No state.
#include "hub/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "hub/answer.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/get.h"
#include "hub/name.h"
#include "hub/ollama.h"
#include "model/gguf_file.h"

/* One call: the name, and where to look. */
typedef struct call {
    const ft_hub_opts *opts;
    ft_hub_name name;
    ft_hub_places places;
} call;

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "out of memory");
}

static char *snapshot_path(const ft_hub_places *places, const char *repo, const char *commit,
                           const char *file)
{
    char *folder = ft_cache_folder(places->hf_root, repo);
    char *path = folder ? ft_cache_text("%s/snapshots/%s/%s", folder, commit, file) : NULL;
    free(folder);
    return path;
}

/* ---- the hub's answer ---- */

static ft_status answer_begin(void *ctx, const char *content_range, ft_error *err)
{
    return FT_OK;
}

static ft_status answer_data(void *ctx, const void *data, size_t n, ft_error *err)
{
    ft_buf *text = ctx;
    if (n > FT_HUB_ANSWER_MAX - text->len)
        return ft_error_set(err, FT_CORRUPT, "the hub's answer has more than %d bytes",
                            FT_HUB_ANSWER_MAX);
    return ft_buf_append(text, data, n) == FT_OK ? FT_OK : no_memory(err);
}

/* The repository's newest commit and its files. */
static ft_status ask(const call *c, ft_error *err, ft_hub_files *out)
{
    ft_buf text = {0};
    ft_error why = {0};
    char *url = ft_cache_text("%s/api/models/%s/revision/main?blobs=true", c->places.endpoint,
                              c->name.repo);
    const ft_get get = {.url = url,
                        .endpoint = c->places.endpoint,
                        .token = c->places.token,
                        .begin = answer_begin,
                        .data = answer_data,
                        .ctx = &text};
    *out = (ft_hub_files){0};
    ft_status status = url ? ft_get_run(&get, &why) : no_memory(&why);
    if (status == FT_NOT_FOUND)
        ft_error_set(err, status, "%s has no such repository", c->places.endpoint);
    else if (status != FT_OK)
        ft_error_set(err, status, "%s", why.message);
    else if ((status = ft_hub_answer_read(ft_buf_str(&text), text.len, &why, out)) != FT_OK)
        ft_error_set(err, status, "the hub's answer is not as it should be: %s", why.message);
    ft_buf_deinit(&text);
    free(url);
    return status;
}

/* ---- fetching ---- */

static uint64_t bytes_of(const ft_hub_files *files, ft_hub_set set)
{
    uint64_t bytes = 0;
    for (size_t i = set.first; i < set.first + set.n; i++)
        bytes += files->file[i].bytes;
    return bytes;
}

/* Into the cache, checked, and linked. */
static ft_status ensure_file(const call *c, const ft_download *how, const ft_hub_file *file,
                             ft_error *err, bool *fetched)
{
    ft_error why = {0};
    char *folder = ft_cache_folder(c->places.hf_root, c->name.repo);
    char *blob = folder ? ft_cache_text("%s/blobs/%s", folder, file->sha256) : NULL;
    ft_status status = blob ? FT_OK : no_memory(&why);
    if (status == FT_OK && !file->sha256[0])
        status = ft_error_set(&why, FT_UNSUPPORTED, "the hub does not say its SHA-256");
    if (status == FT_OK)
        status = ft_download_file(how, file, &why, fetched);
    if (status == FT_OK)
        status = ft_gguf_check_file(blob, &why);
    if (status == FT_OK)
        status = ft_cache_link(folder, how->commit, file, &why);
    if (status != FT_OK)
        ft_error_set(err, status, "%.120s: %s", file->path, why.message);
    free(blob);
    free(folder);
    return status;
}

/* After a commit's files are there, refs/main may say so. */
static ft_status fetch_set(const call *c, const ft_hub_files *files, ft_hub_set set, ft_error *err,
                           ft_hub_model *out)
{
    ft_download how = {.root = c->places.hf_root,
                       .repo = c->name.repo,
                       .endpoint = c->places.endpoint,
                       .token = c->places.token,
                       .commit = files->commit,
                       .progress = c->opts->progress,
                       .of_all = bytes_of(files, set)};
    const ft_hub_file *first = &files->file[set.first];
    char names[200];
    ft_status status = FT_OK;
    *out = (ft_hub_model){.n_files = set.n, .bytes = how.of_all};
    for (size_t i = 0; status == FT_OK && i < set.n; i++) {
        bool fetched = false;
        status = ensure_file(c, &how, &first[i], err, &fetched);
        out->fetched = out->fetched || fetched;
        how.before += first[i].bytes;
    }
    ft_progress_report(&how.progress, how.of_all, how.of_all);
    if (status == FT_NOT_FOUND) {
        ft_hub_files_names(files, NULL, names, sizeof names);
        ft_error_set(err, status, "HTTP 404: the file is gone; the repository has: %s", names);
    }
    char *folder = ft_cache_folder(c->places.hf_root, c->name.repo);
    if (status == FT_OK)
        status = folder ? ft_cache_set_main(folder, files->commit, err) : no_memory(err);
    free(folder);
    snprintf(out->sha256, sizeof out->sha256, "%s", first->sha256);
    snprintf(out->commit, sizeof out->commit, "%s", files->commit);
    if (status == FT_OK &&
        !(out->path = snapshot_path(&c->places, c->name.repo, files->commit, first->path)))
        status = no_memory(err);
    return status;
}

static ft_status pull_hf(const call *c, ft_error *err, ft_hub_model *out)
{
    ft_hub_files files;
    ft_hub_set set;
    if (c->places.offline)
        return ft_error_set(err, FT_PRECONDITION,
                            "HF_HUB_OFFLINE is set: the hub is not asked for what the cache lacks");
    ft_status status = ask(c, err, &files);
    if (status != FT_OK)
        return status;
    status = ft_hub_files_choose(&files, c->name.pick, err, &set);
    if (status == FT_OK)
        status = fetch_set(c, &files, set, err, out);
    ft_hub_files_deinit(&files);
    return status;
}

static ft_status pull_ollama(const call *c, ft_error *err, ft_hub_model *out)
{
    ft_ollama_layer layer;
    ft_status status =
        ft_ollama_find(c->places.ollama_root, c->name.repo, c->name.pick, err, &layer, &out->path);
    if (status != FT_OK)
        return status;
    status = ft_ollama_check(out->path, &layer, &c->opts->progress, err);
    if (status == FT_OK)
        status = ft_gguf_check_file(out->path, err);
    out->n_files = 1;
    out->bytes = layer.bytes;
    snprintf(out->sha256, sizeof out->sha256, "%s", layer.sha256);
    return status;
}

/* ---- by name ---- */

static ft_status call_init(const ft_hub_opts *opts, const char *name, ft_error *err, call *out)
{
    *out = (call){.opts = opts};
    ft_status status = ft_hub_name_parse(name, err, &out->name);
    if (status == FT_OK && out->name.kind != FT_HUB_PATH)
        status = ft_hub_places_init(&opts->env, err, &out->places);
    return status;
}

/* Puts the name before the message; what came from outside is made printable. */
static ft_status named(const char *name, const ft_error *why, ft_error *err)
{
    ft_error_set(err, why->code, "%.160s: %s", name, why->message);
    if (err)
        ft_utf8_line(err->message);
    return why->code;
}

ft_status ft_hub_pull(const ft_hub_opts *opts, const char *name, ft_error *err, ft_hub_model *out)
{
    call c;
    ft_error why = {0};
    *out = (ft_hub_model){0};
    ft_status status = call_init(opts, name, err, &c);
    if (status != FT_OK)
        return status;
    if (c.name.kind == FT_HUB_PATH)
        status =
            ft_error_set(&why, FT_INVALID, "this is a path: a name begins with hf: or ollama:");
    else
        status = c.name.kind == FT_HUB_HF ? pull_hf(&c, &why, out) : pull_ollama(&c, &why, out);
    if (status != FT_OK) {
        free(out->path);
        *out = (ft_hub_model){0};
        named(name, &why, err);
    }
    ft_hub_places_deinit(&c.places);
    return status;
}

/* Looks in the cache. FT_NOT_FOUND: it is not there. */
static ft_status find_hf(const call *c, ft_error *err, char **path)
{
    ft_hub_files files;
    ft_hub_set set;
    char *folder = ft_cache_folder(c->places.hf_root, c->name.repo);
    ft_status status = folder ? ft_cache_read(folder, err, &files) : no_memory(err);
    free(folder);
    if (status != FT_OK)
        return status;
    status = ft_hub_files_choose(&files, c->name.pick, err, &set);
    if (status == FT_OK && !(*path = snapshot_path(&c->places, c->name.repo, files.commit,
                                                   files.file[set.first].path)))
        status = no_memory(err);
    ft_hub_files_deinit(&files);
    return status;
}

ft_status ft_hub_find(const ft_hub_opts *opts, const char *name, ft_error *err, char **path)
{
    call c;
    ft_error why = {0};
    ft_ollama_layer layer;
    ft_hub_model model;
    *path = NULL;
    ft_status status = call_init(opts, name, err, &c);
    if (status != FT_OK)
        return status;
    if (c.name.kind == FT_HUB_PATH)
        return (*path = strdup(name)) ? FT_OK : no_memory(err);
    status = c.name.kind == FT_HUB_HF ? find_hf(&c, &why, path)
                                      : ft_ollama_find(c.places.ollama_root, c.name.repo,
                                                       c.name.pick, &why, &layer, path);
    ft_hub_places_deinit(&c.places);
    if (status == FT_NOT_FOUND && c.name.kind == FT_HUB_HF) {
        status = ft_hub_pull(opts, name, err, &model);
        *path = model.path;
    } else if (status != FT_OK) {
        named(name, &why, err);
    }
    if (status == FT_OK)
        FT_LOGI("hub", "model=%s path=%s", name, *path);
    return status;
}
