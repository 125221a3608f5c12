// SPDX-License-Identifier: Apache-2.0
// Listening: on a free port, on one that is taken, and on what is no address.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_listen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
