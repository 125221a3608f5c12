/* SPDX-License-Identifier: Apache-2.0
 *
 * A planner for ft_batch_run that plans nothing: it cuts the tasks, in their order, into batches of
 * one size, and all drafts are as long. */
#ifndef FT_EDGE_BATCH_CUT_H
#define FT_EDGE_BATCH_CUT_H

#include "edge/batch.h"

typedef struct ft_batch_cut {
    uint32_t length, size; /* drafted tokens a round; tasks of a batch, > 0 */
    uint32_t *sizes;       /* of the batches of the present plan */
} ft_batch_cut;

/* For at most n tasks. FT_NOMEM owes nothing. */
FT_WARN_UNUSED ft_status ft_batch_cut_init(ft_batch_cut *cut, uint32_t length, uint32_t size,
                                           size_t n, ft_error *err);
/* All-zero is legal. */
void ft_batch_cut_deinit(ft_batch_cut *cut);
/* Borrows it. */
ft_batch_planner ft_batch_cut_planner(ft_batch_cut *cut);

#endif
