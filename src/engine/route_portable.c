// SPDX-License-Identifier: Apache-2.0
// Attention through ggml's operators alone, for any backend: K and V rows are written with set_rows,
// each segment's context is gathered by its block table with get_rows, and flash attention runs
// under a mask that holds the tree. The graph depends on the contexts' lengths, so it is built anew
// for every pass. Owned by the engine's thread.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/route.h"

typedef struct ggml_tensor tensor;

typedef struct seg_inputs {
    tensor *index; /* I32 [n_ctx], slots of the context */
    tensor *mask;  /* F16 [n_ctx, n_rows] */
} seg_inputs;

typedef struct portable_route {
    ft_route base;
    const ft_model *model;
    const ft_kv_store *store;
    const ft_batch *batch;
    uint32_t n_batch_segs; /* of the graph that is being built or was built last */
    seg_inputs *segs;      /* [max_rows] */
    tensor **outputs;      /* [max_rows], of the segments of one layer */
    tensor *pos;           /* I32 [n_rows] */
    tensor *slots;         /* I64 [n_rows] */
    void *staging;         /* for one input */
    size_t staging_bytes;
} portable_route;

static uint32_t context_of(const ft_attn_seg *seg)
{
    return seg->seq->n_past + seg->seq->n_pending;
}

static tensor *input(ft_build *b, tensor *t)
{
    ggml_set_input(t);
    return t;
}

/* A shape of the largest work for the reservation, when there is no batch yet: one chain. */
static void add_inputs(portable_route *route, ft_build *b)
{
    const ft_batch *batch = route->batch;
    bool real = batch->n_rows == b->n_rows && batch->n_segs > 0;
    route->n_batch_segs = real ? batch->n_segs : 1;
    route->pos = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, b->n_rows));
    route->slots = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I64, b->n_rows));
    for (uint32_t i = 0; i < route->n_batch_segs; i++) {
        uint32_t n = real ? batch->segs[i].n_rows : b->n_rows;
        uint32_t n_ctx = real ? context_of(&batch->segs[i]) : b->n_rows;
        route->segs[i].index = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, n_ctx));
        route->segs[i].mask = input(b, ggml_new_tensor_2d(b->ctx, GGML_TYPE_F16, n_ctx, n));
    }
}

/* [heads * head_dim, n_rows] -> [head_dim, heads, n_rows] with bias and norm, and RoPE. */
static tensor *heads_of(ft_build *b, tensor *x, tensor *bias, tensor *norm, tensor *pos)
{
    const ft_hparams *hp = b->hparams;
    tensor *h = bias ? ggml_add(b->ctx, ggml_cont(b->ctx, x), bias) : ggml_cont(b->ctx, x);
    h = ggml_reshape_3d(b->ctx, h, hp->head_dim, x->ne[0] / hp->head_dim, x->ne[1]);
    if (norm)
        h = ggml_mul(b->ctx, ggml_rms_norm(b->ctx, h, hp->rms_eps), norm);
    if (!pos)
        return h;
    return ggml_rope_ext(b->ctx, h, pos, b->weights->rope_freqs, (int)hp->n_rot, hp->rope_type,
                         (int)hp->n_ctx_train, hp->rope_base, hp->rope_scale, 0.0f, 1.0f, 0.0f,
                         0.0f);
}

static tensor *write_rows(ft_build *b, tensor *pool, tensor *x, tensor *slots)
{
    return ggml_set_rows(b->ctx, pool, ggml_reshape_2d(b->ctx, x, x->ne[0] * x->ne[1], x->ne[2]),
                         slots);
}

/* [n_head_kv * head_dim, slots] by index -> [head_dim, n_ctx, n_head_kv] */
static tensor *gather(ft_build *b, tensor *pool, tensor *index)
{
    tensor *rows = ggml_get_rows(b->ctx, pool, index);
    rows = ggml_reshape_3d(b->ctx, rows, b->hparams->head_dim, b->hparams->n_head_kv, index->ne[0]);
    return ggml_permute(b->ctx, rows, 0, 2, 1, 3);
}

static tensor *attend_segment(ft_build *b, tensor *q, tensor *k, tensor *v, const seg_inputs *in)
{
    float scale = 1.0f / sqrtf((float)b->hparams->head_dim);
    tensor *out =
        ggml_flash_attn_ext(b->ctx, ggml_permute(b->ctx, q, 0, 2, 1, 3), gather(b, k, in->index),
                            gather(b, v, in->index), in->mask, scale, 0.0f, 0.0f);
    ggml_prec_set_acc(out, GGML_PREC_F32);
    return ggml_reshape_2d(b->ctx, out, out->ne[0] * out->ne[1], out->ne[2]);
}

/* Side by side, as a balanced tree, so that no row is copied more than log2(n) times. */
static tensor *join(ft_build *b, tensor **parts, uint32_t n)
{
    if (n == 1)
        return parts[0];
    return ggml_concat(b->ctx, join(b, parts, n / 2), join(b, parts + n / 2, n - n / 2), 1);
}

static tensor *attend(ft_build *b, uint32_t il, tensor *q, tensor *k, tensor *v, bool output)
{
    portable_route *route = b->route->ctx;
    const ft_layer *l = &b->weights->layers[il];
    if (il == 0)
        add_inputs(route, b);
    tensor *k_pool = write_rows(b, route->store->k[il],
                                heads_of(b, k, l->bk, l->k_norm, route->pos), route->slots);
    tensor *v_pool =
        write_rows(b, route->store->v[il], heads_of(b, v, l->bv, NULL, NULL), route->slots);
    ggml_build_forward_expand(b->graph, k_pool);
    if (!output)
        return v_pool;
    tensor *heads = heads_of(b, q, l->bq, l->q_norm, route->pos);
    for (uint32_t i = 0, row = 0; i < route->n_batch_segs; i++) {
        tensor *mask = route->segs[i].mask;
        tensor *part = ggml_view_3d(b->ctx, heads, heads->ne[0], heads->ne[1], mask->ne[1],
                                    heads->nb[1], heads->nb[2], row * heads->nb[2]);
        route->outputs[i] = attend_segment(b, part, k_pool, v_pool, &route->segs[i]);
        row += (uint32_t)mask->ne[1];
    }
    return join(b, route->outputs, route->n_batch_segs);
}

static void *staged(portable_route *route, size_t bytes)
{
    if (bytes > route->staging_bytes) {
        free(route->staging);
        route->staging = malloc(bytes);
        route->staging_bytes = route->staging ? bytes : 0;
    }
    return route->staging;
}

static bool set_index(portable_route *route, const ft_attn_seg *seg, tensor *index)
{
    int32_t *slot = staged(route, ggml_nbytes(index));
    if (!slot)
        return false;
    for (uint32_t i = 0; i < context_of(seg); i++)
        slot[i] = (int32_t)ft_kv_seq_slot(seg->seq, i);
    ggml_backend_tensor_set(index, slot, 0, ggml_nbytes(index));
    return true;
}

static bool set_mask(portable_route *route, const ft_attn_seg *seg, tensor *mask)
{
    const uint16_t closed = ggml_fp32_to_fp16(-INFINITY), open = ggml_fp32_to_fp16(0.0f);
    uint32_t n_ctx = context_of(seg), n_past = seg->seq->n_past;
    uint16_t *rows = staged(route, ggml_nbytes(mask));
    if (!rows)
        return false;
    for (uint32_t r = 0; r < seg->n_rows; r++) {
        uint16_t *row = rows + (size_t)r * n_ctx;
        for (uint32_t i = 0; i < n_ctx; i++)
            row[i] = i < n_past ? open : closed;
        for (int32_t i = (int32_t)(seg->first_node + r); i >= 0;
             i = ft_kv_seq_parent(seg->seq, (uint32_t)i))
            row[n_past + (uint32_t)i] = open;
    }
    ggml_backend_tensor_set(mask, rows, 0, ggml_nbytes(mask));
    return true;
}

static void begin(ft_route *base)
{
    (void)base; /* the graph is built from the batch */
}

static bool set_inputs(ft_route *base)
{
    portable_route *route = (portable_route *)base;
    const ft_batch *batch = route->batch;
    int64_t *slot = staged(route, batch->n_rows * sizeof *slot);
    if (!slot)
        return false;
    for (uint32_t i = 0; i < batch->n_rows; i++)
        slot[i] = batch->slot[i];
    ggml_backend_tensor_set(route->slots, slot, 0, batch->n_rows * sizeof *slot);
    ggml_backend_tensor_set(route->pos, batch->pos, 0, batch->n_rows * sizeof *batch->pos);
    for (uint32_t i = 0; i < batch->n_segs; i++) {
        if (!route->segs[i].mask->buffer)
            continue; /* nothing reads it: the pass only writes K and V of one layer */
        if (!set_index(route, &batch->segs[i], route->segs[i].index) ||
            !set_mask(route, &batch->segs[i], route->segs[i].mask))
            return false;
    }
    return true;
}

static void destroy(ft_route *base)
{
    portable_route *route = (portable_route *)base;
    free(route->segs);
    free(route->outputs);
    free(route->staging);
    free(route);
}

ft_status ft_route_portable_create(const ft_route_opts *opts, ft_route **out)
{
    *out = NULL;
    portable_route *route = calloc(1, sizeof *route);
    if (!route)
        return FT_NOMEM;
    uint32_t max_rows = opts->batch->max_rows;
    route->base = (ft_route){.ops = {attend, route},
                             .begin = begin,
                             .set_inputs = set_inputs,
                             .destroy = destroy,
                             .nodes_per_layer = 32 + 12 * max_rows};
    route->model = opts->model;
    route->store = opts->store;
    route->batch = opts->batch;
    route->segs = calloc(max_rows, sizeof *route->segs);
    route->outputs = calloc(max_rows, sizeof(tensor *));
    if (!route->segs || !route->outputs) {
        destroy(&route->base);
        return FT_NOMEM;
    }
    *out = &route->base;
    return FT_OK;
}
