// SPDX-License-Identifier: Apache-2.0
// Sizes of a model's weights for the memory plan, and the plan as a choice of weights. No state.
#include "model/memory_choose.h"

#include "model/model_impl.h"
#include "model/streamed_parts.h"

/* Ring slots and the rest of a stream, from what it needs with one slot and with two. */
static ft_status size_reader(ft_streamed_parts *parts, const ft_matrix *embedding, ft_error *err,
                             ft_memory_weights *out)
{
    ft_weight_stream_opts opts = ft_streamed_reads(parts, embedding);
    size_t one = 0, two = 0;
    opts.n_slots = 1;
    ft_status status = ft_weight_stream_need(&opts, err, &one);
    opts.n_slots = 2;
    if (status == FT_OK)
        status = ft_weight_stream_need(&opts, err, &two);
    out->slot = two - one;
    out->reader = one - out->slot + parts->joined_bytes;
    return status;
}

static ft_status size_weights(const ft_model *model, ft_error *err, ft_memory_weights *out)
{
    const ft_matrix head = ft_model_head_matrix(model), rows = ft_model_embedding_matrix(model);
    const ft_plan *plan = &model->plan;
    ft_matrix m[FT_LAYER_MATRICES];
    ft_streamed_parts parts;
    *out = (ft_memory_weights){.n_layer = model->info.hp.n_layer, .head = head.bytes};
    out->embedding = plan->head == plan->embedding ? 0 : rows.bytes;
    out->vectors = model->info.memory.bytes - out->head - out->embedding;
    for (uint32_t i = 0; i < out->n_layer; i++) {
        const size_t n = ft_model_layer_matrices(model, i, m);
        for (size_t k = 0; k < n; k++)
            out->layer[i] += m[k].bytes;
        out->vectors -= out->layer[i];
    }
    ft_status status = ft_streamed_parts_make(model, NULL, err, &parts);
    if (status != FT_OK)
        return status;
    status = size_reader(&parts, &rows, err, out);
    ft_streamed_parts_deinit(&parts);
    return status;
}

ft_status ft_memory_choose(void *stream_ctx, const ft_model *model, ft_error *err,
                           ft_stream_choice *out)
{
    ft_memory_budget *b = stream_ctx;
    ft_status status = size_weights(model, err, &b->ask.weights);
    if (status == FT_OK)
        status = ft_memory_plan_make(&b->ask, err, &b->plan);
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < b->plan.n_layer; i++)
        if (!ft_memory_is_resident(&b->plan, i))
            out->layers[i / 64] |= 1ull << i % 64;
    out->head = !b->plan.head_resident;
    out->embedding = !b->plan.embedding_resident;
    return FT_OK;
}
