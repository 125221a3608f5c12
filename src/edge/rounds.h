/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation's rounds, alone or together with those of others. */
#ifndef FT_EDGE_ROUNDS_H
#define FT_EDGE_ROUNDS_H

#include "edge/generation.h"

/* In READY: makes the outstanding rounds of n generations of one edge, FT_DRAFT_BATCH at most,
 * which are drafted for at once. All of them belong to this thread. */
void ft_gens_prepare(ft_gen *const *gens, size_t n);
/* In another state: exchanges the outstanding round, and applies one verdict. Sets
 * gen->stats->finish if the text has ended. */
FT_WARN_UNUSED ft_status ft_gen_answer(ft_gen *gen, ft_error *err);

/* Prepares a round if none is outstanding, exchanges it, and applies one verdict. Sets
 * gen->stats->finish if the text has ended. */
FT_WARN_UNUSED ft_status ft_gen_step(ft_gen *gen, ft_error *err);

#endif
