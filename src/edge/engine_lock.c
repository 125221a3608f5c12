// SPDX-License-Identifier: Apache-2.0
// A ticket lock. Its mutex is held only for a moment. Any thread.
#include "edge/engine_lock.h"

void ft_engine_lock_init(ft_engine_lock *lock)
{
    lock->in_use = false;
    lock->next_ticket = lock->serving = 0;
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->changed, NULL);
}

void ft_engine_lock_deinit(ft_engine_lock *lock)
{
    pthread_cond_destroy(&lock->changed);
    pthread_mutex_destroy(&lock->mutex);
}

void ft_engine_lock_take(ft_engine_lock *lock)
{
    if (!lock->in_use)
        return;
    pthread_mutex_lock(&lock->mutex);
    const uint64_t ticket = lock->next_ticket++;
    while (ticket != lock->serving)
        pthread_cond_wait(&lock->changed, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

bool ft_engine_lock_try(ft_engine_lock *lock)
{
    if (!lock->in_use)
        return true;
    pthread_mutex_lock(&lock->mutex);
    const bool idle = lock->next_ticket == lock->serving;
    if (idle)
        lock->next_ticket++;
    pthread_mutex_unlock(&lock->mutex);
    return idle;
}

void ft_engine_lock_release(ft_engine_lock *lock)
{
    if (!lock->in_use)
        return;
    pthread_mutex_lock(&lock->mutex);
    lock->serving++;
    pthread_cond_broadcast(&lock->changed);
    pthread_mutex_unlock(&lock->mutex);
}
