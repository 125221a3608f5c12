// SPDX-License-Identifier: Apache-2.0
// Tells where matrices lie in a file, from the plan that a model was loaded by, and turns bytes of
// the file into weights. Stateless; any thread.
#include "model/extents.h"

#include <string.h>

#include "model/model_impl.h"
#include "xxhash.h"

static ft_extent_way way_of(const ft_plan *plan, const ft_planned *w)
{
    if (ft_planned_is_packed(plan, w))
        return w->stored ? FT_EXTENT_AS_IS : FT_EXTENT_PACK;
    return w->place == ft_place_plain(&plan->placer) ? FT_EXTENT_AS_IS : FT_EXTENT_GGML;
}

ft_matrix ft_planned_matrix(const ft_plan *plan, const ft_planned *w)
{
    ft_matrix m = {.tensor = *w->slot,
                   .type = w->type,
                   .n_in = w->n_in,
                   .n_out = w->n_out,
                   .bytes = w->bytes,
                   .n_parts = w->n_parts,
                   .way = way_of(plan, w),
                   .buft = ft_plan_buffer_type(plan, w->place),
                   .packed = ft_planned_is_packed(plan, w),
                   .hashed = plan->hashed};
    memcpy(m.part, w->part, sizeof m.part);
    return m;
}

size_t ft_model_layer_matrices(const ft_model *model, uint32_t layer,
                               ft_matrix out[FT_LAYER_MATRICES])
{
    const ft_plan *plan = &model->plan;
    size_t n = 0;
    for (size_t i = plan->layer_at[layer]; i < plan->layer_at[layer + 1]; i++)
        if (plan->weights[i].is_matrix)
            out[n++] = ft_planned_matrix(plan, &plan->weights[i]);
    return n;
}

ft_matrix ft_model_head_matrix(const ft_model *model)
{
    return ft_planned_matrix(&model->plan, &model->plan.weights[model->plan.head]);
}

ft_matrix ft_model_embedding_matrix(const ft_model *model)
{
    return ft_planned_matrix(&model->plan, &model->plan.weights[model->plan.embedding]);
}

bool ft_extent_matches(const ft_extent *extent, const void *bytes)
{
    return XXH3_64bits(bytes, extent->bytes) == extent->hash;
}

int ft_model_fd(const ft_model *model)
{
    return model->fd;
}

size_t ft_matrix_unit(const ft_matrix *m)
{
    return m->way == FT_EXTENT_PACK ? ft_pack_tile_bytes(m->type, m->n_in) : 1;
}

size_t ft_matrix_range(const ft_matrix *m, uint64_t at, uint64_t n, ft_extent out[FT_EXTENT_PARTS])
{
    size_t n_out = 0;
    for (uint32_t i = 0; i < m->n_parts && n > 0; i++) {
        const ft_extent *part = &m->part[i];
        if (at < part->bytes) {
            const uint64_t here = part->bytes - at < n ? part->bytes - at : n;
            out[n_out++] = (ft_extent){.offset = part->offset + at, .bytes = here};
            n -= here;
            at = 0;
        } else {
            at -= part->bytes;
        }
    }
    return n_out;
}

ft_status ft_matrix_read(ft_gguf *gguf, const ft_matrix *m, uint64_t at, size_t n, void *out)
{
    ft_extent from[FT_EXTENT_PARTS];
    const size_t n_from = ft_matrix_range(m, at, n, from);
    char *to = out;
    for (size_t i = 0; i < n_from; i++) {
        ft_gguf_read(gguf, from[i].offset, to, from[i].bytes);
        to += from[i].bytes;
    }
    return gguf->st;
}

void ft_matrix_put(const ft_matrix *m, const void *bytes, uint64_t at, size_t n, void *weight)
{
    char *to = (char *)weight + at;
    if (m->way == FT_EXTENT_PACK)
        ft_pack(m->type, m->n_in, (int64_t)(n / ft_matrix_unit(m)) * FT_PACK_ROWS, bytes, to);
    else
        memcpy(to, bytes, n);
}
