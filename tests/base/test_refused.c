// SPDX-License-Identifier: Apache-2.0
// Refused connections stay open for FT_REFUSED_US, are closed in order, and give their descriptors
// back when those are scarce. The ring holds an eighth of the descriptors at most.
#include "base/refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cond.h"

#define N 8

/* Sockets: the other ends tell whether theirs is closed. */
typedef struct pairs {
    int ours[N], theirs[N];
} pairs;

static void open_pairs(pairs *p)
{
    for (int i = 0; i < N; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        p->ours[i] = ends[0];
        p->theirs[i] = ends[1];
    }
}

static void close_theirs(const pairs *p)
{
    for (int i = 0; i < N; i++)
        close(p->theirs[i]);
}

static int n_closed(const pairs *p)
{
    char c;
    int n = 0;
    for (int i = 0; i < N; i++)
        n += recv(p->theirs[i], &c, 1, MSG_DONTWAIT) == 0;
    return n;
}

static void test_closed_late(void **state)
{
    ft_refused refused;
    ft_error err = {0};
    pairs p;
    (void)state;
    open_pairs(&p);
    assert_int_equal(ft_refused_init(&refused, &err), FT_OK);
    assert_true(ft_refused_close_due(&refused, 0) == FT_NO_DEADLINE);
    for (int round = 0; round < 3; round++) /* around the ring's end, too */
        for (uint32_t i = 0; i < refused.max; i++) {
            ft_refused_add(&refused, dup(STDIN_FILENO), 0);
            ft_refused_close_due(&refused, FT_REFUSED_US);
        }
    for (int i = 0; i < N; i++)
        ft_refused_add(&refused, p.ours[i], 1000 * i);
    assert_true(ft_refused_close_due(&refused, FT_REFUSED_US - 1) == FT_REFUSED_US);
    assert_int_equal(n_closed(&p), 0);
    assert_true(ft_refused_close_due(&refused, FT_REFUSED_US + 2999) == FT_REFUSED_US + 3000);
    assert_int_equal(n_closed(&p), 3);
    assert_int_equal(ft_refused_close_all(&refused), N - 3);
    assert_int_equal(n_closed(&p), N);
    assert_int_equal(ft_refused_close_all(&refused), 0);
    ft_refused_deinit(&refused);
    close_theirs(&p);
}

static void test_full(void **state)
{
    struct rlimit limit, few;
    ft_refused refused;
    ft_error err = {0};
    pairs p;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(ft_refused_init(&refused, &err), FT_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(refused.max, 5);
    open_pairs(&p);
    for (int i = 0; i < N; i++)
        ft_refused_add(&refused, p.ours[i], 0);
    assert_int_equal(n_closed(&p), N - 5); /* there was no room for these */
    ft_refused_deinit(&refused);
    assert_int_equal(n_closed(&p), N);
    close_theirs(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_late),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
