// SPDX-License-Identifier: Apache-2.0
// Children of a bench: what one says arrives, one that fails says why, one that needs more memory
// than its cgroup has is killed, and no cgroup is left behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cgroup.h"
#include "bench/child.h"

#define LIMIT (64ull << 20)

/* Touches so many bytes, and says how many. */
static int touch(void *ctx, FILE *out)
{
    const size_t n = *(const size_t *)ctx;
    char *bytes = malloc(n + 1);
    if (!bytes)
        return 1;
    memset(bytes, 1, n);
    fprintf(out, "{\"touched\": %d}", bytes[n / 2] * (int)n);
    free(bytes);
    return 0;
}

static int refuse(void *ctx, FILE *out)
{
    fprintf(stderr, "one line\nforetoken: the last line\n");
    return *(int *)ctx;
}

static int babble(void *ctx, FILE *out)
{
    fprintf(out, "no object");
    return *(int *)ctx;
}

static bool stop_at_once(void)
{
    return true;
}

static void test_without_limit(void **state)
{
    size_t n = 1000;
    int one = 1, zero = 0;
    ft_error err = {0};
    ft_bench_child c;
    (void)state;
    assert_int_equal(ft_bench_child_run(&(ft_bench_child_opts){.call = touch, .ctx = &n}, &err, &c),
                     FT_OK);
    assert_int_equal(json_integer_value(json_object_get(c.json, "touched")), 1000);
    assert_true(c.peak_bytes == 0);
    json_decref(c.json);
    assert_int_equal(
        ft_bench_child_run(&(ft_bench_child_opts){.call = refuse, .ctx = &one}, &err, &c),
        FT_PRECONDITION);
    assert_string_equal(err.message, "the last line");
    assert_null(c.json);
    assert_int_equal(
        ft_bench_child_run(&(ft_bench_child_opts){.call = babble, .ctx = &zero}, &err, &c),
        FT_CORRUPT);
    const ft_bench_child_opts stopped = {.call = touch, .ctx = &n, .stop = stop_at_once};
    assert_int_equal(ft_bench_child_run(&stopped, &err, &c), FT_CANCELLED);
}

static void test_with_limit(void **state)
{
    size_t little = 8 << 20, much = 2 * LIMIT;
    ft_error err = {0};
    ft_bench_child c;
    ft_bench_cgroup group;
    (void)state;
    if (ft_bench_cgroup_make(LIMIT, &err, &group) != FT_OK) {
        assert_true(err.message[0] && !group.dir[0]);
        print_message("skipped: %s\n", err.message);
        skip();
    }
    assert_int_equal(access(group.dir, F_OK), 0);
    char dir[sizeof group.dir];
    memcpy(dir, group.dir, sizeof dir);
    ft_bench_cgroup_remove(&group);
    assert_int_not_equal(access(dir, F_OK), 0);
    ft_bench_child_opts o = {.call = touch, .ctx = &little, .limit_bytes = LIMIT};
    assert_int_equal(ft_bench_child_run(&o, &err, &c), FT_OK);
    if (c.peak_bytes) /* old kernels have no memory.peak */
        assert_true(c.peak_bytes >= little && c.peak_bytes <= LIMIT);
    json_decref(c.json);
    o.ctx = &much;
    assert_int_equal(ft_bench_child_run(&o, &err, &c), FT_EXHAUSTED);
    assert_non_null(strstr(err.message, "more memory than its cgroup allows"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_limit),
        cmocka_unit_test(test_with_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
