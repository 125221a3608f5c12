/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row of a pass costs those whose row it is not. A pass that holds one more row takes longer, and so
 * do all texts in it; a text that takes part in passes with one row of its own slows others down by that
 * in any case. So the price of a row is counted in tokens: those that all other texts in the pass would
 * have been further, had it not been there. A drafted node is worth its row where it is accepted with a
 * higher chance than that. Where the pass itself is what costs, rows are nearly free; where it is the
 * rows, and many texts are in it, hardly any node is worth one, and the target decodes best by itself.
 * Pure; the server says the price in its hints, the edges' control (spec/control.h) reckons with it.
 */
#ifndef FT_SCHED_PRICE_H
#define FT_SCHED_PRICE_H

#include "sched/cost.h"

/* In tokens, [0, 1). `plain`: the pass of n texts with one row of each. 0 for one text, and while it is not
 * known what passes cost. */
double ft_price_row(const ft_cost *cost, const ft_pass *plain, uint32_t n);

#endif
