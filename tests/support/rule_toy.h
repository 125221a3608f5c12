/* SPDX-License-Identifier: Apache-2.0
 *
 * A second verification rule, for tests: the draft's distribution is rounded to a few tokens with
 * weights, the draft token is drawn from the rounded one, which goes along as evidence, and it is
 * accepted with probability min(1, p / q). So a text has the target's law, but depends on the
 * draft. Chains only, draws by round, no adaptation to what was drawn. Greedy texts are made as by
 * exact.
 *
 * Evidence of a node: 1 to TOY_TOKENS entries of three bytes: a token, little-endian, and its
 * weight; tokens rise, weights sum to TOY_WEIGHT.
 */
#ifndef FT_TEST_RULE_TOY_H
#define FT_TEST_RULE_TOY_H

#include "spec/rule.h"

enum { TOY_ID = 900, TOY_TOKENS = 4, TOY_WEIGHT = 200 };

extern const ft_rule rule_toy;
/* Exact and this one. */
extern const ft_rule *const rules_with_toy[];

#endif
