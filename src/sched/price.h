/* SPDX-License-Identifier: Apache-2.0
 *
 * The price of a row: what one more row in a pass costs the other texts. A longer pass delays every
 * text in it. The price is counted in tokens: how many more tokens the other texts would have had
 * in that time. A drafted node is worth its row if its chance to be accepted is higher than the
 * price. If most of a pass's time is fixed, rows are nearly free. If it grows with its rows, and
 * has many texts, hardly any node is worth a row, and the target should decode by itself. Pure; the
 * server sends the price in its hints, and the edge's controller (spec/control.h) uses it.
 */
#ifndef FT_SCHED_PRICE_H
#define FT_SCHED_PRICE_H

#include "sched/cost.h"

/* The recent speed of all texts together. All-zero: not known. */
typedef struct ft_price_speed {
    double tok_per_us;
    uint64_t tokens; /* as the last call said */
    int64_t at_us;   /* of it */
} ft_price_speed;

/* All texts together have got so many tokens so far. */
void ft_price_saw(ft_price_speed *speed, uint64_t tokens, int64_t now_us);

/* In tokens, [0, 1]. `plain`: the pass of n texts with one row each, which is how fast they are at
 * least. 0 for one text, and while costs are not known. */
double ft_price_row(const ft_cost *cost, const ft_pass *plain, uint32_t n,
                    const ft_price_speed *speed);

/* Microseconds of the pass if one row after n_past tokens replaces `part`: the time of a token of
 * that text without drafts. */
uint32_t ft_price_token_us(const ft_cost *cost, const ft_pass *pass, const ft_pass *part,
                           uint32_t n_past);

#endif
