/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for many small independent tasks at once (fork and join). They sleep between runs. The
 * caller works, too, so on a busy machine it never waits for a thread that has not started.
 */
#ifndef FT_BASE_WORKERS_H
#define FT_BASE_WORKERS_H

#include <stddef.h>

#include "base/status.h"

typedef struct ft_workers ft_workers;

/* Creates n_threads threads, of which the caller is one; 0: one for each core. Never more than
 * `most`, which is above 0. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_workers_create(int n_threads, int most, ft_error *err,
                                           ft_workers **out);
/* No run may be in progress. NULL is legal. */
void ft_workers_destroy(ft_workers *workers);

/* Number of threads; the caller counts. */
int ft_workers_count(const ft_workers *workers);

/* Calls task(ctx, i, worker) once for each i of [0, n), on any thread and in any order. worker is
 * below ft_workers_count; simultaneous calls have different workers. Returns after all tasks have
 * returned. One run at a time, all runs from one thread; tasks must not start runs. No
 * allocation. */
void ft_workers_run(ft_workers *workers, size_t n, void (*task)(void *ctx, size_t i, int worker),
                    void *ctx);

#endif
