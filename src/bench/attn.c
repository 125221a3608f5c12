// SPDX-License-Identifier: Apache-2.0
// Attention by itself. Ours reads a paged pool of its own, with the block table and the batch that
// the engine would make; ggml's reads one contiguous cache under a causal mask. RoPE of the queries
// is part of ours and not of ggml's; projections are part of neither.
#include "bench/attn.h"

#include <math.h>
#include <stdlib.h>

#include "engine/attn_layout.h"
#include "engine/batch.h"

#define CHUNK 256 /* tokens committed at a time */

typedef struct layer_op {
    ft_attn_layer layer;
    ft_attn_plan *plan;
    atomic_uint next;
} layer_op;

struct ft_bench_attn {
    const ft_hparams *hp;
    uint32_t n_ctx, n_rows;
    const ft_attn_kernel *kernel;
    size_t token_bytes; /* of K, or of V, of one head */
    ft_bench_graph ours, ggml;
    ft_kv kv;
    ft_kv_seq seq;
    bool has_kv;
    ft_batch batch;
    ft_attn_plan *plan;
    layer_op *layers; /* [n_layer] */
};

/* ---- ours ---- */

static void run_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    layer_op *op = userdata;
    const struct ggml_tensor *q = dst->src[0];
    ft_attn_rows rows = {.q = q->data, .q_stride = q->nb[1] / sizeof(float)};
    ft_attn_run(op->plan, &op->layer, &rows, dst->data, (unsigned)ith, &op->next);
}

static void begin(void *ctx)
{
    ft_bench_attn *a = ctx;
    ft_attn_plan_batch(a->plan, &a->batch.attn);
    for (uint32_t i = 0; i < a->hp->n_layer; i++)
        atomic_store_explicit(&a->layers[i].next, 0, memory_order_relaxed);
}

static ft_status extend(ft_bench_attn *a, uint32_t n)
{
    ft_status status = ft_kv_seq_reserve(&a->seq, n);
    if (status == FT_OK)
        ft_kv_seq_extend(&a->seq, NULL, n);
    return status;
}

static ft_status fill_seq(ft_bench_attn *a, ft_error *err)
{
    uint32_t path[CHUNK];
    uint32_t n_blocks = (a->n_ctx + a->n_rows) / FT_KV_BLOCK_TOK + 2;
    ft_status status = ft_kv_init(&a->kv, n_blocks, NULL, NULL);
    if (status != FT_OK)
        return status;
    ft_kv_seq_init(&a->seq, &a->kv);
    a->has_kv = true;
    for (uint32_t i = 0; i < CHUNK; i++)
        path[i] = i;
    for (uint32_t at = 0; at < a->n_ctx && status == FT_OK; at += CHUNK) {
        uint32_t n = a->n_ctx - at < CHUNK ? a->n_ctx - at : CHUNK;
        status = extend(a, n);
        if (status == FT_OK)
            status = ft_kv_seq_commit(&a->seq, path, n, NULL, 0, err);
    }
    return status == FT_OK ? extend(a, a->n_rows) : status;
}

static ft_status plan(ft_bench_attn *a, int n_threads, float rope_base)
{
    const ft_hparams *hp = a->hp;
    const ft_attn_geometry geo = {.n_head = hp->n_head,
                                  .n_head_kv = hp->n_head_kv,
                                  .head_dim = hp->head_dim,
                                  .n_rot = hp->n_rot,
                                  .rope_neox = hp->rope_type == GGML_ROPE_TYPE_NEOX,
                                  .rms_eps = hp->rms_eps};
    const ft_rope_opts rope = {.n_rot = hp->n_rot, .base = rope_base, .scale = 1};
    ft_segment segment = {.n = a->n_rows};
    ft_status status = ft_batch_init(&a->batch, a->n_rows, hp->n_rot);
    int32_t *tokens = calloc(a->n_rows, sizeof *tokens);
    if (status == FT_OK && !tokens)
        status = FT_NOMEM;
    segment.tokens = tokens;
    if (status == FT_OK) {
        ft_batch_clear(&a->batch);
        ft_batch_add(&a->batch, &segment, &a->seq, &rope);
        status = ft_attn_plan_create(&geo, a->n_rows, a->kv.n_blocks * FT_KV_BLOCK_TOK,
                                     (uint32_t)n_threads, &a->plan);
    }
    free(tokens);
    return status;
}

static ft_status add_ours(ft_bench_attn *a, ft_error *err)
{
    const ft_hparams *hp = a->hp;
    ft_bench_graph *g = &a->ours;
    int64_t width = (int64_t)hp->n_head * hp->head_dim;
    int64_t pool =
        (int64_t)a->kv.n_blocks * FT_KV_BLOCK_TOK * hp->n_head_kv * (int64_t)a->token_bytes;
    struct ggml_tensor *q = ggml_new_tensor_2d(g->inputs, GGML_TYPE_F32, width, a->n_rows);
    a->layers = calloc(hp->n_layer, sizeof *a->layers);
    if (!a->layers)
        return FT_NOMEM;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct ggml_tensor *args[] = {q, ggml_new_tensor_1d(g->inputs, GGML_TYPE_I8, pool),
                                      ggml_new_tensor_1d(g->inputs, GGML_TYPE_I8, pool)};
        ft_bench_graph_add(g, ggml_custom_4d(g->ctx, GGML_TYPE_F32, width, a->n_rows, 1, 1, args, 3,
                                             run_op, GGML_N_TASKS_MAX, &a->layers[i]));
    }
    ft_status status = ft_bench_graph_fill(g, err);
    for (uint32_t i = 0; i < hp->n_layer && status == FT_OK; i++) {
        struct ggml_tensor *result = ggml_graph_node(g->graph, (int)i);
        a->layers[i].plan = a->plan;
        a->layers[i].layer =
            (ft_attn_layer){.k = result->src[1]->data,
                            .v = result->src[2]->data,
                            .block_bytes = FT_KV_BLOCK_TOK * hp->n_head_kv * a->token_bytes,
                            .kernel = a->kernel};
    }
    g->before = begin;
    g->before_ctx = a;
    return status == FT_OK ? ft_bench_graph_ready(g, err) : status;
}

/* ---- ggml's ---- */

/* Row r sees the context and the rows up to itself. */
static void fill_mask(const ft_bench_attn *a, struct ggml_tensor *mask)
{
    const ggml_fp16_t hidden = ggml_fp32_to_fp16(-INFINITY);
    for (int64_t r = 0; r < mask->ne[1]; r++)
        for (int64_t i = 0; i < mask->ne[0]; i++)
            ((ggml_fp16_t *)mask->data)[r * mask->ne[0] + i] =
                i <= (int64_t)a->n_ctx + r ? 0 : hidden;
}

static ft_status add_ggml(ft_bench_attn *a, ft_error *err)
{
    const ft_hparams *hp = a->hp;
    ft_bench_graph *g = &a->ggml;
    int64_t dim = hp->head_dim, n_kv = ((int64_t)a->n_ctx + a->n_rows + 255) / 256 * 256;
    struct ggml_tensor *q =
        ggml_new_tensor_3d(g->inputs, GGML_TYPE_F32, dim, a->n_rows, hp->n_head);
    struct ggml_tensor *mask = ggml_new_tensor_2d(g->inputs, GGML_TYPE_F16, n_kv, a->n_rows);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct ggml_tensor *k =
            ggml_new_tensor_3d(g->inputs, GGML_TYPE_F16, dim, n_kv, hp->n_head_kv);
        struct ggml_tensor *v =
            ggml_new_tensor_3d(g->inputs, GGML_TYPE_F16, dim, n_kv, hp->n_head_kv);
        ft_bench_graph_add(
            g, ggml_flash_attn_ext(g->ctx, q, k, v, mask, 1.0f / sqrtf((float)dim), 0, 0));
    }
    ft_status status = ft_bench_graph_fill(g, err);
    if (status != FT_OK)
        return status;
    fill_mask(a, mask);
    return ft_bench_graph_ready(g, err);
}

/* ---- both ---- */

ft_status ft_bench_attn_create(const ft_bench_attn_opts *opts, ft_error *err, ft_bench_attn **out)
{
    ft_bench_attn *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    a->hp = ft_model_hparams(opts->model);
    a->n_ctx = opts->n_ctx;
    a->n_rows = opts->n_rows;
    a->kernel = ft_attn_kernel_best(opts->kv_type, a->hp->head_dim);
    a->token_bytes = ft_attn_token_bytes(opts->kv_type, a->hp->head_dim);
    if (!a->kernel) {
        free(a);
        return ft_error_set(err, FT_UNSUPPORTED, "that KV type cannot hold the model's heads");
    }
    size_t n_nodes = (size_t)a->hp->n_layer * 4 + 8;
    ft_status status = ft_bench_graph_open(opts->cpu, n_nodes, err, &a->ours);
    if (status == FT_OK)
        status = ft_bench_graph_open(opts->cpu, n_nodes, err, &a->ggml);
    if (status == FT_OK)
        status = fill_seq(a, err);
    if (status == FT_OK)
        status = plan(a, opts->n_threads, a->hp->rope_base);
    if (status == FT_OK)
        status = add_ours(a, err);
    if (status == FT_OK)
        status = add_ggml(a, err);
    if (status != FT_OK) {
        ft_bench_attn_destroy(a);
        return ft_error_set(err, status, "no memory for attention over %u tokens", opts->n_ctx);
    }
    *out = a;
    return FT_OK;
}

void ft_bench_attn_destroy(ft_bench_attn *a)
{
    if (!a)
        return;
    ft_bench_graph_close(&a->ours);
    ft_bench_graph_close(&a->ggml);
    ft_attn_plan_destroy(a->plan);
    ft_batch_deinit(&a->batch);
    if (a->has_kv) {
        ft_kv_seq_deinit(&a->seq);
        ft_kv_deinit(&a->kv);
    }
    free(a->layers);
    free(a);
}

ft_bench_graph *ft_bench_attn_ours(ft_bench_attn *a)
{
    return &a->ours;
}

ft_bench_graph *ft_bench_attn_ggml(ft_bench_attn *a)
{
    return &a->ggml;
}
