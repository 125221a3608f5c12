// SPDX-License-Identifier: Apache-2.0
// The fork-join pool: every task once, worker numbers never twice at a time, everything done on
// return.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/workers.h"

#define TASKS 200

typedef struct job {
    int n_workers;
    atomic_int done[TASKS], busy[8];
    atomic_int wrong;
    int plain[TASKS]; /* written without atomics: run's return must order it */
} job;

static void task(void *ctx, size_t i, int worker)
{
    job *j = ctx;
    if (worker < 0 || worker >= j->n_workers) {
        atomic_fetch_add(&j->wrong, 1);
        return;
    }
    if (atomic_fetch_add(&j->busy[worker], 1) != 0)
        atomic_fetch_add(&j->wrong, 1);
    atomic_fetch_add(&j->done[i], 1);
    j->plain[i]++;
    atomic_fetch_sub(&j->busy[worker], 1);
}

static void test_every_task_once(void **state)
{
    (void)state;
    for (int n_workers = 1; n_workers <= 4; n_workers++) {
        ft_workers *w;
        ft_error err = {0};
        job *j = calloc(1, sizeof *j);
        j->n_workers = n_workers;
        assert_int_equal(ft_workers_create(n_workers, 8, &err, &w), FT_OK);
        assert_int_equal(ft_workers_count(w), n_workers);
        for (int run = 1; run <= 500; run++) {
            size_t n = (size_t)run % TASKS;
            memset(j->plain, 0, sizeof j->plain);
            memset(j->done, 0, sizeof j->done);
            ft_workers_run(w, n, task, j);
            for (size_t i = 0; i < TASKS; i++) {
                assert_int_equal(j->plain[i], i < n);
                assert_int_equal(j->done[i], i < n);
            }
        }
        assert_int_equal(j->wrong, 0);
        ft_workers_destroy(w);
        free(j);
    }
}

/* Others take part: a task that waits for a second thread ends. */
static atomic_int arrived;

static void meet(void *ctx, size_t i, int worker)
{
    (void)ctx, (void)i, (void)worker;
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < 2) {
    }
}

static void test_threads_take_part(void **state)
{
    ft_workers *w;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_workers_create(2, 2, &err, &w), FT_OK);
    arrived = 0;
    ft_workers_run(w, 2, meet, NULL);
    assert_int_equal(arrived, 2);
    ft_workers_destroy(w);
}

static void test_all_cores(void **state)
{
    ft_workers *w;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_workers_create(0, 1000, &err, &w), FT_OK);
    assert_true(ft_workers_count(w) >= 1);
    ft_workers_destroy(w); /* without a run */
    assert_int_equal(ft_workers_create(5, 3, &err, &w), FT_OK);
    assert_int_equal(ft_workers_count(w), 3);
    ft_workers_destroy(w);
    ft_workers_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_threads_take_part),
        cmocka_unit_test(test_all_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
