/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that the program's signals leave alone: main handles them.
 */
#ifndef FT_BASE_THREAD_H
#define FT_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread that blocks all signals. FT_EXHAUSTED: the system has none left; *out is not
 * set. */
FT_WARN_UNUSED ft_status ft_thread_start(void *(*run)(void *arg), void *arg, ft_error *err,
                                         pthread_t *out);

/* For the calling thread, for good, and threads that it starts: who makes it work must not take the
 * processor from those that compute texts. Only on Linux. */
void ft_thread_lower_priority(int by);
/* Shares of a processor beside a busy thread of usual priority (the kernel's table
 * sched_prio_to_weight). A tenth, for who accepts connections: with less, people wait who
 * connect. */
#define FT_THREAD_ACCEPTS 10
/* A quarter: for compilations of who has wasted time, for templates and large requests. Beside one,
 * texts take a third longer, which is less than what prompts do to them. With FT_THREAD_LAST such a
 * thread loses the processor within malloc, and texts' threads wait for its lock: their slowest
 * hundredth took 150 ms. */
#define FT_THREAD_LARGE 5
/* A seventieth: for long templates of as many conversations as a stranger sends. */
#define FT_THREAD_LAST 19

/* Limits on processor time have this factor: under sanitizers all takes ten times as long. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define FT_THREAD_SLOWER 10
#else
#define FT_THREAD_SLOWER 1
#endif

/* Processor time of the calling thread so far, in us, with what it was told to add. */
int64_t ft_thread_cpu_us(void);
/* Adds what another thread took that worked for the calling one. */
void ft_thread_add_cpu_us(int64_t us);

#endif
