// SPDX-License-Identifier: Apache-2.0
// Weights in a map of their file. Each has its hash checked before the model is used; no other
// program has a reason to write to the file later (file_map.h). A model's map is made and checked
// by the thread that loads; then it is immutable.
#include "model/model_mapped.h"

#include <stdatomic.h>

#include "base/workers.h"

/* More threads than this do not read memory faster. */
#define THREADS_MOST 16

/* A weight that ggml repacks must be copied, so it is not worth mapping. */
static bool is_place(const ft_plan *plan, size_t place)
{
    return ft_place_is_packed(&plan->placer, place) || place == ft_place_plain(&plan->placer);
}

void ft_model_map(ft_model *model, const ft_gguf *gguf)
{
    if (ft_file_map_open(gguf->fd, gguf->file_size, &model->map) &&
        !ft_file_map_is_fast(&model->map))
        ft_file_map_close(&model->map);
}

bool ft_model_is_mapped(const ft_model *model, const ft_planned *w)
{
    return model->map.base && is_place(&model->plan, w->place);
}

ft_status ft_model_map_place(ft_model *model, size_t place, ft_gguf *gguf)
{
    const ft_plan *plan = &model->plan;
    char *base = (char *)model->map.base; /* ggml knows no const; nothing writes to weights */
    model->buffer[place] = ggml_backend_cpu_buffer_from_ptr(base, model->map.bytes);
    if (!model->buffer[place])
        return ft_gguf_refuse(gguf, FT_NOMEM, "out of memory for its weights");
    for (size_t i = 0; i < plan->n; i++) {
        const ft_planned *w = &plan->weights[i];
        if (w->place != place)
            continue;
        (*w->slot)->data = base + w->part[0].offset;
        (*w->slot)->buffer = model->buffer[place];
    }
    return FT_OK;
}

typedef struct check {
    const ft_model *model;
    atomic_size_t damaged; /* the first damaged weight; plan.n: none */
} check;

static void check_weight(void *ctx, size_t i, int worker)
{
    check *c = ctx;
    const ft_planned *w = &c->model->plan.weights[i];
    (void)worker;
    if (!ft_model_is_mapped(c->model, w) ||
        ft_extent_matches(&w->part[0], c->model->map.base + w->part[0].offset))
        return;
    size_t first = atomic_load(&c->damaged);
    while (i < first && !atomic_compare_exchange_weak(&c->damaged, &first, i))
        ;
}

ft_status ft_model_check_map(const ft_model *model, ft_gguf *gguf)
{
    const ft_plan *plan = &model->plan;
    check c = {.model = model};
    ft_workers *workers = NULL;
    ft_error err;
    atomic_init(&c.damaged, plan->n);
    if (ft_workers_create(0, THREADS_MOST, &err, &workers) != FT_OK)
        return ft_gguf_refuse(gguf, FT_NOMEM, "out of memory for threads");
    ft_workers_run(workers, plan->n, check_weight, &c);
    ft_workers_destroy(workers);
    const size_t damaged = atomic_load(&c.damaged);
    if (damaged < plan->n)
        ft_gguf_refuse(gguf, FT_CORRUPT,
                       "tensor '%s' is damaged: make the file anew with foretoken model pack",
                       gguf_get_tensor_name(gguf->ctx, plan->weights[damaged].id));
    return gguf->st;
}
