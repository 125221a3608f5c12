// SPDX-License-Identifier: Apache-2.0
// The parts of a pass. A packed file has each matrix as it is in memory, so a slot holds the file's
// bytes. From any other file matrices are packed as they are read; then a slot holds them one
// behind the other. No state.
#include "model/streamed_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_impl.h"

#define ALIGN 64 /* of a matrix in a slot: a cache line */

static size_t aligned(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t part_bytes(const ft_streamed_part *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += aligned(p->matrix[i].bytes);
    return sum;
}

static ft_streamed_part layer_part(const ft_model *model, uint32_t layer)
{
    ft_streamed_part p = {.layer = layer};
    p.n = ft_model_layer_matrices(model, layer, p.matrix);
    return p;
}

uint64_t ft_streamed_largest(const ft_model *model)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < model->info.hp.n_layer; i++) {
        const ft_streamed_part p = layer_part(model, i);
        const uint64_t bytes = part_bytes(&p);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Tokens of a part of the head: as many as fit into the memory of a layer, in whole tiles. */
static uint32_t head_step(const ft_model *model, const ft_matrix *head)
{
    const uint64_t row = head->bytes / (uint64_t)head->n_out;
    const uint64_t n = ft_streamed_largest(model) / row / FT_PACK_ROWS * FT_PACK_ROWS;
    return n < FT_PACK_ROWS            ? FT_PACK_ROWS
           : n < (uint64_t)head->n_out ? (uint32_t)n
                                       : (uint32_t)head->n_out;
}

/* Some rows of the head. They have no hash of their own. */
static ft_streamed_part head_part(const ft_matrix *head, uint32_t first, uint32_t n)
{
    const uint64_t row = head->bytes / (uint64_t)head->n_out;
    ft_streamed_part p = {.layer = UINT32_MAX, .head = {first, n}, .matrix = {*head}, .n = 1};
    ft_matrix *m = &p.matrix[0];
    m->n_out = n;
    m->bytes = n * row;
    m->part[0] = (ft_extent){.offset = m->part[0].offset + first * row, .bytes = m->bytes};
    m->hashed = false;
    return p;
}

static bool is_streamed(const ft_memory_plan *plan, uint32_t layer)
{
    return !plan || !ft_memory_is_resident(plan, layer);
}

/* Fills `at`, or only counts: out->at is NULL. */
static void list_parts(const ft_model *model, const ft_memory_plan *plan, ft_streamed_parts *out)
{
    const uint32_t n_layer = model->info.hp.n_layer;
    const ft_matrix head = ft_model_head_matrix(model);
    const uint32_t step = head_step(model, &head);
    out->n = 0;
    for (uint32_t i = 0; i < n_layer; i++) {
        if (!is_streamed(plan, i))
            continue;
        if (out->at)
            out->at[out->n] = layer_part(model, i);
        out->n++;
    }
    out->n_layers = out->n;
    for (uint32_t first = 0; first < head.n_out && !(plan && plan->head_resident); first += step) {
        const uint32_t left = (uint32_t)head.n_out - first;
        if (out->at)
            out->at[out->n] = head_part(&head, first, left < step ? left : step);
        out->n++;
    }
}

static size_t n_extents(const ft_streamed_part *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += p->matrix[i].n_parts;
    return n;
}

static size_t most_joined(const ft_streamed_parts *parts)
{
    size_t most = 0;
    for (size_t i = 0; i < parts->n; i++)
        for (size_t k = 0; k < parts->at[i].n; k++) {
            const ft_matrix *m = &parts->at[i].matrix[k];
            most = m->n_parts > 1 && m->bytes > most ? m->bytes : most;
        }
    return most;
}

/* Fills the extents of a part, and where its matrices are in a slot. */
static void place(ft_streamed_parts *parts, ft_streamed_part *p, ft_weight_extent *extents)
{
    size_t at = 0, n = 0;
    p->extents = extents;
    for (size_t i = 0; i < p->n; i++) {
        const ft_matrix *m = &p->matrix[i];
        parts->convert |= m->way != FT_EXTENT_AS_IS || m->n_parts > 1;
        p->at[i] = at;
        at += aligned(m->bytes);
        for (uint32_t k = 0; k < m->n_parts; k++)
            extents[n++] = (ft_weight_extent){.offset = m->part[k].offset,
                                              .bytes = m->part[k].bytes,
                                              .hashed = m->hashed,
                                              .hash = m->part[k].hash};
    }
    parts->slot_bytes = at > parts->slot_bytes ? at : parts->slot_bytes;
}

static void name(const ft_streamed_part *p, ft_weight_part *out)
{
    if (p->layer == UINT32_MAX)
        snprintf(out->name, sizeof out->name, "output head");
    else
        snprintf(out->name, sizeof out->name, "layer %u", p->layer);
}

ft_status ft_streamed_parts_make(const ft_model *model, const ft_memory_plan *plan, ft_error *err,
                                 ft_streamed_parts *out)
{
    size_t n = 0;
    *out = (ft_streamed_parts){0};
    list_parts(model, plan, out);
    out->at = calloc(out->n + 1, sizeof *out->at);
    out->read = calloc(out->n + 1, sizeof *out->read);
    if (out->at)
        list_parts(model, plan, out);
    for (size_t i = 0; i < out->n && out->at; i++)
        n += n_extents(&out->at[i]);
    out->extents = calloc(n + 1, sizeof *out->extents);
    out->joined_bytes = out->at ? most_joined(out) : 0;
    out->joined = malloc(out->joined_bytes + 1);
    if (!out->at || !out->read || !out->extents || !out->joined) {
        ft_streamed_parts_deinit(out);
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", model->path);
    }
    n = 0;
    for (size_t i = 0; i < out->n; i++) {
        place(out, &out->at[i], out->extents + n);
        out->read[i] =
            (ft_weight_part){.extents = out->extents + n, .n_extents = n_extents(&out->at[i])};
        name(&out->at[i], &out->read[i]);
        n += out->read[i].n_extents;
    }
    return FT_OK;
}

void ft_streamed_parts_deinit(ft_streamed_parts *parts)
{
    free(parts->at);
    free(parts->read);
    free(parts->extents);
    free(parts->joined);
    *parts = (ft_streamed_parts){0};
}

/* The bytes of a matrix, one part behind the other: a tile may hold rows of two of them. */
static const void *join(const ft_streamed_parts *parts, const ft_matrix *m,
                        const void *const *extents)
{
    char *to = parts->joined;
    if (m->n_parts == 1)
        return extents[0];
    for (uint32_t i = 0; i < m->n_parts; i++) {
        memcpy(to, extents[i], m->part[i].bytes);
        to += m->part[i].bytes;
    }
    return parts->joined;
}

void ft_streamed_convert(void *ctx, size_t part, const void *const *extents, void *slot)
{
    const ft_streamed_parts *parts = ctx;
    const ft_streamed_part *p = &parts->at[part];
    for (size_t i = 0; i < p->n; i++) {
        const ft_matrix *m = &p->matrix[i];
        ft_matrix_put(m, join(parts, m, extents), 0, m->bytes, (char *)slot + p->at[i]);
        extents += m->n_parts;
    }
}

ft_weight_stream_opts ft_streamed_reads(ft_streamed_parts *parts, const ft_matrix *embedding)
{
    return (ft_weight_stream_opts){.parts = parts->read,
                                   .n_parts = parts->n,
                                   .convert = parts->convert ? ft_streamed_convert : NULL,
                                   .convert_ctx = parts,
                                   .slot_bytes = parts->slot_bytes,
                                   .row_bytes =
                                       embedding ? ft_streamed_row(embedding, 0).bytes : 0};
}

/* ---- the embedding's rows ---- */

/* Whether the file has the matrix in tiles of rows. */
static bool in_tiles(const ft_matrix *m)
{
    return m->packed && m->way == FT_EXTENT_AS_IS;
}

ft_row_place ft_streamed_row(const ft_matrix *embedding, int32_t token)
{
    const ft_matrix *m = embedding;
    const size_t rows = in_tiles(m) ? FT_PACK_ROWS : 1;
    const size_t bytes = rows * ggml_row_size(m->type, m->n_in);
    return (ft_row_place){.offset = m->part[0].offset + (uint64_t)token / rows * bytes,
                          .bytes = bytes};
}

void ft_streamed_row_make(const ft_matrix *embedding, int32_t token, const void *bytes, float *out)
{
    const ft_matrix *m = embedding;
    if (in_tiles(m))
        ft_pack_get_row(m->type, m->n_in, bytes, (size_t)token % FT_PACK_ROWS, out);
    else if (m->type == GGML_TYPE_F32)
        memcpy(out, bytes, (size_t)m->n_in * sizeof(float));
    else
        ggml_get_type_traits(m->type)->to_float(bytes, out, m->n_in);
}
