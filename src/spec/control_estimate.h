/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the controller (spec/control.h), whose state three files share:
 *
 *   control.c           the choice of the next round
 *   control_estimate.c  what things take and bring, from what was seen
 *   control_seen.c      what was seen becomes estimates
 *
 * Pure reads; times in us.
 */
#ifndef FT_SPEC_CONTROL_ESTIMATE_H
#define FT_SPEC_CONTROL_ESTIMATE_H

#include "spec/control.h"

static inline double ft_clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Of a line; never negative. */
double ft_control_line_at(const ft_control_line *line, double x);

/* What the counts say. */
typedef struct ft_control_odds {
    double miss;
    double width[FT_CONTROL_WIDTHS]; /* a class misses no more often than a narrower one */
    double level[FT_CONTROL_LEVELS]; /* one of which little is known is like the one before */
} ft_control_odds;
ft_control_odds ft_control_odds_of(const ft_control *control);
/* Chance that a level is missed, before width and level count. */
double ft_control_miss_rate(const ft_control *control);
/* A tree's place among the classes of width: *class, and the share of the next one. */
double ft_control_width_place(uint32_t nodes, uint32_t depth, uint32_t *class);
double ft_control_width_factor(const ft_control_odds *odds, uint32_t nodes, uint32_t depth);
/* Tokens that such a tree brings, the target's own too. */
double ft_control_tokens_of(const ft_control_odds *odds, uint32_t budget, uint32_t depth);

/* Whether verifications take another time now than when a run was measured last. */
bool ft_control_load_changed(const ft_control *control);
/* How much longer than at the last verdict the server takes, as runs tell. */
double ft_control_slower(const ft_control *control);
/* Time from one verdict to the next. */
double ft_control_cycle_us(const ft_control *control, uint32_t budget, uint32_t depth);
/* What trees may have lost over runs. */
double ft_control_loss_limit_us(const ft_control *control);

#endif
