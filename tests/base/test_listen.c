// SPDX-License-Identifier: Apache-2.0
// Listening: on a free port, on one that is taken, and on what is no address; the priority of a
// thread that accepts.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/listen.h"

static void test_listen(void **state)
{
    int fd, second;
    ft_error err = {0};
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    (void)state;
    assert_int_equal(ft_listen("127.0.0.1", 0, &err, &fd), FT_OK);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a, n), 0);
    assert_int_equal(ft_listen("127.0.0.1", ntohs(a.sin_port), &err, &second), FT_UNAVAILABLE);
    assert_int_equal(second, -1);
    assert_non_null(strstr(err.message, "Address already in use"));
    close(client);
    close(fd);
    assert_int_equal(ft_listen("no-such-host.invalid", 0, &err, &fd), FT_INVALID);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(err.message, "no-such-host.invalid"));
    assert_int_equal(ft_listen("*", 0, &err, &fd), FT_OK);
    close(fd);
}

static void *lower(void *arg)
{
    int *level = arg;
    const id_t thread = (id_t)gettid();
    level[0] = getpriority(PRIO_PROCESS, thread);
    ft_listen_lower_priority();
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
    assert_int_equal(level[1], own + 10 < LOWEST ? own + 10 : LOWEST);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_listen),
                                       cmocka_unit_test(test_lower_priority)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
