// SPDX-License-Identifier: Apache-2.0
// A thread that is started blocks all signals; the thread that starts it is as before.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals_are_blocked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
