// SPDX-License-Identifier: Apache-2.0
// Starts threads. Stateless; any thread.
#include "base/thread.h"

#include <signal.h>
#include <string.h>

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
