// SPDX-License-Identifier: Apache-2.0
// Writes packed files. The weights are planned as for loading (load_plan.c), and each becomes a
// tensor of the new file. The metadata comes first in a file, but holds the hashes of all tensors:
// its place is left empty and filled in at the end. Stateless; one call is one thread. Tensors are
// packed in pieces; none is in memory as a whole.
#include "model/pack_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fingerprint.h"
#include "model/llama_calls.h"
#include "model/load_plan.h"
#include "model/new_file.h"
#include "model/packed_file.h"
#include "xxhash.h"

#define PIECE ((size_t)1 << 20) /* bytes that are packed at once; it bounds the memory */

typedef struct packer {
    const ft_pack_file_opts *opts;
    ft_error *err;
    ft_gguf *in;
    const ft_hparams *hp;
    const ft_sources *sources;
    ft_weights weights; /* only for the plan's slots */
    ft_plan plan;
    size_t *order; /* [n] of the plan's weights, as the new file has them */
    size_t n;
    struct gguf_context *out;
    struct ggml_context *tensors; /* descriptions only */
    uint64_t *hash;               /* [n] */
    uint8_t *plain, *packed;      /* pieces */
    XXH3_state_t *state;
} packer;

static ft_status no_memory(const packer *p)
{
    return ft_error_set(p->err, FT_NOMEM, "%s: out of memory", p->opts->out);
}

static ft_status make_plan(packer *p)
{
    const ft_model_opts opts = {.path = p->opts->in};
    ft_placer placer;
    const ft_plan_input in = {&opts, p->in, p->hp, p->sources, &placer, NULL};
    ft_status st =
        ft_placer_init(&placer, p->opts->no_pack ? FT_PLACE_NO_PACK : 0u, p->opts->choose, p->err);
    if (st == FT_OK)
        st = ft_plan_make(&in, p->err, &p->weights, &p->plan);
    if (st != FT_OK)
        return st;
    p->order = malloc(p->plan.n * sizeof *p->order);
    p->hash = calloc(p->plan.n, sizeof *p->hash);
    if (!p->order || !p->hash)
        return no_memory(p);
    p->n = ft_plan_file_order(&p->plan, p->order);
    return FT_OK;
}

/* A piece is whole tiles of any weight. */
static ft_status make_pieces(packer *p)
{
    size_t bytes = PIECE;
    for (size_t i = 0; i < p->n; i++) {
        const ft_matrix m = ft_planned_matrix(&p->plan, &p->plan.weights[p->order[i]]);
        bytes = ft_matrix_unit(&m) > bytes ? ft_matrix_unit(&m) : bytes;
    }
    p->plain = malloc(bytes);
    p->packed = malloc(bytes);
    p->state = XXH3_createState();
    return p->plain && p->packed && p->state ? FT_OK : no_memory(p);
}

/* ---- metadata ---- */

/* An empty file whose tensors will be aligned to 4 KiB: ggml takes the alignment only from a file
 * that it reads. */
static ft_status make_empty(packer *p)
{
    static const char key[] = GGUF_KEY_GENERAL_ALIGNMENT;
    const uint64_t counts[] = {0, 1 /* keys */}, n_key = sizeof key - 1;
    const uint32_t version = GGUF_VERSION, value[] = {GGUF_TYPE_UINT32, FT_PACKED_ALIGNMENT};
    ft_buf file = {0};
    ft_error why = {0};
    ft_buf_append(&file, GGUF_MAGIC, 4);
    ft_buf_append(&file, &version, sizeof version);
    ft_buf_append(&file, counts, sizeof counts);
    ft_buf_append(&file, &n_key, sizeof n_key);
    ft_buf_append(&file, key, n_key);
    ft_buf_append(&file, value, sizeof value);
    ft_status st = file.failed ? no_memory(p) : ft_llama_gguf(file.data, file.len, &why, &p->out);
    ft_buf_deinit(&file);
    if (st != FT_OK && st != FT_NOMEM)
        return ft_error_set(p->err, FT_INTERNAL, "%s: %s", p->opts->out, why.message);
    return st == FT_OK ? st : no_memory(p);
}

static ft_status set_keys(packer *p)
{
    uint64_t sums[2];
    ft_status st = ft_fingerprint_sums(p->in, sums);
    if (st == FT_OK)
        st = make_empty(p);
    if (st != FT_OK)
        return st;
    gguf_set_kv(p->out, p->in->ctx);
    gguf_set_val_u32(p->out, GGUF_KEY_GENERAL_ALIGNMENT, FT_PACKED_ALIGNMENT);
    gguf_set_val_u32(p->out, FT_KEY_PACKED_VERSION, FT_PACKED_VERSION);
    gguf_set_arr_data(p->out, FT_KEY_PACKED_SUMS, GGUF_TYPE_UINT64, sums, 2);
    gguf_set_arr_data(p->out, FT_KEY_PACKED_HASH, GGUF_TYPE_UINT64, p->hash, p->n);
    if (p->opts->of)
        gguf_set_val_u64(p->out, FT_KEY_PACKED_OF, p->opts->of);
    gguf_set_val_u64(p->out, FT_KEY_PACKED_HEADER, 0);
    return FT_OK;
}

static void name_tensor(const packer *p, size_t i, char out[GGML_MAX_NAME])
{
    const ft_planned *w = &p->plan.weights[i];
    const bool packed = ft_planned_is_packed(&p->plan, w);
    const char *name = gguf_get_tensor_name(p->in->ctx, w->id);
    if (w->is_matrix && (packed || w->n_parts > 1)) {
        ft_sources_name(w->layer, w->what, packed, out);
        return;
    }
    if (packed && i == p->plan.embedding)
        name = FT_NAME_PACKED_EMBEDDING;
    else if (packed)
        name = p->plan.tied ? FT_NAME_PACKED_COPY : FT_NAME_PACKED_HEAD;
    snprintf(out, GGML_MAX_NAME, "%s", name);
}

static ft_status add_tensors(packer *p)
{
    struct ggml_init_params params = {.mem_size = (p->n + 1) * ggml_tensor_overhead(),
                                      .no_alloc = true};
    p->tensors = ggml_init(params);
    if (!p->tensors)
        return no_memory(p);
    for (size_t i = 0; i < p->n; i++) {
        const ft_planned *w = &p->plan.weights[p->order[i]];
        char name[GGML_MAX_NAME];
        struct ggml_tensor *t = ggml_new_tensor_2d(p->tensors, w->type, w->n_in, w->n_out);
        name_tensor(p, p->order[i], name);
        ggml_set_name(t, name);
        gguf_add_tensor(p->out, t);
    }
    return FT_OK;
}

/* Writes the metadata to the beginning of the file. */
static ft_status write_meta(packer *p, ft_new_file *file)
{
    const size_t n = gguf_get_meta_size(p->out);
    void *meta = malloc(n);
    if (!meta)
        return no_memory(p);
    gguf_get_meta_data(p->out, meta);
    ft_status st = ft_new_file_seek(file, 0, p->err);
    if (st == FT_OK)
        st = ft_new_file_write(file, meta, n, p->err);
    free(meta);
    return st;
}

static ft_status write_hashes(packer *p, ft_new_file *file)
{
    uint64_t header = 0;
    gguf_set_arr_data(p->out, FT_KEY_PACKED_HASH, GGUF_TYPE_UINT64, p->hash, p->n);
    if (ft_packed_header(p->out, &header) != FT_OK)
        return no_memory(p);
    gguf_set_val_u64(p->out, FT_KEY_PACKED_HEADER, header);
    return write_meta(p, file);
}

/* ---- tensors ---- */

/* Including the padding behind it. */
static ft_status write_tensor(packer *p, ft_new_file *file, size_t i)
{
    static const uint8_t zero[FT_PACKED_ALIGNMENT];
    const ft_matrix m = ft_planned_matrix(&p->plan, &p->plan.weights[p->order[i]]);
    const size_t unit = ft_matrix_unit(&m), piece = PIECE > unit ? PIECE / unit * unit : unit;
    const size_t tail = m.bytes % FT_PACKED_ALIGNMENT;
    const bool pack = m.way == FT_EXTENT_PACK;
    ft_status st = FT_OK;
    (void)XXH3_64bits_reset(p->state);
    for (uint64_t at = 0; at < m.bytes && st == FT_OK; at += piece) {
        const size_t n = m.bytes - at < piece ? (size_t)(m.bytes - at) : piece;
        st = ft_matrix_read(p->in, &m, at, n, p->plain);
        if (st == FT_OK && pack)
            ft_matrix_put(&m, p->plain, 0, n, p->packed); /* as if the piece were the weight */
        if (st == FT_OK) {
            (void)XXH3_64bits_update(p->state, pack ? p->packed : p->plain, n);
            st = ft_new_file_write(file, pack ? p->packed : p->plain, n, p->err);
        }
    }
    p->hash[i] = XXH3_64bits_digest(p->state);
    return st == FT_OK && tail ? ft_new_file_write(file, zero, FT_PACKED_ALIGNMENT - tail, p->err)
                               : st;
}

static ft_status write_file(packer *p)
{
    ft_new_file file;
    uint64_t total = 0, done = 0;
    ft_status st = ft_new_file_create(p->opts->in, p->opts->out, p->err, &file);
    if (st != FT_OK)
        return st;
    for (size_t i = 0; i < p->n; i++)
        total += p->plan.weights[p->order[i]].bytes;
    st = ft_new_file_seek(&file, gguf_get_meta_size(p->out), p->err);
    for (size_t i = 0; i < p->n && st == FT_OK; i++) {
        st = write_tensor(p, &file, i);
        done += p->plan.weights[p->order[i]].bytes;
        if (st == FT_OK)
            ft_progress_report(&p->opts->progress, done, total);
    }
    if (st == FT_OK)
        st = write_hashes(p, &file);
    return ft_new_file_finish(&file, st, p->err);
}

ft_status ft_model_pack_open(const ft_pack_file_opts *opts, ft_gguf *in, const ft_hparams *hp,
                             const ft_sources *sources, ft_error *err)
{
    packer p = {.opts = opts, .err = err, .in = in, .hp = hp, .sources = sources};
    ft_status st = make_plan(&p);
    if (st == FT_OK)
        st = make_pieces(&p);
    if (st == FT_OK)
        st = set_keys(&p);
    if (st == FT_OK)
        st = add_tensors(&p);
    if (st == FT_OK)
        st = write_file(&p);
    ft_plan_deinit(&p.plan);
    free(p.weights.layers);
    free(p.order);
    free(p.hash);
    free(p.plain);
    free(p.packed);
    (void)XXH3_freeState(p.state);
    gguf_free(p.out);
    ggml_free(p.tensors);
    return st;
}

ft_status ft_model_pack(const ft_pack_file_opts *opts, ft_error *err)
{
    ft_gguf in;
    ft_hparams hp;
    ft_sources sources;
    ft_status st = ft_sources_open(opts->in, err, &in, &hp, &sources);
    if (st != FT_OK)
        return st;
    st = ft_model_pack_open(opts, &in, &hp, &sources, err);
    ft_sources_deinit(&sources);
    ft_gguf_close(&in);
    return st;
}
