/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that the program's signals leave alone: main handles them.
 */
#ifndef FT_BASE_THREAD_H
#define FT_BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Starts a thread that blocks all signals. FT_EXHAUSTED: the system has none left; *out is not
 * set. */
FT_WARN_UNUSED ft_status ft_thread_start(void *(*run)(void *arg), void *arg, ft_error *err,
                                         pthread_t *out);

#endif
