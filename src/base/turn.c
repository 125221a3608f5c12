// SPDX-License-Identifier: Apache-2.0
// The turn: a flag under a lock. Waiting threads sleep.
#include "base/turn.h"

void ft_turn_init(ft_turn *turn)
{
    *turn = (ft_turn){.taken = false};
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
    turn->n_first += first;
    while (turn->taken || (!first && turn->n_first > 0))
        pthread_cond_wait(&turn->changed, &turn->lock);
    turn->n_first -= first;
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
