// SPDX-License-Identifier: Apache-2.0
// The draft engine's lock: one holder at a time, in the order of arrival; try takes it only where
// nobody wants it; without an engine there is nothing to wait for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "edge/engine_lock.h"

enum { N_THREADS = 4, N_TURNS = 500 };

static ft_engine_lock lock;
static int inside, turns;

static void *worker(void *ctx)
{
    int *overlaps = ctx;
    for (int i = 0; i < N_TURNS; i++) {
        ft_engine_lock_take(&lock);
        *overlaps += inside++ != 0;
        turns++;
        inside--;
        ft_engine_lock_release(&lock);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    pthread_t thread[N_THREADS];
    int overlaps[N_THREADS] = {0};
    ft_engine_lock_init(&lock);
    lock.in_use = true;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, worker, &overlaps[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(overlaps[i], 0);
    }
    assert_int_equal(turns, N_THREADS * N_TURNS);
    ft_engine_lock_deinit(&lock);
}

static void test_try(void **state)
{
    ft_engine_lock_init(&lock);
    lock.in_use = true;
    assert_true(ft_engine_lock_try(&lock));
    assert_false(ft_engine_lock_try(&lock));
    ft_engine_lock_release(&lock);
    ft_engine_lock_take(&lock);
    assert_false(ft_engine_lock_try(&lock));
    ft_engine_lock_release(&lock);
    ft_engine_lock_deinit(&lock);
}

static void test_without_an_engine(void **state)
{
    ft_engine_lock_init(&lock);
    ft_engine_lock_take(&lock);
    assert_true(ft_engine_lock_try(&lock));
    ft_engine_lock_take(&lock);
    ft_engine_lock_release(&lock);
    ft_engine_lock_deinit(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_without_an_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
