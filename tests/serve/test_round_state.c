// SPDX-License-Identifier: Apache-2.0
// The states of a round: every cell of the table, what no cell may do, and the fields that go with
// states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "serve/round_state.h"

/* The kind of round that is under way in each state (serve/round_state.h). */
enum { KIND_NONE, KIND_TREE, KIND_EARLY, KIND_RUN };
static const int kinds[FT_ROUND_STATES] = {KIND_NONE,  KIND_TREE, KIND_TREE, KIND_EARLY,
                                           KIND_EARLY, KIND_RUN,  KIND_RUN,  KIND_NONE};

typedef struct cell {
    ft_round_state next;
    ft_round_did did;
} cell;

/* Shorthands for this table alone: a letter for what the event does, then the next state. */
#define B(state)                         \
    {                                    \
        FT_ROUND_##state, FT_ROUND_BEGAN \
    }
#define K(state)                        \
    {                                   \
        FT_ROUND_##state, FT_ROUND_KEPT \
    }
#define D(state)                           \
    {                                      \
        FT_ROUND_##state, FT_ROUND_DROPPED \
    }
#define R(state)                            \
    {                                       \
        FT_ROUND_##state, FT_ROUND_REPEATED \
    }
#define W(state)                           \
    {                                      \
        FT_ROUND_##state, FT_ROUND_WENT_ON \
    }
#define C(state)                          \
    {                                     \
        FT_ROUND_##state, FT_ROUND_CLOSED \
    }
#define Y(state)                        \
    {                                   \
        FT_ROUND_##state, FT_ROUND_BUSY \
    }
#define T(state)                         \
    {                                    \
        FT_ROUND_##state, FT_ROUND_TWICE \
    }
#define O(state)                        \
    {                                   \
        FT_ROUND_##state, FT_ROUND_OVER \
    }
#define N(state)                              \
    {                                         \
        FT_ROUND_##state, FT_ROUND_IMPOSSIBLE \
    }

/* Events in their order: tree, run, next run, early, repeat, part, verdict, fit, end, withdraw. */
static const cell expected[FT_ROUND_STATES][FT_ROUND_EVENTS] = {
    {B(TREE), B(RUN), B(RUN), D(NONE), R(NONE), N(NONE), N(NONE), N(NONE), N(NONE), C(NONE)},
    {Y(TREE), Y(TREE), Y(TREE), K(TREE_EARLY), Y(TREE), N(TREE), C(NONE), N(TREE), C(ENDED),
     C(NONE)},
    {Y(TREE_EARLY), Y(TREE_EARLY), Y(TREE_EARLY), T(TREE_EARLY), Y(TREE_EARLY), N(TREE_EARLY),
     C(NONE), B(EARLY), C(ENDED), C(NONE)},
    {Y(EARLY), Y(EARLY), Y(EARLY), K(EARLY_EARLY), Y(EARLY), N(EARLY), C(NONE), N(EARLY), C(ENDED),
     C(NONE)},
    {Y(EARLY_EARLY), Y(EARLY_EARLY), Y(EARLY_EARLY), T(EARLY_EARLY), Y(EARLY_EARLY), N(EARLY_EARLY),
     C(NONE), B(EARLY), C(ENDED), C(NONE)},
    {Y(RUN), Y(RUN), K(RUN_NEXT), D(RUN), Y(RUN), W(RUN), C(NONE), N(RUN), C(ENDED), C(NONE)},
    {Y(RUN_NEXT), Y(RUN_NEXT), Y(RUN_NEXT), D(RUN_NEXT), Y(RUN_NEXT), W(RUN_NEXT), B(RUN),
     N(RUN_NEXT), C(ENDED), C(NONE)},
    {O(ENDED), O(ENDED), D(ENDED), D(ENDED), R(ENDED), N(ENDED), N(ENDED), N(ENDED), N(ENDED),
     C(ENDED)},
};

static void test_table(void **state)
{
    (void)state;
    for (int s = 0; s < FT_ROUND_STATES; s++) {
        for (int e = 0; e < FT_ROUND_EVENTS; e++) {
            ft_round r = {.state = (ft_round_state)s};
            const cell *want = &expected[s][e];
            const ft_round_did did = ft_round_would(&r, (ft_round_event)e);
            assert_int_equal(r.state, s); /* asking changes nothing */
            if (did != want->did)
                fail_msg("state %d, event %d: does %d, not %d", s, e, did, want->did);
            if (did == FT_ROUND_IMPOSSIBLE)
                continue;
            assert_int_equal(ft_round_step(&r, (ft_round_event)e), did);
            if (r.state != want->next)
                fail_msg("state %d, event %d: leads to %d, not %d", s, e, r.state, want->next);
        }
    }
}

/* What must hold of any table, whatever its cells. */
static void test_rules(void **state)
{
    (void)state;
    for (int s = 0; s < FT_ROUND_STATES; s++) {
        for (int e = 0; e < FT_ROUND_EVENTS; e++) {
            ft_round r = {.state = (ft_round_state)s};
            const bool waits = ft_round_waits(&r);
            const ft_round_did did = ft_round_would(&r, (ft_round_event)e);
            if (did == FT_ROUND_IMPOSSIBLE) {
                assert_true(e >= FT_ROUND_ON_PART); /* no edge can cause one */
                continue;
            }
            (void)ft_round_step(&r, (ft_round_event)e);
            if (did >= FT_ROUND_BUSY || did == FT_ROUND_DROPPED || did == FT_ROUND_REPEATED)
                assert_int_equal(r.state, s);
            assert_true(s != FT_ROUND_ENDED || r.state == FT_ROUND_ENDED);
            assert_int_equal(r.state == FT_ROUND_ENDED && s != FT_ROUND_ENDED,
                             e == FT_ROUND_ON_END);
            if (did == FT_ROUND_CLOSED)
                assert_false(ft_round_waits(&r));
            if (did == FT_ROUND_BEGAN || did == FT_ROUND_KEPT || did == FT_ROUND_WENT_ON)
                assert_true(ft_round_waits(&r));
            if (waits && e <= FT_ROUND_ON_REPEAT) /* an edge cannot end a round */
                assert_int_equal(kinds[r.state], kinds[s]);
        }
    }
}

static void test_kinds(void **state)
{
    (void)state;
    for (int s = 0; s < FT_ROUND_STATES; s++) {
        const ft_round r = {.state = (ft_round_state)s};
        assert_int_equal(ft_round_is_run(&r), kinds[s] == KIND_RUN);
        assert_int_equal(ft_round_waits(&r), kinds[s] != KIND_NONE);
    }
}

static ft_client_msg *tree_msg(uint32_t n)
{
    ft_client_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft.n = n;
    for (uint32_t i = 0; i < n; i++)
        msg->draft.parent[i] = (int32_t)i - 1;
    return msg;
}

/* Messages are freed when the state no longer keeps them: the leak checker watches. */
static void test_fields(void **state)
{
    ft_round r = {.state = FT_ROUND_NONE};
    (void)state;
    ft_round_check(&r);
    ft_client_msg *first = tree_msg(3);
    (void)ft_round_step(&r, FT_ROUND_ON_TREE);
    ft_round_begin(&r, 1, 10, 10, first);
    ft_round_check(&r);
    assert_int_equal(r.n_drafted, 3);
    assert_ptr_equal(r.nodes.token, first->draft.token);
    (void)ft_round_step(&r, FT_ROUND_ON_EARLY);
    r.early = tree_msg(2);
    r.early_for = 2;
    ft_round_check(&r);
    (void)ft_round_step(&r, FT_ROUND_ON_FIT);
    ft_client_msg *early = r.early;
    r.early = NULL;
    ft_round_begin(&r, 2, 13, 13, early); /* frees the first */
    ft_round_check(&r);
    assert_int_equal(r.nodes.n, 2);
    (void)ft_round_step(&r, FT_ROUND_ON_VERDICT);
    ft_round_settle(&r);
    ft_round_check(&r);
    assert_null(r.draft);
    (void)ft_round_step(&r, FT_ROUND_ON_RUN);
    ft_round_begin(&r, 3, 14, 20, NULL);
    ft_round_check(&r);
    assert_int_equal(r.nodes.n, 0);
    (void)ft_round_step(&r, FT_ROUND_ON_WITHDRAW);
    ft_round_settle(&r);
    ft_round_check(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_kinds), cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
