// SPDX-License-Identifier: Apache-2.0
// Batches of one size. The caller's thread owns it.
#include "edge/batch_cut.h"

#include <stdlib.h>

ft_status ft_batch_cut_init(ft_batch_cut *cut, uint32_t length, uint32_t size, size_t n,
                            ft_error *err)
{
    *cut = (ft_batch_cut){.length = length, .size = size, .sizes = calloc(n, sizeof *cut->sizes)};
    return cut->sizes ? FT_OK : ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

void ft_batch_cut_deinit(ft_batch_cut *cut)
{
    free(cut->sizes);
    *cut = (ft_batch_cut){0};
}

static ft_status plan(void *ctx, const uint32_t *task, size_t n, ft_error *err, ft_batch_order *out)
{
    ft_batch_cut *cut = ctx;
    (void)err;
    *out = (ft_batch_order){.length = cut->length, .size = cut->sizes, .task = task};
    for (size_t left = n; left > 0; left -= cut->sizes[out->n++])
        cut->sizes[out->n] = left < cut->size ? (uint32_t)left : cut->size;
    return FT_OK;
}

ft_batch_planner ft_batch_cut_planner(ft_batch_cut *cut)
{
    return (ft_batch_planner){.ctx = cut, .plan = plan};
}
