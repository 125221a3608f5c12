// SPDX-License-Identifier: Apache-2.0
// What a model file holds and how much memory its weights take, from a plan of its weights. One
// call is one thread. Reads metadata only.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/model_impl.h"

static void count_memory(ft_model *m, size_t i)
{
    const ft_plan *plan = &m->plan;
    const ft_planned *w = &plan->weights[i];
    ft_model_memory *sum = &m->info.memory;
    ft_model_products *p = &sum->products;
    bool packed = ft_planned_is_packed(plan, w), on_cpu = w->place < plan->placer.n;
    uint64_t *types = packed ? &p->packed : on_cpu ? &p->by_ggml : &p->on_devices;
    sum->bytes += w->bytes;
    if (packed)
        sum->packed_bytes += w->bytes;
    else if (w->place < ft_place_plain(&plan->placer))
        sum->repacked_bytes += w->bytes;
    if (i == plan->head && plan->tied && plan->head != plan->embedding)
        sum->copied_bytes += w->bytes;
    if (w->is_matrix || i == plan->head)
        *types |= 1ull << w->type;
}

/* The type of most layer weights, in capitals. */
static void name_type(ft_model *m)
{
    uint64_t by_type[GGML_TYPE_COUNT] = {0};
    size_t most = 0;
    for (size_t i = 0; i < m->plan.n; i++) {
        const ft_planned *w = &m->plan.weights[i];
        if (w->is_matrix)
            by_type[w->type] += (uint64_t)w->n_in * (uint64_t)w->n_out;
    }
    for (size_t i = 0; i < GGML_TYPE_COUNT; i++)
        most = by_type[i] > by_type[most] ? i : most;
    snprintf(m->info.type_name, sizeof m->info.type_name, "%s",
             ggml_type_name((enum ggml_type)most));
    for (char *c = m->info.type_name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static void count_tensors(ft_model_info *info, const struct gguf_context *gguf)
{
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        const int64_t *ne = gguf_get_tensor_ne(gguf, i); /* at most two dimensions */
        const enum ggml_type type = gguf_get_tensor_type(gguf, i);
        info->n_params += (uint64_t)ne[0] * (uint64_t)ne[1];
        info->types[type].n_tensors++;
        info->types[type].bytes += gguf_get_tensor_size(gguf, i);
    }
}

ft_status ft_model_describe(ft_model *m, ft_gguf *gguf)
{
    ft_model_info *info = &m->info;
    const char *name = NULL, *slash = strrchr(gguf->path, '/');
    for (size_t i = 0; i < m->plan.n; i++) {
        const ft_planned *w = &m->plan.weights[i];
        count_memory(m, i);
        info->n_matrices += w->is_matrix;
        info->n_repacked += w->is_matrix && w->place < ft_place_plain(&m->plan.placer);
    }
    count_tensors(info, gguf->ctx);
    const ft_planned *head = &m->plan.weights[m->plan.head];
    if (m->plan.tied && head->id != m->plan.weights[m->plan.embedding].id) /* a copy in the file */
        info->n_params -= (uint64_t)head->n_in * (uint64_t)head->n_out;
    name_type(m);
    info->file_bytes = gguf->file_size;
    info->tied = m->plan.tied;
    info->rope_factors = gguf_find_tensor(gguf->ctx, "rope_freqs.weight") >= 0;
    ft_gguf_str(gguf, "general.name", false, &name);
    m->path = strdup(gguf->path);
    m->name = strdup(name && *name ? name : slash ? slash + 1 : gguf->path);
    if (!m->path || !m->name)
        return ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
    snprintf(info->name, sizeof info->name, "%s", m->name);
    return gguf->st;
}
