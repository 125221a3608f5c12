// SPDX-License-Identifier: Apache-2.0
// The time in which the engine works for others, smoothed, and a margin.
#include "spec/turn.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->turn)

void ft_turn_saw(ft_turn *turn, int64_t others_us, int64_t verify_us)
{
    double us = (double)others_us;
    if (others_us < 0 || verify_us <= 0)
        return;
    if (us < TUNE.others * (double)verify_us) {
        if (++turn->alone >= TUNE.alone_most)
            *turn = (ft_turn){0};
        return;
    }
    turn->alone = 0;
    if (turn->busy_us > 0)
        turn->off_us += TUNE.weight * (fabs(us - turn->busy_us) - turn->off_us);
    ft_smooth(&turn->busy_us, us, TUNE.weight);
}

double ft_turn_until_us(const ft_turn *turn)
{
    return fmax((1 - TUNE.margin) * turn->busy_us - TUNE.off_times * turn->off_us, 0);
}
