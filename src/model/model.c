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
    ft_hparams hp;
    ft_weights weights;
    ft_placer placer;
    ft_devices devices;
    uint8_t *where; /* [n_layer + 1], as ft_devices_split has it */
    uint8_t where_embedding;
    size_t n_places;                         /* the placer's types, then the devices' */
    ggml_backend_buffer_type_t type[PLACES]; /* [n_places] */
    struct ggml_context *ctx[PLACES];        /* [n_places], NULL where nothing is placed */
    ggml_backend_buffer_t buffer[PLACES];    /* [n_places], likewise */
    char *path, *name;
    char type_name[16];
    uint64_t fingerprint, n_params;
    uint32_t n_matrices, n_repacked; /* of the layers, joined ones counted once */
    ft_model_memory memory;
};

typedef struct loader {
    ft_model *model;
    const ft_model_opts *opts;
    ft_error *err;
    ft_gguf gguf;
    ft_sources src;
    weight *weights; /* [n], room for all */
    size_t n;
    struct ggml_tensor **head; /* the slot of the matrix that logits come from */
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

/* One copy of the RoPE factors for each place with layers, and one on the host for its readers. */
static void plan_layers(loader *l)
{
    ft_model *m = l->model;
    struct ggml_tensor **factors[FT_DEVICES_MAX + 1] = {&m->weights.rope_freqs};
    l->where = 0;
    add_vector(l, &m->weights.rope_freqs, l->src.rope_freqs);
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        l->where = m->where[i];
        if (!factors[l->where]) {
            factors[l->where] = &m->weights.layers[i].rope_freqs;
            add_vector(l, factors[l->where], l->src.rope_freqs);
        }
        plan_layer(l, &m->weights.layers[i], l->src.layers[i]);
    }
}

/* Rows of the embedding are looked up on the first layer's device, if all layers are on devices and
 * that device can do it; otherwise on the CPU. */
static uint8_t choose_embedding(const loader *l)
{
    const ft_model *m = l->model;
    uint8_t where = m->where[m->hp.n_layer] ? m->where[0] : 0;
    return where && ft_device_has_rows(m->devices.dev[where - 1], type_of(l, l->src.tok_embd),
                                       m->hp.n_embd)
               ? where
               : 0;
}

/* Plain; but if a tied output head is packed in a layout whose rows can be looked up, the embedding
 * shares it, so that it is in memory once. */
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
    size_t most = 4 + FT_DEVICES_MAX + (size_t)m->hp.n_layer * FT_PART_COUNT;
    m->weights.layers = calloc(m->hp.n_layer, sizeof *m->weights.layers);
    m->where = calloc(m->hp.n_layer + 1, sizeof *m->where);
    l->weights = calloc(most, sizeof *l->weights);
    if (!m->weights.layers || !m->where || !l->weights)
        return ft_error_set(l->err, FT_NOMEM, "%s: out of memory", l->opts->path);
    ft_devices_split(&m->devices, m->hp.n_layer, l->opts->n_gpu_layers, m->where);
    m->where_embedding = l->where = choose_embedding(l);
    size_t embedding = place_embedding(l);
    add_weight(l, &m->weights.tok_embd, &l->src.tok_embd, 1, embedding);
    plan_head(l, embedding);
    plan_layers(l);
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

/* Layers at one place share one copy. */
static void share_rope_factors(ft_model *m)
{
    struct ggml_tensor *at[FT_DEVICES_MAX + 1] = {m->weights.rope_freqs};
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        struct ggml_tensor **mine = &m->weights.layers[i].rope_freqs;
        if (*mine)
            at[m->where[i]] = *mine;
        *mine = at[m->where[i]];
    }
}

static ft_status allocate(loader *l)
{
    ft_model *m = l->model;
    for (size_t p = 0; p < m->n_places; p++) {
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
            m->buffer[p] = ggml_backend_alloc_ctx_tensors_from_buft(m->ctx[p], m->type[p]);
        if (!m->buffer[p])
            return ft_error_set(l->err, FT_NOMEM, "%s: out of memory for its weights (%s)",
                                l->opts->path, ggml_backend_buft_name(m->type[p]));
        use_large_pages(m->buffer[p]);
        ggml_backend_buffer_set_usage(m->buffer[p], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    if (!m->weights.output)
        m->weights.output = m->weights.tok_embd;
    share_rope_factors(m);
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
        ft_status st = ft_gguf_read(&l->gguf, ft_gguf_tensor_file_offset(&l->gguf, w->part[i]),
                                    target + at, n, l->err);
        if (st != FT_OK)
            return st;
        at += n;
    }
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
    ft_model_memory *sum = &m->memory;
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

/* Name, main type, counts: what the getters answer. */
static ft_status describe(loader *l)
{
    ft_model *m = l->model;
    uint64_t by_type[GGML_TYPE_COUNT] = {0};
    size_t most = 0;
    const char *name = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const weight *w = &l->weights[i];
        count_memory(l, w);
        if (!w->in_layer)
            continue;
        for (int j = 0; j < w->n_parts; j++)
            by_type[type_of(l, w->part[j])] += elements_of(l, w->part[j]);
        m->n_matrices++;
        m->n_repacked += w->place < ft_place_plain(&m->placer);
    }
    for (size_t i = 0; i < GGML_TYPE_COUNT; i++)
        most = by_type[i] > by_type[most] ? i : most;
    snprintf(m->type_name, sizeof m->type_name, "%s", ggml_type_name((enum ggml_type)most));
    for (char *c = m->type_name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    for (int64_t i = 0; i < gguf_get_n_tensors(l->gguf.ctx); i++)
        m->n_params += elements_of(l, i);
    ft_status st = ft_gguf_str(&l->gguf, "general.name", false, l->err, &name);
    const char *slash = strrchr(l->opts->path, '/');
    m->path = strdup(l->opts->path);
    m->name = strdup(name && *name ? name : slash ? slash + 1 : l->opts->path);
    if (st == FT_OK && (!m->path || !m->name))
        st = ft_error_set(l->err, FT_NOMEM, "%s: out of memory", l->opts->path);
    return st == FT_OK ? ft_fingerprint_read(&l->gguf, &m->hp, l->err, &m->fingerprint) : st;
}

static unsigned placement_flags(const ft_model_opts *opts)
{
    return (opts->no_pack ? FT_PLACE_NO_PACK : 0u) | (opts->no_repack ? FT_PLACE_NO_REPACK : 0u);
}

/* The CPU's places in the placer's order, then one place for each device. */
static ft_status find_places(loader *l)
{
    ft_model *m = l->model;
    ft_status st = ft_placer_init(&m->placer, placement_flags(l->opts), l->opts->choose, l->err);
    if (st != FT_OK)
        return st;
    if (l->opts->devices)
        m->devices = *l->opts->devices;
    for (size_t i = 0; i < m->placer.n; i++)
        m->type[m->n_places++] = m->placer.type[i];
    for (size_t i = 0; i < m->devices.n; i++)
        m->type[m->n_places++] = ggml_backend_dev_buffer_type(m->devices.dev[i]);
    return FT_OK;
}

/* Everything before memory is allocated for weights. */
static ft_status open_and_plan(loader *l)
{
    ft_error *err = l->err;
    ft_status st = ft_gguf_open(l->opts->path, err, &l->gguf);
    if (st != FT_OK)
        return st;
    l->model = calloc(1, sizeof *l->model);
    if (!l->model)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", l->opts->path);
    st = ft_hparams_read(&l->gguf, err, &l->model->hp);
    if (st == FT_OK)
        st = ft_sources_find(&l->gguf, &l->model->hp, err, &l->src);
    if (st == FT_OK)
        st = find_places(l);
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
    ft_status st = open_and_plan(&l);
    if (st == FT_OK)
        st = allocate(&l);
    if (st == FT_OK)
        st = read_weights(&l);
    loader_deinit(&l);
    if (st != FT_OK) {
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
    if (st == FT_OK) {
        const struct gguf_context *g = l.gguf.ctx;
        *out = (ft_model_info){.hp = l.model->hp,
                               .fingerprint = l.model->fingerprint,
                               .n_params = l.model->n_params,
                               .file_bytes = l.gguf.file_size,
                               .n_matrices = l.model->n_matrices,
                               .n_repacked = l.model->n_repacked,
                               .memory = l.model->memory,
                               .tied = l.src.output < 0,
                               .rope_factors = l.src.rope_freqs >= 0};
        snprintf(out->name, sizeof out->name, "%s", l.model->name);
        snprintf(out->type_name, sizeof out->type_name, "%s", l.model->type_name);
        for (int64_t i = 0; i < gguf_get_n_tensors(g); i++) {
            out->types[type_of(&l, i)].n_tensors++;
            out->types[type_of(&l, i)].bytes += gguf_get_tensor_size(g, i);
        }
    }
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
    return &model->hp;
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
    return model->fingerprint;
}

const char *ft_model_type_name(const ft_model *model)
{
    return model->type_name;
}

static size_t bytes_at(const ft_model *model, size_t begin, size_t end)
{
    size_t bytes = 0;
    for (size_t i = begin; i < end; i++)
        if (model->buffer[i])
            bytes += ggml_backend_buffer_get_size(model->buffer[i]);
    return bytes;
}

size_t ft_model_bytes(const ft_model *model)
{
    return bytes_at(model, 0, model->n_places);
}

size_t ft_model_bytes_on(const ft_model *model, uint32_t where)
{
    size_t n = model->placer.n;
    return where ? bytes_at(model, n + where - 1, n + where) : bytes_at(model, 0, n);
}

const ft_devices *ft_model_devices(const ft_model *model)
{
    return &model->devices;
}

uint32_t ft_model_n_gpu_layers(const ft_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= model->hp.n_layer; i++)
        n += model->where[i] != 0;
    return n;
}

uint32_t ft_model_where_layer(const ft_model *model, uint32_t layer)
{
    return model->where[layer];
}

uint32_t ft_model_where_head(const ft_model *model)
{
    return model->where[model->hp.n_layer];
}

uint32_t ft_model_where_embedding(const ft_model *model)
{
    return model->where_embedding;
}

ft_model_memory ft_model_get_memory(const ft_model *model)
{
    return model->memory;
}

bool ft_model_repacked(const ft_model *model)
{
    return model->n_repacked == model->n_matrices;
}

uint64_t ft_model_n_params(const ft_model *model)
{
    return model->n_params;
}
