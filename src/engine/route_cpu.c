// SPDX-License-Identifier: Apache-2.0
// Attention through our CPU kernel, as two custom operators for each layer. The first adds biases,
// norms and RoPE to K and writes K and V into the pool. The second does the same to Q while it
// loads it, and attends. Threads of ggml's pool run both, and claim work from the layer's counter,
// which `begin` resets. Otherwise owned by the engine's thread.
#include <stdlib.h>

#include "engine/attn.h"
#include "engine/route.h"

typedef struct layer_op {
    ft_attn_layer layer;
    ft_attn_plan *plan;
    atomic_uint next;
} layer_op;

typedef struct cpu_route {
    ft_route base;
    const ft_batch *batch;
    ft_attn_plan *plan;
    uint32_t n_layer;
    layer_op *layers; /* [n_layer] */
} cpu_route;

ft_rope_opts ft_route_rope(const ft_model *model)
{
    const ft_hparams *hp = ft_model_hparams(model);
    const struct ggml_tensor *factors = ft_model_weights(model)->rope_freqs;
    return (ft_rope_opts){.n_rot = hp->n_rot,
                          .base = hp->rope_base,
                          .scale = hp->rope_scale,
                          .factors = factors ? factors->data : NULL};
}

static size_t row_stride(const struct ggml_tensor *t)
{
    return t->nb[1] / sizeof(float);
}

static void write_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    layer_op *op = userdata;
    const struct ggml_tensor *k = dst->src[0], *v = dst->src[1];
    ft_attn_rows rows = {
        .k = k->data, .v = v->data, .k_stride = row_stride(k), .v_stride = row_stride(v)};
    ft_attn_write(op->plan, &op->layer, &rows, (unsigned)ith, (unsigned)nth);
}

static void attend_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    layer_op *op = userdata;
    ft_attn_rows rows = {.q = dst->src[0]->data, .q_stride = row_stride(dst->src[0])};
    ft_attn_run(op->plan, &op->layer, &rows, dst->data, (unsigned)ith, &op->next);
}

static struct ggml_tensor *attend(ft_build *b, uint32_t il, struct ggml_tensor *q,
                                  struct ggml_tensor *k, struct ggml_tensor *v, bool output)
{
    cpu_route *route = b->route->ctx;
    struct ggml_tensor *written[] = {k, v};
    struct ggml_tensor *w = ggml_custom_4d(b->ctx, GGML_TYPE_F32, 1, 1, 1, 1, written, 2, write_op,
                                           GGML_N_TASKS_MAX, &route->layers[il]);
    if (!output)
        return w;
    struct ggml_tensor *args[] = {q, w};
    return ggml_custom_4d(b->ctx, GGML_TYPE_F32, q->ne[0], q->ne[1], 1, 1, args, 2, attend_op,
                          GGML_N_TASKS_MAX, &route->layers[il]);
}

static void begin(ft_route *base)
{
    cpu_route *route = (cpu_route *)base;
    ft_attn_plan_batch(route->plan, &route->batch->attn);
    for (uint32_t i = 0; i < route->n_layer; i++)
        atomic_store_explicit(&route->layers[i].next, 0, memory_order_relaxed);
}

static bool set_inputs(ft_route *base, uint32_t slot)
{
    (void)base;
    (void)slot; /* all inputs are read from the batch */
    return true;
}

static void destroy(ft_route *base)
{
    cpu_route *route = (cpu_route *)base;
    ft_attn_plan_destroy(route->plan);
    free(route->layers);
    free(route);
}

static const float *data_of(const struct ggml_tensor *t)
{
    return t ? t->data : NULL;
}

static void fill_layer(layer_op *op, const ft_route_opts *opts, uint32_t il, ft_attn_plan *plan)
{
    const ft_layer *l = &ft_model_weights(opts->model)->layers[il];
    op->plan = plan;
    op->layer = (ft_attn_layer){
        .k = opts->store->tiles[il],
        .v = opts->store->tiles[il] + opts->store->half_bytes,
        .block_bytes = opts->store->block_bytes,
        .bq = data_of(l->bq),
        .bk = data_of(l->bk),
        .bv = data_of(l->bv),
        .q_norm = data_of(l->q_norm),
        .k_norm = data_of(l->k_norm),
        .kernel = ft_attn_kernel_best(opts->store->type, ft_model_hparams(opts->model)->head_dim),
    };
    atomic_init(&op->next, 0);
}

ft_status ft_route_cpu_create(const ft_route_opts *opts, ft_route **out)
{
    const ft_hparams *hp = ft_model_hparams(opts->model);
    ft_attn_geometry geo = {.n_head = hp->n_head,
                            .n_head_kv = hp->n_head_kv,
                            .head_dim = hp->head_dim,
                            .n_rot = hp->n_rot,
                            .rope_neox = hp->rope_type == GGML_ROPE_TYPE_NEOX,
                            .rms_eps = hp->rms_eps};
    *out = NULL;
    cpu_route *route = calloc(1, sizeof *route);
    if (!route)
        return FT_NOMEM;
    route->base = (ft_route){.ops = {.attend = attend, .ctx = route},
                             .begin = begin,
                             .set_inputs = set_inputs,
                             .destroy = destroy,
                             .nodes_per_layer = 2};
    route->batch = opts->batch;
    route->n_layer = hp->n_layer;
    route->layers = calloc(hp->n_layer, sizeof *route->layers);
    ft_status status =
        ft_attn_plan_create(&geo, opts->batch->max_rows, opts->store->n_blocks * FT_KV_BLOCK_TOK,
                            opts->n_threads, &route->plan);
    if (status != FT_OK || !route->layers) {
        destroy(&route->base);
        return FT_NOMEM;
    }
    route->base.bytes = ft_attn_plan_bytes(route->plan);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (ft_kv_store_is_tiled(opts->store, i))
            fill_layer(&route->layers[i], opts, i, route->plan);
    *out = &route->base;
    return FT_OK;
}
