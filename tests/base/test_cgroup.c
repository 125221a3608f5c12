// SPDX-License-Identifier: Apache-2.0
// The limit of a memory cgroup that this test makes, and of one around it; skipped in words where
// groups may not be made.
#include "base/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OUTER "/sys/fs/cgroup/memory/foretoken-test"
#define INNER OUTER "/inner"

static bool put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    const bool wrote = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && wrote;
}

/* In a process of its own: whether the limit is `bytes`, named by `where`. */
static int see(const char *group, uint64_t bytes, const char *where)
{
    const pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0) {
        char tasks[100], path[200];
        snprintf(tasks, sizeof tasks, "%s/tasks", group);
        if (!put(tasks, "0"))
            _exit(2);
        const uint64_t limit = ft_cgroup_memory_limit(path, sizeof path);
        _exit(limit == bytes && strcmp(path, where) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void test_limits(void **state)
{
    (void)state;
    mkdir(OUTER, 0755);
    mkdir(INNER, 0755);
    if (!put(OUTER "/memory.limit_in_bytes", "900000000")) {
        print_message("no memory cgroup of version 1 can be made here: skipped\n");
        skip();
    }
    assert_int_equal(see(INNER, 900000000 / 4096 * 4096, OUTER "/memory.limit_in_bytes"), 0);
    assert_true(put(INNER "/memory.limit_in_bytes", "409600000"));
    assert_int_equal(see(INNER, 409600000, INNER "/memory.limit_in_bytes"), 0);
    assert_int_equal(see(OUTER, 900000000 / 4096 * 4096, OUTER "/memory.limit_in_bytes"), 0);
}

static int tear_down(void **state)
{
    (void)state;
    rmdir(INNER);
    rmdir(OUTER);
    return 0;
}

/* Wherever the test runs, the answer is a limit or none. */
static void test_here(void **state)
{
    (void)state;
    char path[200];
    const uint64_t limit = ft_cgroup_memory_limit(path, sizeof path);
    assert_int_equal(ft_cgroup_memory_limit(NULL, 0), limit);
    assert_int_equal(path[0] != 0, limit != UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_here),
        cmocka_unit_test_teardown(test_limits, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
