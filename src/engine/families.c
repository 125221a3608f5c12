// SPDX-License-Identifier: Apache-2.0
// Model families as graphs. A new family is one entry in the table and its build function (llama,
// qwen2 and qwen3 differ only in biases, in norms of Q and K and in the kind of RoPE, which are data).
// Stateless.
#include "engine/graph.h"
#include "ggml-backend.h"

typedef struct ggml_tensor tensor;

/* True if ggml's product with these weights may round a row differently when other rows are in the
 * batch: its tiled kernels for K-quants and plain IQ4_NL take over at 8 and at 2 rows. (Float types
 * differ too; there speed matters more, and files that promise equal text are 4-bit ones.) */
static bool depends_on_batch(const tensor *w)
{
    switch (w->type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_MXFP4:
        return false;
    default: /* repacked ones are not the host's to read, and do not depend on it */
        return ggml_backend_buft_is_host(ggml_backend_buffer_get_type(w->buffer));
    }
}

/* w x for all rows. Rows laid out as matrices of one row each go through ggml's one-row kernel, which
 * gives every row the bits it gets alone. */
static tensor *matmul(ft_build *b, tensor *w, tensor *x)
{
    if (!depends_on_batch(w))
        return ggml_mul_mat(b->ctx, w, x);
    tensor *rows = ggml_reshape_3d(b->ctx, x, x->ne[0], 1, x->ne[1]);
    tensor *y = ggml_mul_mat(b->ctx, w, rows);
    return ggml_reshape_2d(b->ctx, y, y->ne[0], y->ne[2]);
}

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
        tensor *qkv = matmul(b, l->wqkv, x);
        q = rows_of(b, qkv, 0, n_q);
        k = rows_of(b, qkv, n_q, n_kv);
        v = rows_of(b, qkv, n_q + n_kv, n_kv);
    } else {
        q = matmul(b, l->wq, x);
        k = matmul(b, l->wk, x);
        v = matmul(b, l->wv, x);
    }
    return b->route->attend(b, il, q, k, v, output);
}

static tensor *swiglu_ffn(ft_build *b, const ft_layer *l, tensor *x)
{
    tensor *h;
    if (l->wgate_up)
        h = ggml_swiglu(b->ctx, matmul(b, l->wgate_up, x));
    else
        h = ggml_swiglu_split(b->ctx, matmul(b, l->wgate, x), matmul(b, l->wup, x));
    return matmul(b, l->wdown, h);
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
        a = matmul(b, l->wo, a);
        if (l->bo)
            a = ggml_add(b->ctx, a, l->bo);
        x = ggml_add(b->ctx, x, a);
        x = ggml_add(b->ctx, x, swiglu_ffn(b, l, rms_norm(b, x, l->ffn_norm)));
    }
    return matmul(b, w->output, rms_norm(b, x, w->output_norm));
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
