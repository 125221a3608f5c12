// SPDX-License-Identifier: Apache-2.0
// A thread that is started blocks all signals; the thread that starts it is as before.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"

static void *blocked(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return arg;
}

static void test_signals_are_blocked(void **state)
{
    sigset_t before, after, of_thread;
    pthread_t thread;
    void *back;
    ft_error err;
    (void)state;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    sigemptyset(&of_thread);
    assert_int_equal(ft_thread_start(blocked, &of_thread, &err, &thread), FT_OK);
    pthread_join(thread, &back);
    assert_ptr_equal(back, &of_thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    const int some[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_true(sigismember(&of_thread, some[i]));
        assert_int_equal(sigismember(&after, some[i]), sigismember(&before, some[i]));
    }
}

static void *lower(void *arg)
{
    int *level = arg;
    const id_t thread = (id_t)gettid();
    level[0] = getpriority(PRIO_PROCESS, thread);
    ft_thread_lower_priority(FT_THREAD_ACCEPTS);
    level[1] = getpriority(PRIO_PROCESS, thread);
    return NULL;
}

/* One thread's priority becomes lower; the others keep theirs. */
static void test_lower_priority(void **state)
{
    enum { LOWEST = 19 };
    int level[2];
    pthread_t thread;
    const int own = getpriority(PRIO_PROCESS, (id_t)gettid());
    assert_int_equal(pthread_create(&thread, NULL, lower, level), 0);
    pthread_join(thread, NULL);
    assert_int_equal(level[0], own);
    assert_int_equal(level[1], own + FT_THREAD_ACCEPTS < LOWEST ? own + FT_THREAD_ACCEPTS : LOWEST);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals_are_blocked),
                                       cmocka_unit_test(test_lower_priority)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
