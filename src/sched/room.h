/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to src/sched: the room left in a batch while a policy fills it. */
#ifndef FT_SCHED_ROOM_H
#define FT_SCHED_ROOM_H

#include <stdbool.h>

#include "sched/sched.h"

typedef struct ft_room {
    uint32_t rows; /* for either kind */
    uint32_t kept; /* of them not for verifications, but the first */
    uint32_t verifications;
    uint32_t blocks;
    bool blocks_closed;
    ft_pass pass;      /* what is in the batch */
    int64_t until_us;  /* the longest the batch may take with prompts; < 0: not computed yet */
    int64_t latest_us; /* the longest it may take for its deadlines; INT64_MAX: no deadlines */
    bool prompt_runs;
} ft_room;

/* An empty batch, with rows kept for the prompts among work[n]. */
ft_room ft_room_of(const ft_work *work, size_t n, const ft_sched_limits *limits);

/* Takes a work, or as much of a prompt as rows, time and blocks allow. Returns the rows granted; 0:
 * it does not fit now. Verifications must come before prompts. */
uint32_t ft_room_grant(ft_room *room, const ft_work *work, const ft_sched_limits *limits);

#endif
