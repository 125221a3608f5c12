// SPDX-License-Identifier: Apache-2.0
// When to make two groups. No think times are needed: where edges think for long, all of them
// rarely wait at once, and the half that waits loses one pass. Pure, no state.
#include "sched/groups.h"

uint32_t ft_groups_cap(uint32_t n, bool more)
{
    return more || n < 2 ? 0 : (n + 1) / 2;
}
