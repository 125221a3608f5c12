/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees that bring enough (ft_draft_params.enough_tok): which of the best nodes they take, and when
 * they grow no further. Pure.
 */
#ifndef FT_SPEC_ENOUGH_H
#define FT_SPEC_ENOUGH_H

#include "spec/growth.h"

/* How many of the n_best best nodes, which stand in their order, a tree takes: as many as bring
 * enough, and then those that are likely enough. All of them, if they do not bring enough. */
uint32_t ft_enough_wanted(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                          uint32_t n_best);
/* How many of them may get children. Where they bring enough, all children are surplus. */
uint32_t ft_enough_growing(const ft_growth *g, const ft_draft_params *params, const uint16_t *best,
                           uint32_t n_best);

#endif
