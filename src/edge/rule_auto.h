/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of the next text's rule, from what an edge's generations have learnt. The formula is
 * in spec/rule_choice.h; here are the rounds that it compares.
 */
#ifndef FT_EDGE_RULE_AUTO_H
#define FT_EDGE_RULE_AUTO_H

#include "edge/edge_internal.h"

/* Sets the rule of a text with this sampling, and why, for an edge with `rule_auto` whose server
 * offers both rules. Call it with the edge's mutex held. */
void ft_rule_auto_choose(struct ft_edge *edge, const ft_sampling *sampling, ft_uplink_rate rate,
                         ft_edge_start *start);

/* What a Draft's message without nodes takes, as links count it. */
FT_WARN_UNUSED ft_status ft_rule_auto_empty_bytes(ft_error *err, uint64_t *out);

#endif
