// SPDX-License-Identifier: Apache-2.0
// Model families as graphs. A new family is one entry in the table and its build functions. (llama,
// qwen2 and qwen3 differ only in data: biases, norms of Q and K, and the kind of RoPE.) Stateless.
#include "engine/families.h"
#include "engine/gemm.h"
#include "model/pack.h"

typedef struct ggml_tensor tensor;

/* Input rows of products: plain, converted to the type that packed weights take, or both. The
 * converted ones are made when the first packed weight of that type needs them. */
typedef struct input {
    tensor *x;
    ft_gemm_rows rows;
} input;

/* w in + residual (NULL: none) */
static tensor *matmul_add(ft_build *b, tensor *w, input *in, tensor *residual)
{
    if (ft_is_packed(w)) {
        enum ggml_type type = ft_gemm_rows_type(w->type);
        if (!in->rows.data || in->rows.data->type != type)
            in->rows = ft_gemm_make(b->ctx, type, in->x);
        return ft_gemm(b->ctx, w, &in->rows, residual);
    }
    tensor *y = ft_gemm_ggml(b->ctx, w, in->x);
    return residual ? ggml_add(b->ctx, residual, y) : y;
}

static tensor *matmul(ft_build *b, tensor *w, input *in)
{
    return matmul_add(b, w, in, NULL);
}

#define PLAIN GGML_TYPE_COUNT /* as a type of rows */

/* type: the one that all readers take. */
static input rms_norm(ft_build *b, tensor *x, tensor *weight, enum ggml_type type)
{
    if (type != PLAIN)
        return (input){.rows = ft_gemm_make_norm(b->ctx, type, x, weight, &b->hparams->rms_eps)};
    return (input){.x = ggml_mul(b->ctx, ggml_rms_norm(b->ctx, x, b->hparams->rms_eps), weight)};
}

static enum ggml_type rows_type(const tensor *w)
{
    return ft_is_packed(w) ? ft_gemm_rows_type(w->type) : PLAIN;
}

/* If the parts differ, each makes its own rows from plain ones. */
static enum ggml_type common_rows_type(tensor *joined, tensor *const *parts, size_t n)
{
    enum ggml_type type = rows_type(joined ? joined : parts[0]);
    for (size_t i = 1; i < n && !joined; i++)
        if (rows_type(parts[i]) != type)
            return PLAIN;
    return type;
}

static tensor *rows_of(ft_build *b, tensor *x, size_t first, size_t n)
{
    return ggml_view_2d(b->ctx, x, (int64_t)n, x->ne[1], x->nb[1], first * sizeof(float));
}

/* Attention of norm(x), including the output projection. */
static tensor *attention(ft_build *b, uint32_t il, tensor *x, bool output)
{
    const ft_layer *l = &b->weights->layers[il];
    size_t n_q = (size_t)b->hparams->n_head * b->hparams->head_dim;
    size_t n_kv = (size_t)b->hparams->n_head_kv * b->hparams->head_dim;
    tensor *const parts[] = {l->wq, l->wk, l->wv};
    input in = rms_norm(b, x, l->attn_norm, common_rows_type(l->wqkv, parts, 3));
    tensor *q, *k, *v;
    if (l->wqkv) {
        tensor *qkv = matmul(b, l->wqkv, &in);
        q = rows_of(b, qkv, 0, n_q);
        k = rows_of(b, qkv, n_q, n_kv);
        v = rows_of(b, qkv, n_q + n_kv, n_kv);
    } else {
        q = matmul(b, l->wq, &in);
        k = matmul(b, l->wk, &in);
        v = matmul(b, l->wv, &in);
    }
    return b->route->attend(b, il, q, k, v, output);
}

/* x + FFN(norm(x)) */
static tensor *swiglu_ffn(ft_build *b, const ft_layer *l, tensor *x)
{
    tensor *const parts[] = {l->wgate, l->wup};
    input in = rms_norm(b, x, l->ffn_norm, common_rows_type(l->wgate_up, parts, 2)), h = {0};
    if (!l->wgate_up) {
        tensor *gate = matmul(b, l->wgate, &in);
        h.x = ggml_swiglu_split(b->ctx, gate, matmul(b, l->wup, &in));
    } else if (ft_is_packed(l->wdown)) {
        h.rows = ft_gemm_make_swiglu(b->ctx, rows_type(l->wdown), matmul(b, l->wgate_up, &in));
    } else {
        h.x = ggml_swiglu(b->ctx, matmul(b, l->wgate_up, &in));
    }
    return matmul_add(b, l->wdown, &h, x);
}

static tensor *look_up(ft_build *b)
{
    tensor *table = b->weights->tok_embd;
    return ft_is_packed(table) ? ft_gemm_get_rows(b->ctx, table, b->tokens)
                               : ggml_get_rows(b->ctx, table, b->tokens);
}

/* Pre-norm decoder with SwiGLU. Behind attention, the last layer computes only rows that want
 * logits. */
static tensor *decoder_layer(ft_build *b, uint32_t il, tensor *x)
{
    const ft_layer *l = &b->weights->layers[il];
    bool last = il + 1 == b->hparams->n_layer;
    tensor *a = attention(b, il, x, !last || b->n_out > 0);
    if (last && b->n_out == 0)
        return a;
    if (last) {
        a = ggml_get_rows(b->ctx, a, b->out_ids);
        x = ggml_get_rows(b->ctx, x, b->out_ids);
    }
    input attended = {.x = a};
    x = matmul_add(b, l->wo, &attended, x);
    if (l->bo)
        x = ggml_add(b->ctx, x, l->bo);
    return swiglu_ffn(b, l, x);
}

static tensor *norm_and_project(ft_build *b, tensor *output, tensor *x)
{
    input in = rms_norm(b, x, b->weights->output_norm, rows_type(output));
    return matmul(b, output, &in);
}

typedef struct family {
    tensor *(*embedding)(ft_build *);
    tensor *(*layer)(ft_build *, uint32_t il, tensor *x);
    tensor *(*head)(ft_build *, tensor *output, tensor *rows);
} family;

static const family families[] = {
    [FT_FAMILY_LLAMA] = {look_up, decoder_layer, norm_and_project},
    [FT_FAMILY_QWEN2] = {look_up, decoder_layer, norm_and_project},
    [FT_FAMILY_QWEN3] = {look_up, decoder_layer, norm_and_project},
};

static const family *family_of(const ft_build *b)
{
    return &families[b->hparams->family];
}

tensor *ft_family_build_embedding(ft_build *build)
{
    return family_of(build)->embedding(build);
}

tensor *ft_family_build_layer(ft_build *build, uint32_t il, tensor *x)
{
    ft_build_enter_layer(build, il);
    return family_of(build)->layer(build, il, x);
}

tensor *ft_family_build_head(ft_build *build, tensor *output, tensor *rows)
{
    ft_build_enter_layer(build, build->hparams->n_layer);
    return family_of(build)->head(build, output, rows);
}
