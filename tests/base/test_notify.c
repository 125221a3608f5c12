// SPDX-License-Identifier: Apache-2.0
// Messages to a service manager: what it reads at a path and at an abstract name, and that a
// process goes on where there is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/notify.h"

/* A manager's socket with this name, as in NOTIFY_SOCKET. */
static int listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const size_t len = strlen(name);
    memcpy(at.sun_path, name, len);
    if (name[0] == '@')
        at.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    return fd;
}

/* The message that is there; "": none. */
static const char *message(int fd)
{
    static char text[256];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static void check_at(const char *name)
{
    long long at_us = 0;
    int fd = listen_at(name);
    ft_notify_to(name);
    assert_true(ft_notify_asked());
    ft_notify_ready();
    assert_string_equal(message(fd), "READY=1");
    const int64_t before_us = ft_monotonic_us();
    ft_notify_reloading();
    assert_int_equal(sscanf(message(fd), "RELOADING=1\nMONOTONIC_USEC=%lld", &at_us), 1);
    assert_in_range(at_us, before_us, ft_monotonic_us());
    ft_notify_stopping();
    assert_string_equal(message(fd), "STOPPING=1");
    assert_string_equal(message(fd), "");
    close(fd);
}

static void test_path(void **state)
{
    char folder[] = "/tmp/ft-notify-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    check_at(path);
    unlink(path);
    ft_notify_ready(); /* nobody is there any more: it goes on */
    rmdir(folder);
}

static void test_abstract_name(void **state)
{
    char name[64];
    snprintf(name, sizeof name, "@ft-notify-%d", (int)getpid());
    check_at(name);
}

/* Nothing is sent, and nothing fails. */
static void test_nobody(void **state)
{
    char longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    const char *const none[] = {NULL, ""}, *const wrong[] = {"vsock:2:1", "relative", longest};
    for (size_t i = 0; i < 2; i++) {
        ft_notify_to(none[i]);
        assert_false(ft_notify_asked());
        ft_notify_ready();
    }
    for (size_t i = 0; i < 3; i++) {
        ft_notify_to(wrong[i]);
        ft_notify_stopping();
    }
    ft_notify_to(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_path),
                                       cmocka_unit_test(test_abstract_name),
                                       cmocka_unit_test(test_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
