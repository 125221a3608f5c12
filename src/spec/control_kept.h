/* SPDX-License-Identifier: Apache-2.0
 *
 * What a controller (spec/control.h) has learnt, as numbers that outlast the process. The next
 * session with the same models, server and machine begins with them. Levels count as much as two
 * measurements, as the machine may be busier by then; how sure slopes are is kept, too. Pure. */
#ifndef FT_SPEC_CONTROL_KEPT_H
#define FT_SPEC_CONTROL_KEPT_H

#include "spec/control.h"

#define FT_CONTROL_KEPT 19 /* numbers, >= 0 and finite */

/* False: there is nothing to keep, since no tree was measured. */
bool ft_control_keep(const ft_control *control, double out[FT_CONTROL_KEPT]);
/* Begins with such numbers: *control is new (ft_control_init). False, and *control is as it was: a
 * number is none that ft_control_keep gives. */
bool ft_control_take_up(ft_control *control, const double in[FT_CONTROL_KEPT]);

#endif
