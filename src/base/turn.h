/* SPDX-License-Identifier: Apache-2.0
 *
 * Who computes now. Two models in one process that both use all cores must not compute at the same
 * time: the threads of each would wait in barriers for cores that the other has. One of the two
 * goes first: while it waits for the turn, the other does not get it again.
 *
 * Lock: one of its own, held for a moment only. Any thread.
 */
#ifndef FT_BASE_TURN_H
#define FT_BASE_TURN_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct ft_turn {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock */
    bool taken;
    unsigned n_first; /* threads that wait and go first */
} ft_turn;

/* Nobody has it. */
void ft_turn_init(ft_turn *turn);
/* Nobody has the turn or waits for it. */
void ft_turn_deinit(ft_turn *turn);

/* Waits for the turn. first: before all that wait without it. turn may be NULL: there is nobody
 * else. */
void ft_turn_take(ft_turn *turn, bool first);
void ft_turn_give_back(ft_turn *turn);

#endif
