// SPDX-License-Identifier: Apache-2.0
// A model's packed file in a cache. What is there is as untrusted as any model file: it is loaded
// by the same reader, with the same checks and hashes, and must have the fingerprints of the model
// that was asked for. A file that fails is made anew, once. Stateless; one call is one thread.
#include "model/model_kept.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "model/pack_file.h"
#include "model/packed_file.h"
#include "model/vocab.h"

typedef struct keeper {
    const ft_model_opts *opts;
    const ft_opened *opened;
    char *path; /* of the packed file */
} keeper;

/* Bytes that loading would pack. */
static uint64_t bytes_to_pack(const ft_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->n; i++)
        bytes += ft_planned_is_packed(plan, &plan->weights[i]) && !plan->weights[i].stored
                     ? plan->weights[i].bytes
                     : 0;
    return bytes;
}

static bool goes_with_cache(const ft_model_opts *opts, const ft_model *planned)
{
    const bool devices = opts->devices && opts->devices->n > 0 && opts->n_gpu_layers != 0;
    return opts->cache && !opts->stream && !devices && !planned->info.packed_file &&
           bytes_to_pack(&planned->plan) > 0;
}

/* When and how long a file is: a fingerprint does not cover all values of a model. */
static uint64_t add_file(uint64_t hash, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return hash;
    const int64_t numbers[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    return ft_fnv64(hash, numbers, sizeof numbers);
}

static uint64_t key_of(const ft_model *planned, const ft_gguf *gguf)
{
    const ft_plan *plan = &planned->plan;
    const uint64_t of[] = {FT_PACKED_VERSION, planned->info.fingerprint.model,
                           planned->info.fingerprint.weights};
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, of, sizeof of);
    for (uint32_t k = 0; k < (gguf->parts ? gguf->parts->n : 1); k++)
        hash = add_file(hash, gguf->parts ? gguf->parts->fd[k] : gguf->fd);
    for (size_t i = 0; i < plan->n; i++) {
        const ft_planned *w = &plan->weights[i];
        const int64_t how[] = {ft_planned_is_packed(plan, w), w->type, w->n_in, w->n_out};
        hash = ft_fnv64(hash, how, sizeof how);
    }
    return hash;
}

/* ---- loading ---- */

/* It answers as if it had been loaded from the model's own file. */
static ft_status take_names(const keeper *k, ft_error *err, ft_model *model)
{
    const ft_model *planned = k->opened->planned;
    char *path = strdup(planned->path), *name = strdup(planned->name);
    if (!path || !name) {
        free(path);
        free(name);
        return ft_error_set(err, FT_NOMEM, "out of memory");
    }
    free(model->path);
    free(model->name);
    model->path = path;
    model->name = name;
    model->info = planned->info;
    return FT_OK;
}

static ft_status load(const keeper *k, ft_error *err, ft_model **out)
{
    ft_model_opts opts = *k->opts;
    opts.path = k->path;
    opts.cache = NULL;
    opts.map = true;
    opts.progress = (ft_progress){0};
    ft_status st = ft_model_load(&opts, err, out);
    if (st != FT_OK)
        return st;
    const ft_fingerprints *a = &(*out)->info.fingerprint,
                          *b = &k->opened->planned->info.fingerprint;
    if (a->model != b->model || a->weights != b->weights)
        st = ft_error_set(err, FT_CORRUPT, "%s: of another model", k->path);
    else
        st = take_names(k, err, *out);
    if (st == FT_OK)
        return st;
    ft_model_destroy(*out);
    *out = NULL;
    if (k->opts->vocab) {
        ft_vocab_destroy(*k->opts->vocab);
        *k->opts->vocab = NULL;
    }
    return st;
}

/* Of the packed file, from above: weights, keys, and what aligns them. */
static uint64_t file_bytes(const ft_opened *from)
{
    return from->planned->info.memory.bytes + from->gguf->data_offset +
           (from->planned->plan.n + 1) * FT_PACKED_ALIGNMENT;
}

static ft_status make(const keeper *k, ft_error *err)
{
    const ft_opened *from = k->opened;
    const ft_pack_file_opts pack = {.in = k->opts->path,
                                    .out = k->path,
                                    .choose = k->opts->choose,
                                    .progress = k->opts->progress};
    const int64_t began_us = ft_monotonic_us();
    const uint64_t bytes = file_bytes(from);
    ft_status st = ft_pack_cache_make_room(k->opts->cache, bytes, err);
    if (st == FT_OK)
        st = ft_model_pack_open(&pack, from->gguf, &from->planned->info.hp, from->sources, err);
    if (st != FT_OK && from->gguf->st != FT_OK)
        *err = *from->gguf->err;
    if (st == FT_OK)
        FT_LOGI("model", "packed weights are kept mb=%llu ms=%.0f file=%s",
                (unsigned long long)(bytes >> 20), (double)(ft_monotonic_us() - began_us) / 1e3,
                k->path);
    return st;
}

/* Makes the file, and loads it. */
static ft_status make_and_load(const keeper *k, ft_error *err, ft_model **out)
{
    const ft_status st = make(k, err);
    return st == FT_OK ? load(k, err, out) : st;
}

ft_model *ft_model_load_kept(const ft_model_opts *opts, const ft_opened *opened)
{
    keeper k = {opts, opened, NULL};
    ft_model *model = NULL;
    ft_error err = {0};
    if (!goes_with_cache(opts, opened->planned))
        return NULL;
    k.path = ft_pack_cache_path(opts->cache, key_of(opened->planned, opened->gguf));
    ft_status st = k.path ? load(&k, &err, &model) : ft_error_set(&err, FT_NOMEM, "out of memory");
    if (st == FT_OK)
        ft_pack_cache_touch(k.path);
    else if (st != FT_NOT_FOUND && st != FT_NOMEM)
        FT_LOGW("model", "kept packed weights are made anew why=\"%s\"", err.message);
    if (st != FT_OK && st != FT_NOMEM)
        st = make_and_load(&k, &err, &model);
    if (st != FT_OK)
        FT_LOGW("model", "packed weights are not kept: each start packs them why=\"%s\"",
                err.message);
    free(k.path);
    return model;
}
