// SPDX-License-Identifier: Apache-2.0
// A model's packed file in a cache. What is there is as untrusted as any model file: it is loaded
// by the same reader, with the same checks and hashes, and must say that it is of the content that
// was asked for. A file that fails is made anew. The only state is a lock; any thread.
#include "model/model_kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "model/content.h"
#include "model/pack_file.h"
#include "model/packed_file.h"
#include "model/vocab.h"

/* ---- names ---- */

static bool goes_with_cache(const ft_model_opts *opts)
{
    const bool devices = opts->devices && opts->devices->n > 0 && opts->n_gpu_layers != 0;
    return opts->cache && !opts->stream && !devices && !opts->no_pack && !opts->no_repack;
}

/* The content, the types that are packed on this machine, and the format. (Our own choice,
 * engine/products.h, does not look at shapes.) */
static uint64_t make_key(const ft_model_opts *opts, uint64_t content)
{
    const int64_t n_in = 256, n_out = FT_PACK_ROWS;
    uint64_t parts[] = {FT_PACKED_VERSION, 0, content};
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type)t;
        const bool packed =
            ft_pack_fits(type, n_in, n_out) && (!opts->choose || opts->choose(type, n_in, n_out));
        parts[1] |= (uint64_t)packed << t;
    }
    return ft_fnv64(FT_FNV64_INIT, parts, sizeof parts);
}

/* ---- loading ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* It answers as if it had been loaded from the model's own file. */
static ft_status take_names(const ft_model_opts *opts, const char *from, ft_error *err,
                            ft_model *model)
{
    const bool nameless = strcmp(model->name, base_of(from)) == 0;
    char *path = strdup(opts->path), *name = strdup(nameless ? base_of(opts->path) : model->name);
    if (!path || !name) {
        free(path);
        free(name);
        return ft_error_set(err, FT_NOMEM, "out of memory");
    }
    free(model->path);
    free(model->name);
    model->path = path;
    model->name = name;
    return FT_OK;
}

static ft_status load_packed(const ft_kept *from, uint64_t key, const char *path, ft_error *err,
                             ft_model **out)
{
    const ft_model_opts *opts = from->opts;
    ft_model_opts kept = *opts;
    kept.path = path;
    kept.cache = NULL;
    kept.map = true;
    kept.of = key;
    kept.progress = (ft_progress){0};
    ft_status st = from->load(&kept, err, out);
    if (st == FT_OK)
        st = take_names(opts, path, err, *out);
    if (st == FT_OK)
        return st;
    ft_model_destroy(*out);
    *out = NULL;
    if (opts->vocab) {
        ft_vocab_destroy(*opts->vocab);
        *opts->vocab = NULL;
    }
    return st;
}

/* The file was used. The folder's bound may be lower now than when its files were made. */
static void keep_bound(const ft_pack_cache *cache, const char *path)
{
    ft_error err = {0};
    ft_pack_cache_touch(path);
    if (ft_pack_cache_make_room(cache, 0, &err) != FT_OK)
        FT_LOGW("model", "packed weights' folder is not bounded why=\"%s\"", err.message);
}

static ft_model *load_if_there(const ft_kept *kept, uint64_t key)
{
    char *path = ft_pack_cache_path(kept->opts->cache, key);
    ft_model *model = NULL;
    ft_error err = {0};
    ft_status st = path ? load_packed(kept, key, path, &err, &model) : FT_NOMEM;
    if (st == FT_OK)
        keep_bound(kept->opts->cache, path);
    else if (st != FT_NOT_FOUND && st != FT_NOMEM)
        FT_LOGW("model", "kept packed weights are made anew why=\"%s\"", err.message);
    free(path);
    return model;
}

ft_model *ft_kept_load(ft_kept *kept)
{
    const ft_model_opts *opts = kept->opts;
    kept->state = goes_with_cache(opts) ? ft_content_state(opts->path) : 0;
    kept->content = kept->state ? ft_content_recall(opts->cache->folder, kept->state) : 0;
    return kept->content ? load_if_there(kept, make_key(opts, kept->content)) : NULL;
}

/* ---- making ---- */

static bool packs_any(const ft_plan *plan)
{
    size_t i = 0;
    while (i < plan->n &&
           (!ft_planned_is_packed(plan, &plan->weights[i]) || plan->weights[i].stored))
        i++;
    return i < plan->n;
}

/* Of the packed file, from above: weights, keys, and what aligns them. */
static uint64_t file_bytes(const ft_opened *from)
{
    return from->planned->info.memory.bytes + from->gguf->data_offset +
           (from->planned->plan.n + 1) * FT_PACKED_ALIGNMENT;
}

static ft_status make(const ft_model_opts *opts, const char *path, uint64_t key,
                      const ft_opened *from, ft_error *err)
{
    const ft_pack_file_opts pack = {.in = opts->path,
                                    .out = path,
                                    .choose = opts->choose,
                                    .of = key,
                                    .progress = opts->progress};
    const int64_t began_us = ft_monotonic_us();
    const uint64_t bytes = file_bytes(from);
    ft_status st = ft_pack_cache_make_room(opts->cache, bytes, err);
    if (st == FT_OK)
        st = ft_model_pack_open(&pack, from->gguf, &from->planned->info.hp, from->sources, err);
    if (st != FT_OK && from->gguf->st != FT_OK && from->gguf->err)
        *err = *from->gguf->err;
    if (st == FT_OK)
        FT_LOGI("model", "packed weights are kept mb=%llu ms=%.0f file=%s",
                (unsigned long long)(bytes >> 20), (double)(ft_monotonic_us() - began_us) / 1e3,
                path);
    return st;
}

/* Reads the files. 0: that failed, or is no use, as nothing can be kept. */
static uint64_t find_content(const ft_model_opts *opts, const ft_gguf *gguf, ft_error *err)
{
    const char *folder = opts->cache->folder;
    uint64_t content = 0;
    if (access(folder, W_OK) != 0)
        ft_error_set(err, FT_IO, "%s: %s", folder, strerror(errno));
    else if (ft_content_hash(gguf, &opts->progress, err, &content) == FT_OK)
        ft_content_remember(folder, ft_content_state_of(gguf), content);
    return content;
}

static ft_model *make_and_load(const ft_kept *kept, uint64_t key, const ft_opened *opened,
                               ft_error *err)
{
    char *path = ft_pack_cache_path(kept->opts->cache, key);
    ft_model *model = NULL;
    ft_status st = path ? make(kept->opts, path, key, opened, err)
                        : ft_error_set(err, FT_NOMEM, "out of memory");
    if (st == FT_OK && load_packed(kept, key, path, err, &model) != FT_OK)
        model = NULL;
    free(path);
    return model;
}

static ft_model *make_alone(const ft_kept *kept, const ft_opened *opened)
{
    const ft_model_opts *opts = kept->opts;
    ft_error err = {0};
    if (opened->planned->info.packed_file || !packs_any(&opened->planned->plan))
        return NULL;
    const bool known = kept->content && ft_content_state_of(opened->gguf) == kept->state;
    const uint64_t content = known ? kept->content : find_content(opts, opened->gguf, &err),
                   key = content ? make_key(opts, content) : 0;
    ft_model *model = key && !known ? load_if_there(kept, key) : NULL;
    if (key && !model)
        model = make_and_load(kept, key, opened, &err);
    if (!model)
        FT_LOGW("model", "packed weights are not kept: each start packs them why=\"%s\"",
                err.message);
    return model;
}

/* Loads of one process make their files one after another: each must see what the others take of
 * the folder's bound. */
ft_model *ft_kept_make(const ft_kept *kept, const ft_opened *opened)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    if (!goes_with_cache(kept->opts)) /* so it is with the file that is made: it is loaded below */
        return NULL;
    pthread_mutex_lock(&making);
    ft_model *model = make_alone(kept, opened);
    pthread_mutex_unlock(&making);
    return model;
}
