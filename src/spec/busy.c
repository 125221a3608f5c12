// SPDX-License-Identifier: Apache-2.0
// A smoothed time less a margin.
#include "spec/busy.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->busy)

void ft_busy_saw(ft_busy *busy, int64_t others_us, int64_t verify_us)
{
    double us = (double)others_us;
    if (others_us < 0 || verify_us <= 0)
        return;
    if (us < TUNE.others * (double)verify_us) { /* too short for a pass of others */
        if (++busy->alone >= TUNE.alone_most)
            *busy = (ft_busy){0};
        return;
    }
    busy->alone = 0;
    if (busy->us > 0)
        busy->off_us += TUNE.weight * (fabs(us - busy->us) - busy->off_us);
    ft_smooth(&busy->us, us, TUNE.weight);
}

double ft_busy_until_us(const ft_busy *busy)
{
    return fmax((1 - TUNE.margin) * busy->us - TUNE.off_times * busy->off_us, 0);
}
