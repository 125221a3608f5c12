// SPDX-License-Identifier: Apache-2.0
// The time in which the engine works for others, smoothed, and a margin.
#include "spec/turn.h"

#include <math.h>

#include "base/num.h"

#define WEIGHT     0.3 /* of a new time */
#define OTHERS     0.2 /* of a verification: shorter work is no pass of others */
#define ALONE_MOST 2   /* rounds: one may come of two sessions that have changed places */
#define MARGIN     0.01
#define OFF_TIMES  1.5 /* times it was off: hardly one in ten comes too late */

void ft_turn_saw(ft_turn *turn, int64_t others_us, int64_t verify_us)
{
    double us = (double)others_us;
    if (others_us < 0 || verify_us <= 0)
        return;
    if (us < OTHERS * (double)verify_us) {
        if (++turn->alone >= ALONE_MOST)
            *turn = (ft_turn){0};
        return;
    }
    turn->alone = 0;
    if (turn->busy_us > 0)
        turn->off_us += WEIGHT * (fabs(us - turn->busy_us) - turn->off_us);
    ft_smooth(&turn->busy_us, us, WEIGHT);
}

double ft_turn_until_us(const ft_turn *turn)
{
    return fmax((1 - MARGIN) * turn->busy_us - OFF_TIMES * turn->off_us, 0);
}
