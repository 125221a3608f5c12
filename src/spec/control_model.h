/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the controller (spec/control.h), whose state two files share: control_model.c learns from
 * measurements and predicts what trees take and bring; control.c chooses. Pure; times in us.
 */
#ifndef FT_SPEC_CONTROL_MODEL_H
#define FT_SPEC_CONTROL_MODEL_H

#include "spec/control.h"

/* Of a line; never negative. */
double ft_control_line_at(const ft_control_line *line, double x);
/* The chance that a level with one node is missed. */
double ft_control_miss(const ft_control *control);
/* Expected tokens of a tree, the target's own included, with that chance. */
double ft_control_tokens_of(double miss, uint32_t budget, uint32_t depth);
/* How much slower the server is than when trees were measured, as runs tell. */
double ft_control_slower(const ft_control *control);
/* A verification of so many nodes by what is known; before any, by what a token of a run takes. */
double ft_control_verify_us(const ft_control *control, uint32_t nodes);
/* How much slower trees are verified than when a run was measured: by the load, or by what nodes
 * cost now. 1 where the server itself says what a token of a run takes. */
double ft_control_load(const ft_control *control);
/* Time from one verdict to the next. */
double ft_control_cycle_us(const ft_control *control, double budget, double depth);

#endif
