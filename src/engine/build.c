// SPDX-License-Identifier: Apache-2.0
// Decides where the nodes of a graph run: with the weights of their layer. State: the graph under
// construction. Adds no node itself.
#include "engine/build.h"

/* The scheduler places inputs: it keeps them on the host and copies them where they are read. */
void ft_build_place_added(ft_build *b)
{
    struct ggml_tensor *t =
        b->placed ? ggml_get_next_tensor(b->ctx, b->placed) : ggml_get_first_tensor(b->ctx);
    for (; t; t = ggml_get_next_tensor(b->ctx, t)) {
        if (b->sched && t->op != GGML_OP_NONE)
            ggml_backend_sched_set_tensor_backend(b->sched, t, b->backends->at[b->place]);
        b->placed = t;
    }
}

void ft_build_enter_layer(ft_build *b, uint32_t il)
{
    ft_build_place_added(b);
    b->place = il < b->hparams->n_layer ? ft_model_where_layer(b->model, il)
                                        : ft_model_where_head(b->model);
}
