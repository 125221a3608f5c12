// SPDX-License-Identifier: Apache-2.0
// Starts threads. Stateless; any thread.
#include "base/thread.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

ft_status ft_thread_start(void *(*run)(void *arg), void *arg, ft_error *err, pthread_t *out)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return ft_error_set(err, FT_EXHAUSTED, "cannot start a thread: %s", strerror(failed));
    return FT_OK;
}

static _Thread_local int64_t added_us;

int64_t ft_thread_cpu_us(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + added_us;
}

void ft_thread_add_cpu_us(int64_t us)
{
    added_us += us;
}

void ft_thread_lower_priority(int by)
{
#ifdef __linux__ /* elsewhere it would be the whole process's */
    const id_t thread = (id_t)gettid();
    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + by);
#else
    (void)by;
#endif
}
