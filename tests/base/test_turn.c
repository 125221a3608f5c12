// SPDX-License-Identifier: Apache-2.0
// One thread at a time has the turn, and who goes first does not wait for others that wait.
#include "base/turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define TURNS 2000

typedef struct crowd {
    ft_turn turn;
    atomic_int inside;
    int plain; /* guarded by the turn */
} crowd;

typedef struct person {
    crowd *c;
    bool first;
    pthread_t thread;
} person;

static void *work(void *arg)
{
    person *p = arg;
    for (int i = 0; i < TURNS; i++) {
        ft_turn_take(&p->c->turn, p->first);
        assert_int_equal(atomic_fetch_add(&p->c->inside, 1), 0);
        p->c->plain++;
        atomic_fetch_sub(&p->c->inside, 1);
        ft_turn_give_back(&p->c->turn);
    }
    return NULL;
}

static void test_alone(void **state)
{
    crowd c = {.plain = 0};
    person people[4];
    (void)state;
    ft_turn_init(&c.turn);
    for (int i = 0; i < 4; i++) {
        people[i] = (person){&c, i == 0, 0};
        assert_int_equal(pthread_create(&people[i].thread, NULL, work, &people[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(people[i].thread, NULL);
    assert_int_equal(c.plain, 4 * TURNS);
    ft_turn_deinit(&c.turn);
}

typedef struct racer {
    ft_turn *turn;
    atomic_int *place;
    bool first;
    int came; /* its place */
    pthread_t thread;
} racer;

static void *race(void *arg)
{
    racer *r = arg;
    ft_turn_take(r->turn, r->first);
    r->came = atomic_fetch_add(r->place, 1);
    ft_turn_give_back(r->turn);
    return NULL;
}

static void wait_until_wanted(ft_turn *turn)
{
    while (!ft_turn_wanted(turn))
        ;
}

/* Both wait while the test has the turn; the one that goes first gets it first, though it came
 * last. */
static void test_first(void **state)
{
    ft_turn turn;
    atomic_int place = 0;
    racer later = {&turn, &place, false, -1, 0}, first = {&turn, &place, true, -1, 0};
    (void)state;
    ft_turn_init(&turn);
    ft_turn_take(&turn, false);
    assert_int_equal(pthread_create(&later.thread, NULL, race, &later), 0);
    assert_int_equal(pthread_create(&first.thread, NULL, race, &first), 0);
    wait_until_wanted(&turn);
    ft_turn_give_back(&turn);
    pthread_join(later.thread, NULL);
    pthread_join(first.thread, NULL);
    assert_int_equal(first.came, 0);
    assert_int_equal(later.came, 1);
    ft_turn_take(NULL, true); /* nobody else */
    ft_turn_give_back(NULL);
    ft_turn_deinit(&turn);
}

/* Who has the turn and is interrupted has it again when the one that goes first gave it
 * back. */
static void test_interrupt(void **state)
{
    ft_turn turn;
    atomic_int place = 0;
    racer first = {&turn, &place, true, -1, 0};
    (void)state;
    ft_turn_init(&turn);
    assert_false(ft_turn_in_series(&turn) || ft_turn_wanted(&turn));
    ft_turn_begin_series(&turn);
    ft_turn_begin_series(&turn);
    ft_turn_end_series(&turn);
    assert_true(ft_turn_in_series(&turn));
    ft_turn_end_series(&turn);
    assert_false(ft_turn_in_series(&turn));
    ft_turn_take(&turn, false);
    assert_int_equal(pthread_create(&first.thread, NULL, race, &first), 0);
    wait_until_wanted(&turn);
    ft_turn_interrupt(&turn);
    assert_int_equal(atomic_load(&place), 1);
    ft_turn_give_back(&turn);
    pthread_join(first.thread, NULL);
    assert_false(ft_turn_in_series(NULL) || ft_turn_wanted(NULL));
    ft_turn_deinit(&turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_interrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
