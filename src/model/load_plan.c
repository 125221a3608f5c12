// SPDX-License-Identifier: Apache-2.0
// Plans a model's weights: which tensors of the file are joined, and where each weight goes. The
// token embedding goes to plain memory, because ggml_get_rows on a repacked tensor gives garbage,
// or into our layout if that has rows. Allocates no weights and reads nothing. A plan belongs to
// one thread until it is complete.
#include "model/load_plan.h"

#include <stdlib.h>
#include <string.h>

#include "model/packed_file.h"

typedef struct planner {
    const ft_plan_input *in;
    ft_plan *plan;
    ft_weights *weights;
    uint32_t where; /* of what is being planned: 0 for the CPU, else 1 + a device */
    uint16_t layer;
} planner;

static enum ggml_type type_of(const planner *p, int64_t id)
{
    return gguf_get_tensor_type(p->in->gguf->ctx, id);
}

static int64_t dim_of(const planner *p, int64_t id, int axis)
{
    return gguf_get_tensor_ne(p->in->gguf->ctx, id)[axis];
}

/* Whether the file has the tensor in our own layout. */
static bool is_stored(const planner *p, int64_t id)
{
    return p->in->sources->packed && ft_packed_name(gguf_get_tensor_name(p->in->gguf->ctx, id));
}

/* What a packed file has in plain layout stays so. */
static bool choose_none(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return false;
}

static size_t place_plain(const planner *p)
{
    const ft_placer *placer = &p->plan->placer;
    return p->where ? placer->n + p->where - 1 : ft_place_plain(placer);
}

static size_t place_matrix(const planner *p, const int64_t *ids, int n)
{
    int64_t rows = 0;
    if (is_stored(p, ids[0]))
        return 0; /* our own layout's place (placement.h) */
    if (p->where)
        return place_plain(p);
    for (int i = 0; i < n; i++)
        rows += dim_of(p, ids[i], 1);
    return ft_place_matrix(&p->plan->placer, type_of(p, ids[0]), dim_of(p, ids[0], 0), rows);
}

static ft_planned *add_weight(planner *p, struct ggml_tensor **slot, const int64_t *ids, int n,
                              size_t place)
{
    const ft_gguf *gguf = p->in->gguf;
    ft_planned *w = &p->plan->weights[p->plan->n++];
    *w = (ft_planned){.slot = slot,
                      .id = ids[0],
                      .n_parts = (uint8_t)n,
                      .place = (uint8_t)place,
                      .what = FT_PART_COUNT,
                      .stored = is_stored(p, ids[0]),
                      .layer = p->layer,
                      .type = type_of(p, ids[0]),
                      .n_in = dim_of(p, ids[0], 0)};
    for (int i = 0; i < n; i++) {
        w->part[i] = (ft_extent){.offset = ft_gguf_tensor_file_offset(gguf, ids[i]),
                                 .bytes = gguf_get_tensor_size(gguf->ctx, ids[i]),
                                 .hash = p->in->hash ? p->in->hash[ids[i]] : 0};
        w->n_out += dim_of(p, ids[i], 1);
        w->bytes += w->part[i].bytes;
    }
    return w;
}

static void add_vector(planner *p, struct ggml_tensor **slot, int64_t id, int what)
{
    if (id >= 0)
        add_weight(p, slot, &id, 1, place_plain(p))->what = (uint8_t)what;
}

static void add_matrix(planner *p, struct ggml_tensor **slot, const int64_t *ids, int n, int what)
{
    ft_planned *w = add_weight(p, slot, ids, n, place_matrix(p, ids, n));
    w->is_matrix = true;
    w->what = (uint8_t)what;
}

/* Parts of a layer that may be joined. */
typedef struct joint {
    struct ggml_tensor **joined, **slots[FT_EXTENT_PARTS];
    int what, first, n; /* FT_PART_... of the joined one and of the first part; how many parts */
} joint;

/* Joins parts into one weight if they have one type and no part would lose a faster place by it.
 * Otherwise each part becomes a weight. In a packed file they are joined or not. */
static void add_joined(planner *p, const joint *j, const int64_t *src)
{
    const int64_t *ids = src + j->first;
    if (src[j->what] >= 0) {
        add_matrix(p, j->joined, &src[j->what], 1, j->what);
        return;
    }
    size_t place = place_matrix(p, ids, j->n);
    bool join = !p->in->sources->packed;
    for (int i = 0; i < j->n; i++)
        join = join && type_of(p, ids[i]) == type_of(p, ids[0]) &&
               place <= place_matrix(p, &ids[i], 1); /* places are ordered, fastest first */
    if (join)
        add_matrix(p, j->joined, ids, j->n, j->what);
    for (int i = 0; i < j->n && !join; i++)
        add_matrix(p, j->slots[i], &ids[i], 1, j->first + i);
}

static void plan_layer(planner *p, ft_layer *l, const int64_t *src)
{
    const joint qkv = {&l->wqkv, {&l->wq, &l->wk, &l->wv}, FT_PART_QKV, FT_PART_Q, 3};
    const joint gate_up = {&l->wgate_up, {&l->wgate, &l->wup}, FT_PART_GATE_UP, FT_PART_GATE, 2};
    add_vector(p, &l->attn_norm, src[FT_PART_ATTN_NORM], FT_PART_ATTN_NORM);
    add_joined(p, &qkv, src);
    add_vector(p, &l->bq, src[FT_PART_BQ], FT_PART_BQ);
    add_vector(p, &l->bk, src[FT_PART_BK], FT_PART_BK);
    add_vector(p, &l->bv, src[FT_PART_BV], FT_PART_BV);
    add_vector(p, &l->q_norm, src[FT_PART_Q_NORM], FT_PART_Q_NORM);
    add_vector(p, &l->k_norm, src[FT_PART_K_NORM], FT_PART_K_NORM);
    add_matrix(p, &l->wo, &src[FT_PART_O], 1, FT_PART_O);
    add_vector(p, &l->bo, src[FT_PART_BO], FT_PART_BO);
    add_vector(p, &l->ffn_norm, src[FT_PART_FFN_NORM], FT_PART_FFN_NORM);
    add_joined(p, &gate_up, src);
    add_matrix(p, &l->wdown, &src[FT_PART_DOWN], 1, FT_PART_DOWN);
    add_vector(p, &l->rope_freqs, p->in->sources->rope_freqs, FT_PART_COUNT);
}

/* A tied output head gets a copy of its own only in a faster place, or on another device. */
static void plan_head(planner *p)
{
    const ft_sources *src = p->in->sources;
    ft_plan *plan = p->plan;
    int64_t copy = src->output_copy >= 0 ? src->output_copy : src->tok_embd;
    int64_t id = src->output >= 0 ? src->output : copy;
    p->where = plan->where[p->in->hp->n_layer];
    size_t place = place_matrix(p, &id, 1);
    plan->tied = src->output < 0;
    plan->head = plan->embedding;
    if (!plan->tied || place != plan->weights[plan->embedding].place) {
        plan->head = plan->n;
        add_weight(p, &p->weights->output, &id, 1, place);
    }
    add_vector(p, &p->weights->output_norm, src->output_norm, FT_PART_COUNT);
}

/* Rows of the embedding are looked up on the first layer's device, if all layers are on devices and
 * that device can do it; otherwise on the CPU. */
static uint8_t choose_embedding(const planner *p)
{
    const ft_plan *plan = p->plan;
    uint8_t where = plan->where[p->in->hp->n_layer] ? plan->where[0] : 0;
    return where && ft_device_has_rows(plan->devices.dev[where - 1],
                                       type_of(p, p->in->sources->tok_embd), p->in->hp->n_embd)
               ? where
               : 0;
}

/* In plain memory. But if a tied output head is packed in a layout whose rows can be looked up, the
 * embedding shares it. */
static size_t place_embedding(const planner *p)
{
    const ft_sources *src = p->in->sources;
    bool one = src->output < 0 && p->plan->where[p->in->hp->n_layer] == 0 && p->where == 0 &&
               ft_pack_has_rows(type_of(p, src->tok_embd));
    size_t place = place_matrix(p, &src->tok_embd, 1);
    if (src->packed)
        return is_stored(p, src->tok_embd) ? place : place_plain(p);
    return one && ft_place_is_packed(&p->plan->placer, place) ? place : place_plain(p);
}

static ft_status allocate(planner *p, ft_error *err)
{
    const uint32_t n_layer = p->in->hp->n_layer;
    size_t most = 4 + (size_t)n_layer * (FT_PART_COUNT + 1);
    p->weights->layers = calloc(n_layer, sizeof *p->weights->layers);
    p->plan->where = calloc(n_layer + 1, sizeof *p->plan->where);
    p->plan->layer_at = calloc(n_layer + 1, sizeof *p->plan->layer_at);
    p->plan->weights = calloc(most, sizeof *p->plan->weights);
    if (p->weights->layers && p->plan->where && p->plan->layer_at && p->plan->weights)
        return FT_OK;
    return ft_error_set(err, FT_NOMEM, "%s: out of memory", p->in->opts->path);
}

ft_status ft_plan_make(const ft_plan_input *in, ft_error *err, ft_weights *weights, ft_plan *out)
{
    const ft_model_opts *opts = in->opts;
    planner p = {.in = in, .plan = out, .weights = weights};
    *out = (ft_plan){.placer = *in->placer, .hashed = in->hash != NULL};
    if (in->sources->packed)
        out->placer.choose = choose_none;
    if (opts->devices)
        out->devices = *opts->devices;
    ft_status st = allocate(&p, err);
    if (st != FT_OK)
        return st;
    ft_devices_split(&out->devices, in->hp->n_layer, opts->n_gpu_layers, out->where);
    out->where_embedding = choose_embedding(&p);
    p.where = out->where_embedding;
    add_weight(&p, &weights->tok_embd, &in->sources->tok_embd, 1, place_embedding(&p));
    plan_head(&p);
    p.where = 0; /* one copy of the RoPE factors for their readers on the host */
    add_vector(&p, &weights->rope_freqs, in->sources->rope_freqs, FT_PART_COUNT);
    for (uint32_t i = 0; i < in->hp->n_layer; i++) {
        p.where = out->where[i];
        p.layer = (uint16_t)i;
        out->layer_at[i] = out->n;
        plan_layer(&p, &weights->layers[i], in->sources->layers[i]);
    }
    out->layer_at[in->hp->n_layer] = out->n;
    ft_planned *fitting = realloc(out->weights, out->n * sizeof *fitting);
    out->weights = fitting ? fitting : out->weights;
    return FT_OK;
}

size_t ft_plan_file_order(const ft_plan *plan, size_t *order)
{
    const ft_planned *head = &plan->weights[plan->head];
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++) {
        const bool factors = i >= plan->layer_at[0] && plan->weights[i].what == FT_PART_COUNT;
        if (!plan->weights[i].is_matrix && !factors &&
            (i != plan->head || plan->head == plan->embedding))
            order[n++] = i;
    }
    for (size_t i = 0; i < plan->n; i++)
        if (plan->weights[i].is_matrix)
            order[n++] = i;
    if (plan->head != plan->embedding && (!plan->tied || ft_planned_is_packed(plan, head)))
        order[n++] = plan->head;
    return n;
}

void ft_plan_deinit(ft_plan *plan)
{
    free(plan->where);
    free(plan->layer_at);
    free(plan->weights);
    *plan = (ft_plan){0};
}
