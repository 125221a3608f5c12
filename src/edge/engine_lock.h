/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of the draft engine, which generations share: first come, first served. The thread that
 * holds it owns the engine. An edge without a draft engine has nothing to lock: take and release do
 * nothing, and try succeeds.
 */
#ifndef FT_EDGE_ENGINE_LOCK_H
#define FT_EDGE_ENGINE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ft_engine_lock {
    bool in_use; /* there is an engine; set before the first generation */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t next_ticket, serving; /* guarded by mutex */
} ft_engine_lock;

void ft_engine_lock_init(ft_engine_lock *lock); /* in_use is false */
void ft_engine_lock_deinit(ft_engine_lock *lock);

/* Waits for all callers that came before. */
void ft_engine_lock_take(ft_engine_lock *lock);
/* Takes the lock only if no thread holds it or waits for it. For work that must delay nobody. */
bool ft_engine_lock_try(ft_engine_lock *lock);
void ft_engine_lock_release(ft_engine_lock *lock);

#endif
