// SPDX-License-Identifier: Apache-2.0
// spec/control_kept: a controller that takes up another's numbers expects what that one expected,
// chooses as it did, and soon believes what it measures itself; numbers that cannot be are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spec/control_kept.h"

static const ft_control_opts opts = {.max_budget = 32, .max_depth = 8, .max_width = 8};
static const ft_control_room room = {.nodes = 32, .depth = 8};

/* A round whose tree of `nodes` nodes brought two of them; a node costs node_us. */
static void saw(ft_control *c, uint32_t nodes, int64_t node_us)
{
    const int64_t verify_us = 20000 + node_us * nodes;
    const ft_control_round round = {.nodes = nodes,
                                    .depth = 4,
                                    .n_path = 2,
                                    .draft_us = 4000,
                                    .wait_us = verify_us + 1000,
                                    .verify_us = verify_us,
                                    .rtt_us = 1000};
    ft_control_saw_draft(c, 4, 4, 4000);
    ft_control_saw_round(c, &round);
}

/* A life where trees pay (node_us small) or do not. */
static ft_control lived(int64_t node_us)
{
    ft_control c;
    ft_control_init(&c, &opts);
    ft_control_saw_run(&c, 8, 160000, 0);
    for (uint32_t i = 0; i < 40; i++)
        saw(&c, 4 + i % 9, node_us);
    return c;
}

static ft_control next_of(const ft_control *c)
{
    double kept[FT_CONTROL_KEPT];
    ft_control next;
    ft_control_init(&next, &opts);
    assert_true(ft_control_keep(c, kept));
    assert_true(ft_control_take_up(&next, kept));
    return next;
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

static void test_goes_on(void **state)
{
    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        ft_control a = lived(dear ? 20000 : 200), b = next_of(&a);
        near(ft_control_token_us(&b), ft_control_token_us(&a));
        near(ft_control_forward_us(&b), ft_control_forward_us(&a));
        near(ft_control_answer_us(&b, 7), ft_control_answer_us(&a, 7));
        /* Where trees do not pay, one is tried at once, and then runs follow. */
        uint32_t trees = 0;
        for (int i = 0; i < 20; i++) {
            const ft_control_choice choice = ft_control_choose(&b, &room);
            trees += choice.speculate;
            if (choice.speculate)
                saw(&b, choice.budget, dear ? 20000 : 200);
            else
                ft_control_saw_run(&b, choice.run, 20000 * (int64_t)choice.run, 0);
        }
        assert_true(dear ? trees <= 4 : trees >= 16);
    }
}

/* The machine has changed since: as much is unlearnt within a few rounds. */
static void test_unlearns(void **state)
{
    (void)state;
    ft_control a = lived(200), b = next_of(&a);
    for (uint32_t i = 0; i < 12; i++)
        saw(&b, 4 + i % 9, 20000);
    assert_true(ft_control_answer_us(&b, 8) > 0.7 * (20000 + 8 * 20000));
}

static void test_refuses(void **state)
{
    static const double wrong[] = {-1, 1e12, INFINITY, NAN};
    double kept[FT_CONTROL_KEPT];
    ft_control a = lived(200), b;
    (void)state;
    ft_control_init(&b, &opts);
    assert_false(ft_control_keep(&b, kept)); /* it has seen nothing */
    assert_true(ft_control_keep(&a, kept));
    for (int i = 0; i < FT_CONTROL_KEPT; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            const double right = kept[i];
            kept[i] = wrong[k];
            assert_false(ft_control_take_up(&b, kept));
            kept[i] = right;
        }
    ft_control none;
    ft_control_init(&none, &opts);
    assert_memory_equal(&b, &none, sizeof b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goes_on),
                                       cmocka_unit_test(test_unlearns),
                                       cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
