// SPDX-License-Identifier: Apache-2.0
// The turn: a flag under a lock. Waiting threads sleep.
#include "base/turn.h"

void ft_turn_init(ft_turn *turn)
{
    turn->taken = false;
    atomic_init(&turn->n_first, 0);
    atomic_init(&turn->n_series, 0);
    pthread_mutex_init(&turn->lock, NULL);
    pthread_cond_init(&turn->changed, NULL);
}

void ft_turn_deinit(ft_turn *turn)
{
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

void ft_turn_take(ft_turn *turn, bool first)
{
    if (!turn)
        return;
    pthread_mutex_lock(&turn->lock);
    atomic_fetch_add(&turn->n_first, first);
    while (turn->taken || (!first && ft_turn_wanted(turn)))
        pthread_cond_wait(&turn->changed, &turn->lock);
    atomic_fetch_sub(&turn->n_first, first);
    turn->taken = true;
    pthread_mutex_unlock(&turn->lock);
}

void ft_turn_give_back(ft_turn *turn)
{
    if (!turn)
        return;
    pthread_mutex_lock(&turn->lock);
    turn->taken = false;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

void ft_turn_begin_series(ft_turn *turn)
{
    if (turn)
        atomic_fetch_add(&turn->n_series, 1);
}

void ft_turn_end_series(ft_turn *turn)
{
    if (turn)
        atomic_fetch_sub(&turn->n_series, 1);
}

bool ft_turn_in_series(const ft_turn *turn)
{
    return turn && atomic_load(&turn->n_series) > 0;
}

bool ft_turn_wanted(const ft_turn *turn)
{
    return turn && atomic_load(&turn->n_first) > 0;
}

void ft_turn_interrupt(ft_turn *turn)
{
    ft_turn_give_back(turn);
    ft_turn_take(turn, false);
}
