// SPDX-License-Identifier: Apache-2.0
// The table of policies (sched.h). A new policy is one entry. No state.
#include <string.h>

#include "sched/sched.h"

static const ft_sched_policy *const policies[] = {&ft_sched_fcfs, &ft_sched_edf, &ft_sched_wisp,
                                                  &ft_sched_static, &ft_sched_centralized};

const ft_sched_policy *ft_sched_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

const ft_sched_policy *ft_sched_default(bool promises)
{
    return promises ? &ft_sched_wisp : &ft_sched_fcfs;
}
