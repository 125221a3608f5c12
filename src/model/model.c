// SPDX-License-Identifier: Apache-2.0
// Loads a model: plans which tensors become which weights and where each goes, allocates a ggml
// context and a buffer for each buffer type, then reads the file into them. Invariants: a weight of
// a repacked buffer type is written once and whole (its set_tensor requires that). A weight in our
// own layout is marked as packed. The token embedding is in plain memory, because ggml_get_rows on
// a repacked tensor gives garbage, or in our layout if that has rows. A loaded model is immutable.
// It computes nothing.
#include "model/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/fingerprint.h"
#include "model/gguf_file.h"
#include "model/hparams.h"
#include "model/pack.h"
#include "model/placement.h"
#include "model/vocab_impl.h"

enum { MAX_JOINED = 3, PLACES = FT_PLACE_MAX + FT_DEVICES_MAX };

/* A weight to make: from one tensor of the file, or from several joined along the rows. */
typedef struct weight {
    struct ggml_tensor **slot; /* where the model keeps it */
    const char *name;          /* of the first part, borrowed from the file */
    int64_t part[MAX_JOINED];  /* [n_parts] tensors of the file */
    int n_parts;
    size_t place; /* index into the model's types */
    bool in_layer;
} weight;

struct ft_model {
    ft_model_info info;
    ft_weights weights;
    ft_placer placer;
    ft_devices devices;
    uint8_t *where; /* [n_layer + 1], as ft_devices_split has it */
    uint8_t where_embedding;
    /* of each place: the placer's, then the devices'; NULL where nothing is placed */
    struct ggml_context *ctx[PLACES];
    ggml_backend_buffer_t buffer[PLACES];
    char *path, *name; /* name: in full; info has its beginning */
};

typedef struct loader {
    ft_model *model;
    const ft_model_opts *opts;
    ft_error *err;
    ft_gguf gguf;
    ft_sources src;
    weight *weights; /* [n], room for all */
    size_t n;
    struct ggml_tensor **head; /* the slot of the output head's matrix */
    uint32_t where;            /* of what is being planned: 0 for the CPU, else 1 + a device */
    void *staging;
    size_t staging_bytes;
} loader;

static enum ggml_type type_of(const loader *l, int64_t id)
{
    return gguf_get_tensor_type(l->gguf.ctx, id);
}

static int64_t dim_of(const loader *l, int64_t id, int axis)
{
    return gguf_get_tensor_ne(l->gguf.ctx, id)[axis];
}

/* Every tensor of a model has at most two dimensions. */
static uint64_t elements_of(const loader *l, int64_t id)
{
    return (uint64_t)dim_of(l, id, 0) * (uint64_t)dim_of(l, id, 1);
}

static size_t place_plain(const loader *l)
{
    return l->where ? l->model->placer.n + l->where - 1 : ft_place_plain(&l->model->placer);
}

static size_t place_matrix(const loader *l, const int64_t *ids, int n)
{
    int64_t rows = 0;
    if (l->where)
        return place_plain(l);
    for (int i = 0; i < n; i++)
        rows += dim_of(l, ids[i], 1);
    return ft_place_matrix(&l->model->placer, type_of(l, ids[0]), dim_of(l, ids[0], 0), rows);
}

static weight *add_weight(loader *l, struct ggml_tensor **slot, const int64_t *ids, int n,
                          size_t place)
{
    weight *w = &l->weights[l->n++];
    *w = (weight){.slot = slot,
                  .name = gguf_get_tensor_name(l->gguf.ctx, ids[0]),
                  .n_parts = n,
                  .place = place};
    memcpy(w->part, ids, (size_t)n * sizeof *ids);
    return w;
}

static void add_vector(loader *l, struct ggml_tensor **slot, int64_t id)
{
    if (id >= 0)
        add_weight(l, slot, &id, 1, place_plain(l));
}

static void add_matrix(loader *l, struct ggml_tensor **slot, int64_t id)
{
    add_weight(l, slot, &id, 1, place_matrix(l, &id, 1))->in_layer = true;
}

/* Joins parts into one weight if they have one type and no part would lose a faster place by it.
 * Otherwise each part becomes a weight. */
static void add_joined(loader *l, struct ggml_tensor **joined, struct ggml_tensor **const slots[],
                       const int64_t *ids, int n)
{
    size_t place = place_matrix(l, ids, n);
    bool join = true;
    for (int i = 0; i < n; i++)
        join = join && type_of(l, ids[i]) == type_of(l, ids[0]) &&
               place <= place_matrix(l, &ids[i], 1); /* places are ordered, fastest first */
    if (join)
        add_weight(l, joined, ids, n, place)->in_layer = true;
    for (int i = 0; i < n && !join; i++)
        add_matrix(l, slots[i], ids[i]);
}

static void plan_layer(loader *l, ft_layer *layer, const int64_t *src)
{
    struct ggml_tensor **const qkv[] = {&layer->wq, &layer->wk, &layer->wv};
    struct ggml_tensor **const gate_up[] = {&layer->wgate, &layer->wup};
    add_vector(l, &layer->attn_norm, src[FT_PART_ATTN_NORM]);
    add_joined(l, &layer->wqkv, qkv, &src[FT_PART_Q], 3);
    add_vector(l, &layer->bq, src[FT_PART_BQ]);
    add_vector(l, &layer->bk, src[FT_PART_BK]);
    add_vector(l, &layer->bv, src[FT_PART_BV]);
    add_vector(l, &layer->q_norm, src[FT_PART_Q_NORM]);
    add_vector(l, &layer->k_norm, src[FT_PART_K_NORM]);
    add_matrix(l, &layer->wo, src[FT_PART_O]);
    add_vector(l, &layer->bo, src[FT_PART_BO]);
    add_vector(l, &layer->ffn_norm, src[FT_PART_FFN_NORM]);
    add_joined(l, &layer->wgate_up, gate_up, &src[FT_PART_GATE], 2);
    add_matrix(l, &layer->wdown, src[FT_PART_DOWN]);
    add_vector(l, &layer->rope_freqs, l->src.rope_freqs);
}

/* A tied output head gets a copy of its own only in a faster place, or on another device. */
static void plan_head(loader *l, size_t embedding)
{
    ft_weights *w = &l->model->weights;
    int64_t id = l->src.output >= 0 ? l->src.output : l->src.tok_embd;
    l->where = ft_model_where_head(l->model);
    size_t place = place_matrix(l, &id, 1);
    l->head = l->src.output >= 0 || place != embedding ? &w->output : &w->tok_embd;
    if (l->head == &w->output)
        add_weight(l, l->head, &id, 1, place);
    add_vector(l, &w->output_norm, l->src.output_norm);
}

/* Rows of the embedding are looked up on the first layer's device, if all layers are on devices and
 * that device can do it; otherwise on the CPU. */
static uint8_t choose_embedding(const loader *l)
{
    const ft_model *m = l->model;
    uint8_t where = m->where[m->info.hp.n_layer] ? m->where[0] : 0;
    return where && ft_device_has_rows(m->devices.dev[where - 1], type_of(l, l->src.tok_embd),
                                       m->info.hp.n_embd)
               ? where
               : 0;
}

/* In plain memory. But if a tied output head is packed in a layout whose rows can be looked up, the
 * embedding shares it. */
static size_t place_embedding(const loader *l)
{
    bool one = l->src.output < 0 && ft_model_where_head(l->model) == 0 && l->where == 0 &&
               ft_pack_has_rows(type_of(l, l->src.tok_embd));
    size_t place = place_matrix(l, &l->src.tok_embd, 1);
    return one && ft_place_is_packed(&l->model->placer, place) ? place : place_plain(l);
}

static ft_status plan(loader *l)
{
    ft_model *m = l->model;
    size_t most = 4 + (size_t)m->info.hp.n_layer * (FT_PART_COUNT + 1);
    m->weights.layers = calloc(m->info.hp.n_layer, sizeof *m->weights.layers);
    m->where = calloc(m->info.hp.n_layer + 1, sizeof *m->where);
    l->weights = calloc(most, sizeof *l->weights);
    if (!m->weights.layers || !m->where || !l->weights)
        return ft_error_set(l->err, FT_NOMEM, "%s: out of memory", l->opts->path);
    ft_devices_split(&m->devices, m->info.hp.n_layer, l->opts->n_gpu_layers, m->where);
    m->where_embedding = l->where = choose_embedding(l);
    size_t embedding = place_embedding(l);
    add_weight(l, &m->weights.tok_embd, &l->src.tok_embd, 1, embedding);
    plan_head(l, embedding);
    l->where = 0; /* one copy of the RoPE factors for their readers on the host */
    add_vector(l, &m->weights.rope_freqs, l->src.rope_freqs);
    for (uint32_t i = 0; i < m->info.hp.n_layer; i++) {
        l->where = m->where[i];
        plan_layer(l, &m->weights.layers[i], l->src.layers[i]);
    }
    return FT_OK;
}

static struct ggml_tensor *new_tensor(const loader *l, const weight *w)
{
    struct ggml_context *ctx = l->model->ctx[w->place];
    const int64_t *ne = gguf_get_tensor_ne(l->gguf.ctx, w->part[0]);
    int64_t rows = 0;
    for (int i = 0; i < w->n_parts; i++)
        rows += dim_of(l, w->part[i], 1);
    struct ggml_tensor *t = ggml_new_tensor_2d(ctx, type_of(l, w->part[0]), ne[0], rows);
    ggml_set_name(t, w->name);
    if (ft_place_is_packed(&l->model->placer, w->place))
        ft_pack_mark(t);
    return t;
}

/* Asks for huge pages before the memory is touched. Reading all weights for each token is then a
 * third faster (26 instead of 18.5 GB/s on one machine). A hint, and only for memory of the
 * host. */
static void use_large_pages(ggml_backend_buffer_t buffer)
{
#ifdef MADV_HUGEPAGE
    if (!ggml_backend_buft_is_host(ggml_backend_buffer_get_type(buffer)))
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)ggml_backend_buffer_get_base(buffer);
    uintptr_t end = (begin + ggml_backend_buffer_get_size(buffer)) / page * page;
    begin = (begin + page - 1) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
}

static ggml_backend_buffer_type_t type_at(const ft_model *m, size_t place)
{
    return place < m->placer.n ? m->placer.type[place]
                               : ggml_backend_dev_buffer_type(m->devices.dev[place - m->placer.n]);
}

static ft_status allocate(loader *l)
{
    ft_model *m = l->model;
    for (size_t p = 0; p < m->placer.n + m->devices.n; p++) {
        size_t count = 0;
        for (size_t i = 0; i < l->n; i++)
            count += l->weights[i].place == p;
        if (count == 0)
            continue;
        struct ggml_init_params params = {.mem_size = (count + 1) * ggml_tensor_overhead(),
                                          .no_alloc = true};
        m->ctx[p] = ggml_init(params);
        for (size_t i = 0; i < l->n && m->ctx[p]; i++)
            if (l->weights[i].place == p)
                *l->weights[i].slot = new_tensor(l, &l->weights[i]);
        if (m->ctx[p])
            m->buffer[p] = ggml_backend_alloc_ctx_tensors_from_buft(m->ctx[p], type_at(m, p));
        if (!m->buffer[p])
            return ft_error_set(l->err, FT_NOMEM, "%s: out of memory for its weights (%s)",
                                l->opts->path, ggml_backend_buft_name(type_at(m, p)));
        use_large_pages(m->buffer[p]);
        ggml_backend_buffer_set_usage(m->buffer[p], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    if (!m->weights.output)
        m->weights.output = m->weights.tok_embd;
    return FT_OK;
}

/* The memory to read a weight into: its own memory if that is plain, else the staging buffer. */
static void *read_target(loader *l, const weight *w, size_t bytes)
{
    if (w->place == ft_place_plain(&l->model->placer))
        return (*w->slot)->data;
    if (bytes > l->staging_bytes) {
        free(l->staging);
        l->staging = malloc(bytes);
        l->staging_bytes = l->staging ? bytes : 0;
    }
    return l->staging;
}

static ft_status read_weight(loader *l, const weight *w)
{
    struct ggml_tensor *t = *w->slot;
    size_t bytes = ggml_nbytes(t), at = 0;
    char *target = read_target(l, w, bytes);
    if (!target)
        return ft_error_set(l->err, FT_NOMEM, "%s: out of memory while reading '%s'", l->opts->path,
                            w->name);
    for (int i = 0; i < w->n_parts; i++) {
        size_t n = gguf_get_tensor_size(l->gguf.ctx, w->part[i]);
        ft_gguf_read(&l->gguf, ft_gguf_tensor_file_offset(&l->gguf, w->part[i]), target + at, n);
        at += n;
    }
    if (l->gguf.st != FT_OK)
        return l->gguf.st;
    if (ft_is_packed(t))
        ft_pack(t->type, t->ne[0], t->ne[1], target, t->data);
    else if (target != t->data)
        ggml_backend_tensor_set(t, target, 0, bytes);
    return FT_OK;
}

static ft_status read_weights(loader *l)
{
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < l->n; i++)
        total += ggml_nbytes(*l->weights[i].slot);
    for (size_t i = 0; i < l->n; i++) {
        ft_status st = read_weight(l, &l->weights[i]);
        if (st != FT_OK)
            return st;
        done += ggml_nbytes(*l->weights[i].slot);
        ft_progress_report(&l->opts->progress, done, total);
    }
    return FT_OK;
}

static void count_memory(loader *l, const weight *w)
{
    ft_model *m = l->model;
    ft_model_memory *sum = &m->info.memory;
    ft_model_products *p = &sum->products;
    bool packed = ft_place_is_packed(&m->placer, w->place), on_cpu = w->place < m->placer.n;
    uint64_t bytes = 0, *types = packed ? &p->packed : on_cpu ? &p->by_ggml : &p->on_devices;
    for (int i = 0; i < w->n_parts; i++)
        bytes += gguf_get_tensor_size(l->gguf.ctx, w->part[i]);
    sum->bytes += bytes;
    if (packed)
        sum->packed_bytes += bytes;
    else if (w->place < ft_place_plain(&m->placer))
        sum->repacked_bytes += bytes;
    if (w->slot == &m->weights.output && w->part[0] == l->src.tok_embd)
        sum->copied_bytes += bytes;
    if (w->in_layer || w->slot == l->head)
        *types |= 1ull << type_of(l, w->part[0]);
}

/* The type of most layer weights, in capitals. */
static void name_type(loader *l)
{
    ft_model_info *info = &l->model->info;
    uint64_t by_type[GGML_TYPE_COUNT] = {0};
    size_t most = 0;
    for (size_t i = 0; i < l->n; i++)
        for (int j = 0; j < l->weights[i].n_parts && l->weights[i].in_layer; j++)
            by_type[type_of(l, l->weights[i].part[j])] += elements_of(l, l->weights[i].part[j]);
    for (size_t i = 0; i < GGML_TYPE_COUNT; i++)
        most = by_type[i] > by_type[most] ? i : most;
    snprintf(info->type_name, sizeof info->type_name, "%s", ggml_type_name((enum ggml_type)most));
    for (char *c = info->type_name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* What the getters answer. */
static ft_status describe(loader *l)
{
    ft_model *m = l->model;
    ft_model_info *info = &m->info;
    const char *name = NULL, *slash = strrchr(l->opts->path, '/');
    for (size_t i = 0; i < l->n; i++) {
        const weight *w = &l->weights[i];
        count_memory(l, w);
        info->n_matrices += w->in_layer;
        info->n_repacked += w->in_layer && w->place < ft_place_plain(&m->placer);
    }
    for (int64_t i = 0; i < gguf_get_n_tensors(l->gguf.ctx); i++) {
        info->n_params += elements_of(l, i);
        info->types[type_of(l, i)].n_tensors++;
        info->types[type_of(l, i)].bytes += gguf_get_tensor_size(l->gguf.ctx, i);
    }
    name_type(l);
    info->file_bytes = l->gguf.file_size;
    info->tied = l->src.output < 0;
    info->rope_factors = l->src.rope_freqs >= 0;
    ft_gguf_str(&l->gguf, "general.name", false, &name);
    m->path = strdup(l->opts->path);
    m->name = strdup(name && *name ? name : slash ? slash + 1 : l->opts->path);
    if (!m->path || !m->name)
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory");
    snprintf(info->name, sizeof info->name, "%s", m->name);
    return ft_fingerprint_read(&l->gguf, &info->hp, &info->fingerprint);
}

static unsigned placement_flags(const ft_model_opts *opts)
{
    return (opts->no_pack ? FT_PLACE_NO_PACK : 0u) | (opts->no_repack ? FT_PLACE_NO_REPACK : 0u);
}

/* Everything before memory is allocated for weights. */
static ft_status open_and_plan(loader *l)
{
    ft_hparams hp;
    ft_status st = ft_sources_open(l->opts->path, l->err, &l->gguf, &hp, &l->src);
    if (st != FT_OK)
        return st;
    l->model = calloc(1, sizeof *l->model);
    if (!l->model)
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory");
    l->model->info.hp = hp;
    if (l->opts->devices)
        l->model->devices = *l->opts->devices;
    st = ft_placer_init(&l->model->placer, placement_flags(l->opts), l->opts->choose, l->err);
    if (st == FT_OK)
        st = plan(l);
    return st == FT_OK ? describe(l) : st;
}

static void loader_deinit(loader *l)
{
    free(l->staging);
    free(l->weights);
    ft_sources_deinit(&l->src);
    ft_gguf_close(&l->gguf);
}

ft_status ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out)
{
    loader l = {.opts = opts, .err = err, .gguf = {.fd = -1}};
    if (opts->vocab)
        *opts->vocab = NULL;
    ft_status st = open_and_plan(&l);
    if (st == FT_OK && opts->vocab)
        st = ft_vocab_read(&l.gguf, opts->vocab);
    if (st == FT_OK)
        st = allocate(&l);
    if (st == FT_OK)
        st = read_weights(&l);
    loader_deinit(&l);
    if (st != FT_OK) {
        if (opts->vocab) {
            ft_vocab_destroy(*opts->vocab);
            *opts->vocab = NULL;
        }
        ft_model_destroy(l.model);
        l.model = NULL;
    }
    *out = l.model;
    return st;
}

ft_status ft_model_inspect(const ft_model_opts *opts, ft_error *err, ft_model_info *out)
{
    loader l = {.opts = opts, .err = err, .gguf = {.fd = -1}};
    ft_status st = open_and_plan(&l);
    if (st == FT_OK)
        *out = l.model->info;
    loader_deinit(&l);
    ft_model_destroy(l.model);
    return st;
}

void ft_model_destroy(ft_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < PLACES; i++) {
        ggml_backend_buffer_free(model->buffer[i]);
        ggml_free(model->ctx[i]);
    }
    free(model->weights.layers);
    free(model->where);
    free(model->path);
    free(model->name);
    free(model);
}

const ft_hparams *ft_model_hparams(const ft_model *model)
{
    return &model->info.hp;
}

const ft_weights *ft_model_weights(const ft_model *model)
{
    return &model->weights;
}

const char *ft_model_path(const ft_model *model)
{
    return model->path;
}

const char *ft_model_name(const ft_model *model)
{
    return model->name;
}

uint64_t ft_model_fingerprint(const ft_model *model)
{
    return model->info.fingerprint.model;
}

ft_fingerprints ft_model_fingerprints(const ft_model *model)
{
    return model->info.fingerprint;
}

const char *ft_model_type_name(const ft_model *model)
{
    return model->info.type_name;
}

size_t ft_model_bytes_on(const ft_model *model, uint32_t where)
{
    size_t n = model->placer.n, bytes = 0;
    for (size_t i = where ? n + where - 1 : 0; i < (where ? n + where : n); i++)
        if (model->buffer[i])
            bytes += ggml_backend_buffer_get_size(model->buffer[i]);
    return bytes;
}

const ft_devices *ft_model_devices(const ft_model *model)
{
    return &model->devices;
}

uint32_t ft_model_n_gpu_layers(const ft_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= model->info.hp.n_layer; i++)
        n += model->where[i] != 0;
    return n;
}

uint32_t ft_model_where_layer(const ft_model *model, uint32_t layer)
{
    return model->where[layer];
}

uint32_t ft_model_where_head(const ft_model *model)
{
    return model->where[model->info.hp.n_layer];
}

uint32_t ft_model_where_embedding(const ft_model *model)
{
    return model->where_embedding;
}

ft_model_memory ft_model_get_memory(const ft_model *model)
{
    return model->info.memory;
}

bool ft_model_repacked(const ft_model *model)
{
    return model->info.n_repacked == model->info.n_matrices;
}
