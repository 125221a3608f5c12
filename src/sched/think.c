// SPDX-License-Identifier: Apache-2.0
// Think times, as exponentially weighted means. Pure; the caller owns the state.
#include "sched/think.h"

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->think)

void ft_think_saw(ft_think *think, int64_t us)
{
    if (us < 0 || us >= TUNE.active_us)
        return;
    think->us += (think->known ? TUNE.weight : 1) * ((double)us - think->us);
    think->known = true;
}

void ft_think_said(ft_think *think, int64_t us)
{
    if (!think->known)
        ft_think_saw(think, us);
}

bool ft_think_active(int64_t quiet_us)
{
    return quiet_us < TUNE.active_us;
}

bool ft_think_expects(const ft_think *think, int64_t quiet_us)
{
    return think->known && ft_think_active(quiet_us) && (double)quiet_us < TUNE.late * think->us;
}
