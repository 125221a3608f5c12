// SPDX-License-Identifier: Apache-2.0
// Adds layers that cost as much as any other layer and add nothing: copies whose attention output
// and FFN down projections (and the bias of the former) are zero. x + 0 = x in every floating-point
// format.
//
// Copies stand in front of the layer that they copy, evenly over the depth:
// - a copy reads the same input as its original. So its attention computes exactly the same
//   numbers, and its FFN nearly the same. (A hidden value that overflowed would give 0 * inf, not
//   0.)
// - the last layer stays the last. Engines compute only its rows whose logits are wanted; in
//   batches of other sizes their kernels may round differently;
// - files that mix weight types by depth (Q4_K_M) keep their mix, and so their cost for each layer.
//
// Stateless; one call is one thread. Tensors are copied in pieces; none is in memory as a whole.
#include "model/inflate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"
#include "model/hparams.h"
#include "model/new_file.h"

enum { PIECE = 1 << 20 };

/* A tensor of the new file. */
typedef struct copy {
    int64_t from; /* of the old file */
    bool zero;
} copy;

typedef struct inflater {
    const ft_inflate_opts *opts;
    ft_error *err;
    ft_gguf in;
    ft_hparams hp;
    ft_sources sources;
    struct gguf_context *out;
    struct ggml_context *tensors; /* descriptions only */
    copy *copies;                 /* [n_copies], in the order of the new file */
    size_t n_copies;
    uint8_t *piece; /* [PIECE] */
} inflater;

/* The number of the old layer that a new layer is, or is a copy of. */
static uint32_t source_of(const inflater *f, uint32_t layer)
{
    return (uint32_t)((uint64_t)layer * f->hp.n_layer / f->opts->n_layer);
}

/* Every old layer comes last among the new layers that have it as their source. */
static bool is_copy(const inflater *f, uint32_t layer)
{
    return layer + 1 < f->opts->n_layer && source_of(f, layer + 1) == source_of(f, layer);
}

static ft_status no_memory(const inflater *f)
{
    return ft_error_set(f->err, FT_NOMEM, "%s: out of memory", f->opts->out);
}

/* Refuses a type whose zero bytes are not zeros. No type so far is like that: each block has its
 * own scale and minimum, and their zero bytes are the number zero. */
static ft_status check_zero(const inflater *f, enum ggml_type type)
{
    _Alignas(64) static const uint8_t zero[512];
    float values[512];
    size_t n = (size_t)ggml_blck_size(type);
    ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
    if (type == GGML_TYPE_F32)
        return FT_OK;
    if (to_float && n <= 512 && ggml_type_size(type) <= sizeof zero) {
        to_float(zero, values, (int64_t)n);
        while (n > 0 && values[n - 1] == 0)
            n--;
        if (n == 0)
            return FT_OK;
    }
    return ft_error_set(
        f->err, FT_UNSUPPORTED,
        "%s: zero bytes of type %s are not zeros: quantize it to another type first", f->opts->in,
        ggml_type_name(type));
}

static ft_status add_tensor(inflater *f, int64_t from, const char *name, bool zero)
{
    enum ggml_type type = gguf_get_tensor_type(f->in.ctx, from);
    const int64_t *ne = gguf_get_tensor_ne(f->in.ctx, from);
    ft_status st = zero ? check_zero(f, type) : FT_OK;
    if (st != FT_OK)
        return st;
    struct ggml_tensor *t = ggml_new_tensor(f->tensors, type, GGML_MAX_DIMS, ne);
    if (!t)
        return no_memory(f);
    ggml_set_name(t, name);
    gguf_add_tensor(f->out, t);
    f->copies[f->n_copies++] = (copy){from, zero};
    return FT_OK;
}

static ft_status add_layer(inflater *f, uint32_t layer)
{
    const int64_t *parts = f->sources.layers[source_of(f, layer)];
    for (int i = 0; i < FT_PART_COUNT; i++) {
        char name[GGML_MAX_NAME];
        if (parts[i] < 0)
            continue;
        const char *old = gguf_get_tensor_name(f->in.ctx, parts[i]); /* blk.N.SUFFIX */
        snprintf(name, sizeof name, "blk.%u%s", layer, strchr(strchr(old, '.') + 1, '.'));
        bool output = i == FT_PART_O || i == FT_PART_BO || i == FT_PART_DOWN;
        ft_status st = add_tensor(f, parts[i], name, output && is_copy(f, layer));
        if (st != FT_OK)
            return st;
    }
    return FT_OK;
}

static ft_status add_tensors(inflater *f)
{
    const int64_t whole[] = {f->sources.tok_embd, f->sources.output_norm, f->sources.output,
                             f->sources.rope_freqs};
    size_t n = 4 + (size_t)f->opts->n_layer * FT_PART_COUNT;
    struct ggml_init_params params = {.mem_size = n * ggml_tensor_overhead(), .no_alloc = true};
    f->tensors = ggml_init(params);
    f->copies = malloc(n * sizeof *f->copies);
    ft_status st = f->tensors && f->copies ? FT_OK : no_memory(f);
    for (size_t i = 0; i < 4 && st == FT_OK; i++)
        if (whole[i] >= 0)
            st = add_tensor(f, whole[i], gguf_get_tensor_name(f->in.ctx, whole[i]), false);
    for (uint32_t i = 0; i < f->opts->n_layer && st == FT_OK; i++)
        st = add_layer(f, i);
    return st;
}

static ft_status set_name(inflater *f)
{
    const char *old = "a model without a name";
    ft_buf name = {0};
    ft_gguf_str(&f->in, "general.name", false, &old);
    ft_status st = ft_buf_printf(&name, "%s, inflated from %u to %u layers", old, f->hp.n_layer,
                                 f->opts->n_layer);
    if (st == FT_OK)
        gguf_set_val_str(f->out, "general.name", name.data);
    ft_buf_deinit(&name);
    return st == FT_OK ? f->in.st : no_memory(f);
}

static ft_status set_keys(inflater *f)
{
    char key[64];
    f->out = gguf_init_empty();
    if (!f->out)
        return no_memory(f);
    gguf_set_kv(f->out, f->in.ctx);
    gguf_remove_key(f->out, GGUF_KEY_GENERAL_ALIGNMENT); /* ggml's writer has its own */
    gguf_remove_key(f->out, "general.size_label");       /* "135M" */
    snprintf(key, sizeof key, "%s.block_count", ft_family_name(f->hp.family));
    gguf_set_val_u32(f->out, key, f->opts->n_layer);
    return set_name(f);
}

static ft_status write_meta(inflater *f, ft_new_file *file)
{
    size_t n = gguf_get_meta_size(f->out);
    void *meta = malloc(n);
    if (!meta)
        return no_memory(f);
    gguf_get_meta_data(f->out, meta);
    ft_status st = ft_new_file_write(file, meta, n, f->err);
    free(meta);
    return st;
}

/* Including the padding behind it. */
static ft_status write_tensor(inflater *f, ft_new_file *file, size_t i)
{
    uint64_t at = ft_gguf_tensor_file_offset(&f->in, f->copies[i].from);
    size_t left = gguf_get_tensor_size(f->out, (int64_t)i), alignment = gguf_get_alignment(f->out);
    size_t padding = (alignment - left % alignment) % alignment;
    ft_status st = FT_OK;
    while (left > 0 && st == FT_OK) {
        size_t n = left < PIECE ? left : PIECE;
        if (f->copies[i].zero)
            memset(f->piece, 0, n);
        else
            st = ft_gguf_read(&f->in, at, f->piece, n);
        if (st == FT_OK)
            st = ft_new_file_write(file, f->piece, n, f->err);
        at += n;
        left -= n;
    }
    memset(f->piece, 0, padding);
    return st == FT_OK ? ft_new_file_write(file, f->piece, padding, f->err) : st;
}

static ft_status write_file(inflater *f)
{
    ft_new_file file;
    ft_status st = ft_new_file_create(f->opts->in, f->opts->out, f->err, &file);
    if (st != FT_OK)
        return st;
    size_t last = f->n_copies - 1;
    uint64_t total =
        gguf_get_tensor_offset(f->out, (int64_t)last) + gguf_get_tensor_size(f->out, (int64_t)last);
    st = write_meta(f, &file);
    for (size_t i = 0; i <= last && st == FT_OK; i++) {
        st = write_tensor(f, &file, i);
        if (st == FT_OK)
            ft_progress_report(&f->opts->progress,
                               i == last ? total : gguf_get_tensor_offset(f->out, (int64_t)i + 1),
                               total);
    }
    return ft_new_file_finish(&file, st, f->err);
}

static ft_status check_layers(const inflater *f)
{
    if (f->opts->n_layer <= f->hp.n_layer)
        return ft_error_set(f->err, FT_INVALID, "%s has %u layers: ask for more than these, not %u",
                            f->opts->in, f->hp.n_layer, f->opts->n_layer);
    if (f->opts->n_layer > FT_MAX_LAYERS)
        return ft_error_set(f->err, FT_INVALID, "%u layers: no more than %d can be loaded",
                            f->opts->n_layer, FT_MAX_LAYERS);
    return FT_OK;
}

ft_status ft_model_inflate(const ft_inflate_opts *opts, ft_error *err, uint32_t *had)
{
    inflater f = {.opts = opts, .err = err, .in.fd = -1, .piece = malloc(PIECE)};
    ft_status st = ft_sources_open(opts->in, err, &f.in, &f.hp, &f.sources);
    if (st == FT_OK)
        st = f.piece ? check_layers(&f) : no_memory(&f);
    if (st == FT_OK)
        st = set_keys(&f);
    if (st == FT_OK)
        st = add_tensors(&f);
    if (st == FT_OK)
        st = write_file(&f);
    if (st == FT_OK && had)
        *had = f.hp.n_layer;
    ft_sources_deinit(&f.sources);
    gguf_free(f.out);
    ggml_free(f.tensors);
    free(f.copies);
    free(f.piece);
    ft_gguf_close(&f.in);
    return st;
}
