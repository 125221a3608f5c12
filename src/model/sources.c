// SPDX-License-Identifier: Apache-2.0
// Finds the tensors of a family in a checked GGUF file and compares each one's shape and type with
// what the hyperparameters say. Stateless; any thread.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hparams.h"

typedef enum presence { NEVER, MAY, MUST } presence;

/* A layer's tensors. rows and cols name the dimension; cols NONE: a vector. */
typedef enum dim { NONE, EMBD, FF, HEADS, KV, HEAD } dim;
static const struct part {
    const char *suffix;
    dim in, out;
    presence need[FT_FAMILY_COUNT];
} parts[FT_PART_COUNT] = {
    [FT_PART_ATTN_NORM] = {"attn_norm.weight", EMBD, NONE, {MUST, MUST, MUST}},
    [FT_PART_Q] = {"attn_q.weight", EMBD, HEADS, {MUST, MUST, MUST}},
    [FT_PART_K] = {"attn_k.weight", EMBD, KV, {MUST, MUST, MUST}},
    [FT_PART_V] = {"attn_v.weight", EMBD, KV, {MUST, MUST, MUST}},
    [FT_PART_BQ] = {"attn_q.bias", HEADS, NONE, {NEVER, MUST, NEVER}},
    [FT_PART_BK] = {"attn_k.bias", KV, NONE, {NEVER, MUST, NEVER}},
    [FT_PART_BV] = {"attn_v.bias", KV, NONE, {NEVER, MUST, NEVER}},
    [FT_PART_Q_NORM] = {"attn_q_norm.weight", HEAD, NONE, {NEVER, NEVER, MUST}},
    [FT_PART_K_NORM] = {"attn_k_norm.weight", HEAD, NONE, {NEVER, NEVER, MUST}},
    [FT_PART_O] = {"attn_output.weight", HEADS, EMBD, {MUST, MUST, MUST}},
    [FT_PART_BO] = {"attn_output.bias", EMBD, NONE, {MAY, NEVER, NEVER}},
    [FT_PART_FFN_NORM] = {"ffn_norm.weight", EMBD, NONE, {MUST, MUST, MUST}},
    [FT_PART_GATE] = {"ffn_gate.weight", EMBD, FF, {MUST, MUST, MUST}},
    [FT_PART_UP] = {"ffn_up.weight", EMBD, FF, {MUST, MUST, MUST}},
    [FT_PART_DOWN] = {"ffn_down.weight", FF, EMBD, {MUST, MUST, MUST}},
};

typedef struct finder {
    const ft_gguf *gguf;
    const ft_hparams *hp;
    ft_error *err;
    bool *used; /* [n_tensors] */
} finder;

static int64_t size_of(const ft_hparams *hp, dim d)
{
    switch (d) {
    case EMBD:
        return hp->n_embd;
    case FF:
        return hp->n_ff;
    case HEADS:
        return (int64_t)hp->n_head * hp->head_dim;
    case KV:
        return (int64_t)hp->n_head_kv * hp->head_dim;
    case HEAD:
        return hp->head_dim;
    case NONE:
        break;
    }
    return 1;
}

/* Types that ggml's CPU backend both multiplies and looks rows up in. */
static bool matrix_type(enum ggml_type type)
{
    if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16)
        return true;
    return ggml_is_quantized(type) && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K;
}

/* n_out 0: a vector, which must be F32 because ggml adds and multiplies no other type. */
static ft_status find(const finder *f, const char *name, presence need, int64_t n_in, int64_t n_out,
                      int64_t *out)
{
    const struct gguf_context *g = f->gguf->ctx;
    int64_t id = gguf_find_tensor(g, name);
    *out = -1;
    if (id < 0 && need == MUST)
        return ft_error_set(f->err, FT_CORRUPT, "%s: tensor '%s' is missing", f->gguf->path, name);
    if (id < 0 || need == NEVER)
        return FT_OK;
    const int64_t *ne = gguf_get_tensor_ne(g, id);
    enum ggml_type type = gguf_get_tensor_type(g, id);
    int64_t rows = n_out ? n_out : 1;
    if (ne[0] != n_in || ne[1] != rows || ne[2] != 1 || ne[3] != 1)
        return ft_error_set(f->err, FT_CORRUPT,
                            "%s: tensor '%s' has shape [%" PRId64 ", %" PRId64 ", %" PRId64
                            ", %" PRId64 "], the hyperparameters want [%" PRId64 ", %" PRId64 "]",
                            f->gguf->path, name, ne[0], ne[1], ne[2], ne[3], n_in, rows);
    if (n_out ? !matrix_type(type) : type != GGML_TYPE_F32)
        return ft_error_set(f->err, FT_UNSUPPORTED,
                            "%s: tensor '%s' has type %s, which cannot be "
                            "computed there",
                            f->gguf->path, name, ggml_type_name(type));
    f->used[id] = true;
    *out = id;
    return FT_OK;
}

static ft_status find_layer(const finder *f, uint32_t layer, int64_t out[FT_PART_COUNT])
{
    for (int i = 0; i < FT_PART_COUNT; i++) {
        const struct part *p = &parts[i];
        char name[GGML_MAX_NAME];
        snprintf(name, sizeof name, "blk.%u.%s", layer, p->suffix);
        ft_status st = find(f, name, p->need[f->hp->family], size_of(f->hp, p->in),
                            p->out == NONE ? 0 : size_of(f->hp, p->out), &out[i]);
        if (st != FT_OK)
            return st;
    }
    return FT_OK;
}

static ft_status find_all(const finder *f, ft_sources *out)
{
    const ft_hparams *hp = f->hp;
    ft_status st = find(f, "token_embd.weight", MUST, hp->n_embd, hp->n_vocab, &out->tok_embd);
    if (st == FT_OK)
        st = find(f, "output_norm.weight", MUST, hp->n_embd, 0, &out->output_norm);
    if (st == FT_OK)
        st = find(f, "output.weight", MAY, hp->n_embd, hp->n_vocab, &out->output);
    /* libllama reads RoPE factors (llama 3) for the llama family only. */
    if (st == FT_OK)
        st = find(f, "rope_freqs.weight", hp->family == FT_FAMILY_LLAMA ? MAY : NEVER,
                  hp->n_rot / 2, 0, &out->rope_freqs);
    for (uint32_t i = 0; i < hp->n_layer && st == FT_OK; i++)
        st = find_layer(f, i, out->layers[i]);
    for (int64_t i = 0; i < gguf_get_n_tensors(f->gguf->ctx) && st == FT_OK; i++)
        if (!f->used[i])
            st = ft_error_set(f->err, FT_UNSUPPORTED,
                              "%s: tensor '%s' has no place in the %s family's forward pass",
                              f->gguf->path, gguf_get_tensor_name(f->gguf->ctx, i),
                              ft_family_name(hp->family));
    return st;
}

ft_status ft_sources_find(const ft_gguf *gguf, const ft_hparams *hp, ft_error *err, ft_sources *out)
{
    size_t n = (size_t)gguf_get_n_tensors(gguf->ctx);
    finder f = {.gguf = gguf, .hp = hp, .err = err, .used = calloc(n ? n : 1, sizeof(bool))};
    *out = (ft_sources){.layers = calloc(hp->n_layer, sizeof *out->layers)};
    ft_status st = f.used && out->layers
                       ? find_all(&f, out)
                       : ft_error_set(err, FT_NOMEM, "%s: out of memory", gguf->path);
    free(f.used);
    if (st != FT_OK)
        ft_sources_deinit(out);
    return st;
}

void ft_sources_deinit(ft_sources *sources)
{
    free(sources->layers);
    *sources = (ft_sources){0};
}
