// SPDX-License-Identifier: Apache-2.0
// Starts threads. Stateless; any thread.
#include "base/thread.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
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

void ft_thread_lower_priority(int by)
{
#ifdef __linux__ /* elsewhere it would be the whole process's */
    const id_t thread = (id_t)gettid();
    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + by);
#else
    (void)by;
#endif
}
