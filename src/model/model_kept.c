// SPDX-License-Identifier: Apache-2.0
// A model's packed file in a cache. What is there is as untrusted as any model file: it is loaded
// by the same reader, with the same checks and hashes, and must say that it is of the file that was
// asked for. A file that fails is made anew. Stateless; one call is one thread.
#include "model/model_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "model/pack_file.h"
#include "model/packed_file.h"
#include "model/vocab.h"

/* ---- names ---- */

static bool goes_with_cache(const ft_model_opts *opts)
{
    const bool devices = opts->devices && opts->devices->n > 0 && opts->n_gpu_layers != 0;
    return opts->cache && !opts->stream && !devices && !opts->no_pack && !opts->no_repack;
}

/* Which file of the system, and which of its states. (The number of a device may be another one
 * after the next boot.) */
static uint64_t add_file(uint64_t hash, const struct stat *info)
{
    const int64_t numbers[] = {(int64_t)info->st_ino, info->st_size,        info->st_mtim.tv_sec,
                               info->st_mtim.tv_nsec, info->st_ctim.tv_sec, info->st_ctim.tv_nsec};
    return ft_fnv64(hash, numbers, sizeof numbers);
}

/* Types that are packed on this machine, with the format. (Our own choice, engine/products.h, does
 * not look at shapes.) */
static uint64_t begin_key(const ft_model_opts *opts)
{
    const int64_t n_in = 256, n_out = FT_PACK_ROWS;
    uint64_t types[] = {FT_PACKED_VERSION, 0};
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type)t;
        const bool packed =
            ft_pack_fits(type, n_in, n_out) && (!opts->choose || opts->choose(type, n_in, n_out));
        types[1] |= (uint64_t)packed << t;
    }
    return ft_fnv64(FT_FNV64_INIT, types, sizeof types);
}

uint64_t ft_kept_key(const ft_model_opts *opts)
{
    const size_t room = strlen(opts->path) + 1;
    char *path = goes_with_cache(opts) ? malloc(room) : NULL;
    struct stat info;
    uint64_t hash = path ? begin_key(opts) : 0;
    unsigned first = 1, n = 1;
    if (!path)
        return 0;
    memcpy(path, opts->path, room);
    char *end = room > FT_GGUF_PART_SUFFIX ? path + room - 1 - FT_GGUF_PART_SUFFIX : path;
    if (sscanf(end, "-%5u-of-%5u.gguf", &first, &n) != 2)
        n = 1;
    for (unsigned k = 1; k <= n && hash; k++) {
        if (n > 1)
            snprintf(end, FT_GGUF_PART_SUFFIX + 1, "-%05u-of-%05u.gguf", k % 100000, n % 100000);
        hash = stat(path, &info) == 0 ? add_file(hash, &info) : 0;
    }
    free(path);
    return hash;
}

/* The same of the files that were opened. */
static uint64_t key_of_opened(const ft_model_opts *opts, const ft_gguf *gguf)
{
    uint64_t hash = begin_key(opts);
    struct stat info;
    for (uint32_t k = 0; k < (gguf->parts ? gguf->parts->n : 1) && hash; k++)
        hash = fstat(gguf->parts ? gguf->parts->fd[k] : gguf->fd, &info) == 0
                   ? add_file(hash, &info)
                   : 0;
    return hash;
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

/* A packed file. */
typedef struct packed_file {
    const char *path;
    uint64_t key;
    ft_load_fn *load;
} packed_file;

static ft_status load_packed(const ft_model_opts *opts, const packed_file *file, ft_error *err,
                             ft_model **out)
{
    ft_model_opts kept = *opts;
    kept.path = file->path;
    kept.cache = NULL;
    kept.map = true;
    kept.of = file->key;
    kept.progress = (ft_progress){0};
    ft_status st = file->load(&kept, err, out);
    if (st == FT_OK)
        st = take_names(opts, file->path, err, *out);
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

ft_model *ft_kept_load(const ft_model_opts *opts, uint64_t key, ft_load_fn *load)
{
    char *path = ft_pack_cache_path(opts->cache, key);
    ft_model *model = NULL;
    ft_error err = {0};
    const packed_file file = {path, key, load};
    ft_status st = path ? load_packed(opts, &file, &err, &model) : FT_NOMEM;
    if (st == FT_OK)
        ft_pack_cache_touch(path);
    else if (st != FT_NOT_FOUND && st != FT_NOMEM)
        FT_LOGW("model", "kept packed weights are made anew why=\"%s\"", err.message);
    free(path);
    return model;
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

ft_model *ft_kept_make(const ft_model_opts *opts, uint64_t key, const ft_opened *opened)
{
    ft_model *model = NULL;
    ft_error err = {0};
    /* A file that was replaced since the key was made is kept by the next start. */
    if (opened->planned->info.packed_file || !packs_any(&opened->planned->plan) ||
        key_of_opened(opts, opened->gguf) != key)
        return NULL;
    char *path = ft_pack_cache_path(opts->cache, key);
    ft_status st =
        path ? make(opts, path, key, opened, &err) : ft_error_set(&err, FT_NOMEM, "out of memory");
    if (st == FT_OK)
        st = load_packed(opts, &(packed_file){path, key, opened->load}, &err, &model);
    if (st != FT_OK)
        FT_LOGW("model", "packed weights are not kept: each start packs them why=\"%s\"",
                err.message);
    free(path);
    return model;
}
