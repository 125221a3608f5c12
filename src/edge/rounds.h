/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation's rounds. */
#ifndef FT_EDGE_ROUNDS_H
#define FT_EDGE_ROUNDS_H

#include "edge/generation.h"

/* Prepares a round if none is outstanding, exchanges it, and applies one verdict. Sets
 * gen->stats->finish if the text has ended. */
FT_WARN_UNUSED ft_status ft_gen_step(ft_gen *gen, ft_error *err);

#endif
