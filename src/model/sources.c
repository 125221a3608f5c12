// SPDX-License-Identifier: Apache-2.0
// Finds the tensors of a family in a checked GGUF file and compares each one's shape and type with
// what the hyperparameters say. In packed files, matrices may have other names and be joined, and
// shapes must fit the packed layout. Stateless; any thread.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hparams.h"
#include "model/pack.h"
#include "model/packed_file.h"

typedef enum presence { NEVER, MAY, MUST } presence;

/* A layer's tensors with their dimensions; out NONE: a vector. */
typedef enum dim { NONE, EMBD, FF, HEADS, KV, HEAD, QKV, GATE_UP } dim;
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
    /* packed files have these, or what they join */
    [FT_PART_QKV] = {"attn_qkv.joined", EMBD, QKV, {NEVER, NEVER, NEVER}},
    [FT_PART_GATE_UP] = {"ffn_gate_up.joined", EMBD, GATE_UP, {NEVER, NEVER, NEVER}},
};

typedef struct finder {
    ft_gguf *gguf;
    const ft_hparams *hp;
    bool packed;      /* it is a packed file */
    bool *used;       /* [n_tensors] */
    int64_t *by_name; /* [n_tensors] indices, sorted: gguf_find_tensor compares with all names */
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
    case QKV:
        return size_of(hp, HEADS) + 2 * size_of(hp, KV);
    case GATE_UP:
        return 2 * size_of(hp, FF);
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

static int by_name(const void *a, const void *b, void *gguf)
{
    return strcmp(gguf_get_tensor_name(gguf, *(const int64_t *)a),
                  gguf_get_tensor_name(gguf, *(const int64_t *)b));
}

static void sort_names(const finder *f, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        f->by_name[i] = i;
    qsort_r(f->by_name, (size_t)n, sizeof *f->by_name, by_name, f->gguf->ctx);
}

/* The index of the tensor with this name; -1: there is none. Names differ from each other. */
static int64_t look_up(const finder *f, const char *name)
{
    const struct gguf_context *g = f->gguf->ctx;
    int64_t low = 0, high = gguf_get_n_tensors(g);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(name, gguf_get_tensor_name(g, f->by_name[middle]));
        if (order == 0)
            return f->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* Returns the tensor's index, or -1. n_out 0: a vector, which must be F32 because ggml adds and
 * multiplies no other type. */
static int64_t find(const finder *f, const char *name, presence need, int64_t n_in, int64_t n_out)
{
    const struct gguf_context *g = f->gguf->ctx;
    if (f->gguf->st != FT_OK)
        return -1;
    int64_t id = look_up(f, name);
    if (id < 0 && need == MUST)
        ft_gguf_refuse(f->gguf, FT_CORRUPT, "tensor '%s' is missing", name);
    if (id < 0 || need == NEVER)
        return -1;
    const int64_t *ne = gguf_get_tensor_ne(g, id);
    enum ggml_type type = gguf_get_tensor_type(g, id);
    int64_t rows = n_out ? n_out : 1;
    if (ne[0] != n_in || ne[1] != rows || ne[2] != 1 || ne[3] != 1)
        ft_gguf_refuse(f->gguf, FT_CORRUPT,
                       "tensor '%s' has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                       "], the hyperparameters want [%" PRId64 ", %" PRId64 "]",
                       name, ne[0], ne[1], ne[2], ne[3], n_in, rows);
    if (n_out ? !matrix_type(type) : type != GGML_TYPE_F32)
        ft_gguf_refuse(f->gguf, FT_UNSUPPORTED,
                       "tensor '%s' has type %s, which cannot be computed there", name,
                       ggml_type_name(type));
    if (f->packed && ft_packed_name(name) && !ft_pack_fits(type, n_in, n_out))
        ft_gguf_refuse(f->gguf, FT_CORRUPT,
                       "tensor '%s': type %s and shape [%" PRId64 ", %" PRId64 "] cannot be packed",
                       name, ggml_type_name(type), n_in, n_out);
    f->used[id] = true;
    return id;
}

void ft_sources_name(uint32_t layer, int part, bool packed, char out[GGML_MAX_NAME])
{
    const char *suffix = parts[part].suffix;
    const int stem = (int)(strrchr(suffix, '.') - suffix);
    snprintf(out, GGML_MAX_NAME, "blk.%u.%.*s%s", layer, packed ? stem : (int)strlen(suffix),
             suffix, packed ? ".packed" : "");
}

/* A layer's part, under either name that it can have. */
static int64_t find_part(const finder *f, uint32_t layer, int part, presence need)
{
    const struct part *p = &parts[part];
    const int64_t n_in = size_of(f->hp, p->in), n_out = p->out == NONE ? 0 : size_of(f->hp, p->out);
    char name[GGML_MAX_NAME];
    int64_t id = -1;
    if (f->packed && n_out) {
        ft_sources_name(layer, part, true, name);
        id = find(f, name, need == MUST ? MAY : need, n_in, n_out);
    }
    ft_sources_name(layer, part, false, name);
    return id >= 0 ? id : find(f, name, need, n_in, n_out);
}

static void find_layer(const finder *f, uint32_t layer, int64_t out[FT_PART_COUNT])
{
    const presence joined = f->packed ? MAY : NEVER;
    out[FT_PART_QKV] = find_part(f, layer, FT_PART_QKV, joined);
    out[FT_PART_GATE_UP] = find_part(f, layer, FT_PART_GATE_UP, joined);
    for (int i = 0; i < FT_PART_QKV; i++) {
        const bool in_qkv = i == FT_PART_Q || i == FT_PART_K || i == FT_PART_V;
        const bool in_gate_up = i == FT_PART_GATE || i == FT_PART_UP;
        const bool is_joined =
            (in_qkv && out[FT_PART_QKV] >= 0) || (in_gate_up && out[FT_PART_GATE_UP] >= 0);
        out[i] = find_part(f, layer, i, is_joined ? NEVER : parts[i].need[f->hp->family]);
    }
}

/* Embedding and output head. A packed embedding serves as the head, too. */
static void find_ends(const finder *f, ft_sources *out)
{
    const int64_t n_embd = f->hp->n_embd, n_vocab = f->hp->n_vocab;
    const presence packed = f->packed ? MAY : NEVER;
    out->output = out->output_copy = -1;
    out->tok_embd = find(f, FT_NAME_PACKED_EMBEDDING, packed, n_embd, n_vocab);
    if (out->tok_embd >= 0) {
        const enum ggml_type type = gguf_get_tensor_type(f->gguf->ctx, out->tok_embd);
        if (!ft_pack_has_rows(type))
            ft_gguf_refuse(f->gguf, FT_CORRUPT, "tensor '%s': no rows of %s can be looked up",
                           FT_NAME_PACKED_EMBEDDING, ggml_type_name(type));
        return;
    }
    out->tok_embd = find(f, "token_embd.weight", MUST, n_embd, n_vocab);
    out->output = find(f, "output.weight", MAY, n_embd, n_vocab);
    if (out->output < 0)
        out->output = find(f, FT_NAME_PACKED_HEAD, packed, n_embd, n_vocab);
    if (out->output < 0)
        out->output_copy = find(f, FT_NAME_PACKED_COPY, packed, n_embd, n_vocab);
}

static void find_all(const finder *f, ft_sources *out)
{
    const ft_hparams *hp = f->hp;
    /* libllama reads RoPE factors (llama 3) for the llama family only. */
    const presence factors = hp->family == FT_FAMILY_LLAMA ? MAY : NEVER;
    find_ends(f, out);
    out->output_norm = find(f, "output_norm.weight", MUST, hp->n_embd, 0);
    out->rope_freqs = find(f, "rope_freqs.weight", factors, hp->n_rot / 2, 0);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        find_layer(f, i, out->layers[i]);
    for (int64_t i = 0; i < gguf_get_n_tensors(f->gguf->ctx); i++)
        if (!f->used[i])
            ft_gguf_refuse(f->gguf, FT_UNSUPPORTED,
                           "tensor '%s' has no place in the %s family's forward pass",
                           gguf_get_tensor_name(f->gguf->ctx, i), ft_family_name(hp->family));
}

ft_status ft_sources_find(ft_gguf *gguf, const ft_hparams *hp, bool packed, ft_sources *out)
{
    size_t n = (size_t)gguf_get_n_tensors(gguf->ctx);
    finder f = {.gguf = gguf,
                .hp = hp,
                .packed = packed,
                .used = calloc(n ? n : 1, sizeof(bool)),
                .by_name = malloc((n ? n : 1) * sizeof(int64_t))};
    *out = (ft_sources){.layers = calloc(hp->n_layer, sizeof *out->layers), .packed = packed};
    if (f.used && f.by_name && out->layers) {
        sort_names(&f, (int64_t)n);
        find_all(&f, out);
    } else {
        ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
    }
    free(f.used);
    free(f.by_name);
    if (gguf->st != FT_OK)
        ft_sources_deinit(out);
    return gguf->st;
}

void ft_sources_deinit(ft_sources *sources)
{
    free(sources->layers);
    *sources = (ft_sources){0};
}

ft_status ft_sources_open(const char *path, ft_error *err, ft_gguf *gguf, ft_hparams *hp,
                          ft_sources *out)
{
    ft_status st = ft_gguf_open(path, err, gguf);
    if (st == FT_OK)
        st = ft_packed_refuse(gguf);
    if (st == FT_OK)
        st = ft_hparams_read(gguf, hp);
    if (st == FT_OK)
        st = ft_sources_find(gguf, hp, false, out);
    if (st != FT_OK)
        ft_gguf_close(gguf);
    return st;
}
