// SPDX-License-Identifier: Apache-2.0
// Model families as graphs. A new family is one entry in the table and its build function (llama,
// qwen2 and qwen3 differ only in biases, in norms of Q and K and in the kind of RoPE, which are data).
// Stateless.
#include "engine/graph.h"

typedef struct ggml_tensor tensor;

static tensor *rms_norm(ft_build *b, tensor *x, tensor *weight)
{
    return ggml_mul(b->ctx, ggml_rms_norm(b->ctx, x, b->hparams->rms_eps), weight);
}

static tensor *rows_of(ft_build *b, tensor *x, size_t first, size_t n)
{
    return ggml_view_2d(b->ctx, x, (int64_t)n, x->ne[1], x->nb[1], first * sizeof(float));
}

static tensor *attention(ft_build *b, uint32_t il, tensor *x, bool output)
{
    const ft_layer *l = &b->weights->layers[il];
    size_t n_q = (size_t)b->hparams->n_head * b->hparams->head_dim;
    size_t n_kv = (size_t)b->hparams->n_head_kv * b->hparams->head_dim;
    tensor *q, *k, *v;
    if (l->wqkv) {
        tensor *qkv = ggml_mul_mat(b->ctx, l->wqkv, x);
        q = rows_of(b, qkv, 0, n_q);
        k = rows_of(b, qkv, n_q, n_kv);
        v = rows_of(b, qkv, n_q + n_kv, n_kv);
    } else {
        q = ggml_mul_mat(b->ctx, l->wq, x);
        k = ggml_mul_mat(b->ctx, l->wk, x);
        v = ggml_mul_mat(b->ctx, l->wv, x);
    }
    return b->route->attend(b, il, q, k, v, output);
}

static tensor *swiglu_ffn(ft_build *b, const ft_layer *l, tensor *x)
{
    tensor *h;
    if (l->wgate_up)
        h = ggml_swiglu(b->ctx, ggml_mul_mat(b->ctx, l->wgate_up, x));
    else
        h = ggml_swiglu_split(b->ctx, ggml_mul_mat(b->ctx, l->wgate, x),
                              ggml_mul_mat(b->ctx, l->wup, x));
    return ggml_mul_mat(b->ctx, l->wdown, h);
}

/* Pre-norm decoder with SwiGLU. In the last layer only rows that want logits go on behind attention. */
static tensor *build_decoder(ft_build *b)
{
    const ft_weights *w = b->weights;
    tensor *x = ggml_get_rows(b->ctx, w->tok_embd, b->tokens);
    for (uint32_t il = 0; il < b->hparams->n_layer; il++) {
        const ft_layer *l = &w->layers[il];
        bool last = il + 1 == b->hparams->n_layer;
        tensor *a = attention(b, il, rms_norm(b, x, l->attn_norm), !last || b->n_out > 0);
        if (last && b->n_out == 0)
            return a;
        if (last) {
            a = ggml_get_rows(b->ctx, a, b->out_ids);
            x = ggml_get_rows(b->ctx, x, b->out_ids);
        }
        a = ggml_mul_mat(b->ctx, l->wo, a);
        if (l->bo)
            a = ggml_add(b->ctx, a, l->bo);
        x = ggml_add(b->ctx, x, a);
        x = ggml_add(b->ctx, x, swiglu_ffn(b, l, rms_norm(b, x, l->ffn_norm)));
    }
    return ggml_mul_mat(b->ctx, w->output, rms_norm(b, x, w->output_norm));
}

static tensor *(*const families[])(ft_build *) = {
    [FT_FAMILY_LLAMA] = build_decoder,
    [FT_FAMILY_QWEN2] = build_decoder,
    [FT_FAMILY_QWEN3] = build_decoder,
};

tensor *ft_family_build(ft_build *build)
{
    return families[build->hparams->family](build);
}
