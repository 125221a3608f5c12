/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting on a POSIX condition for a limited time, by the clock of ft_clock_monotonic. The
 * condition needs no attributes.
 */
#ifndef FT_BASE_COND_H
#define FT_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FT_NO_DEADLINE INT64_MAX

/* The time `timeout_us` from now; FT_NO_DEADLINE if timeout_us is below 0. */
int64_t ft_deadline_us(int64_t timeout_us);

/* Waits as pthread_cond_wait does, but not longer than until the monotonic clock shows deadline_us.
 * False: it is that late. */
bool ft_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_us);

#endif
