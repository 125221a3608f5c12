/* SPDX-License-Identifier: Apache-2.0
 *
 * Who computes now. Two models in one process that both use all cores must not compute at the same
 * time: the threads of each would wait in barriers for cores that the other has. One of the two
 * goes first: while it waits for the turn, the other does not get it again.
 *
 * Who goes first may need many turns in a row, with waiting between them (a *series*). During a
 * series the other computes on one thread, and interrupts its work when the first wants the turn.
 *
 * Lock: one of its own, held for a moment only. Any thread.
 */
#ifndef FT_BASE_TURN_H
#define FT_BASE_TURN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct ft_turn {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool taken;          /* guarded by lock */
    atomic_uint n_first; /* threads that wait and go first; changes under lock */
    atomic_uint n_series;
} ft_turn;

/* Nobody has it. */
void ft_turn_init(ft_turn *turn);
/* Nobody has the turn or waits for it. */
void ft_turn_deinit(ft_turn *turn);

/* Waits for the turn. first: before all that wait without it. turn may be NULL: there is nobody
 * else. */
void ft_turn_take(ft_turn *turn, bool first);
void ft_turn_give_back(ft_turn *turn);

/* A series begins, or ends. turn may be NULL. */
void ft_turn_begin_series(ft_turn *turn);
void ft_turn_end_series(ft_turn *turn);
/* Whether there is one; false for NULL. */
bool ft_turn_in_series(const ft_turn *turn);

/* Whether a thread that goes first waits for the turn; false for NULL. */
bool ft_turn_wanted(const ft_turn *turn);
/* Whoever has the turn lets those who go first have it, and waits for it again. */
void ft_turn_interrupt(ft_turn *turn);

#endif
