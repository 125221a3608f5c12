/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for many small independent tasks at once (fork and join), asleep in between. The caller works
 * along with them, so that on a busy machine it waits for no thread that has not begun.
 */
#ifndef FT_BASE_WORKERS_H
#define FT_BASE_WORKERS_H

#include <stddef.h>

#include "base/status.h"

typedef struct ft_workers ft_workers;

/* n_threads of them, the caller being one; 0: as many as cores; never more than `most` (> 0).
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_workers_create(int n_threads, int most, ft_error *err,
                                           ft_workers **out);
/* No run may be under way. NULL is legal. */
void ft_workers_destroy(ft_workers *workers);

/* How many there are, with the caller. */
int ft_workers_count(const ft_workers *workers);

/* Calls task(ctx, i, worker) once for each i of [0, n), on any thread and in any order; worker is
 * below ft_workers_count, and no two calls at one time have the same. Returns when all have returned.
 * One run at a time, all from one thread; tasks must not run others. No allocation. */
void ft_workers_run(ft_workers *workers, size_t n, void (*task)(void *ctx, size_t i, int worker),
                    void *ctx);

#endif
