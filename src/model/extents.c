// SPDX-License-Identifier: Apache-2.0
// Tells where matrices lie in a file, from the plan that a model was loaded by, and turns bytes of
// the file into weights. Stateless; any thread. It reads no file.
#include "model/extents.h"

#include <string.h>

#include "model/model_impl.h"

static ft_extent_way way_of(const ft_plan *plan, const ft_planned *w)
{
    if (ft_planned_is_packed(plan, w))
        return FT_EXTENT_PACK;
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
                   .packed = ft_planned_is_packed(plan, w)};
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

int ft_model_fd(const ft_model *model)
{
    return model->fd;
}

size_t ft_matrix_unit(const ft_matrix *m)
{
    return m->way == FT_EXTENT_PACK ? ft_pack_tile_bytes(m->type, m->n_in) : 1;
}

void ft_matrix_put(const ft_matrix *m, uint32_t part, uint64_t at, const void *bytes, size_t n,
                   void *weight)
{
    char *to = (char *)weight + at;
    for (uint32_t i = 0; i < part; i++)
        to += m->part[i].bytes;
    if (m->way == FT_EXTENT_PACK)
        ft_pack(m->type, m->n_in, (int64_t)(n / ft_matrix_unit(m)) * FT_PACK_ROWS, bytes, to);
    else
        memcpy(to, bytes, n);
}
