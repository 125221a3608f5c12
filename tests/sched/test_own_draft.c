// SPDX-License-Identifier: Apache-2.0
// When a server drafts by itself: at first, to find out; then where it pays by the measured times.
// Where it does not, it is tried again, for a small share of the time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sched/own_draft.h"

/* A machine on which n sessions' drafts take draft_us, and a tree brings `tokens`. */
typedef struct machine {
    ft_own_load load;
    int64_t draft_us;
    uint32_t tokens;
} machine;

/* One pass. True: with drafts. */
static bool pass(ft_own_draft *own, const machine *m)
{
    if (!ft_own_draft_choose(own, &m->load))
        return false;
    ft_own_draft_saw_draft(own, m->load.sessions, m->draft_us);
    for (uint32_t i = 0; i < m->load.sessions; i++)
        ft_own_draft_saw_verdict(own, m->tokens);
    return true;
}

static uint32_t passes(ft_own_draft *own, const machine *m, uint32_t n)
{
    uint32_t drafted = 0;
    for (uint32_t i = 0; i < n; i++)
        drafted += pass(own, m);
    return drafted;
}

/* (20 + 30) / 3 a token against 25. */
static const machine gains = {{.sessions = 4, .plain_us = 25000, .tree_us = 30000}, 20000, 3};
/* (20 + 60) / 3 against 25. */
static const machine loses = {{.sessions = 4, .plain_us = 25000, .tree_us = 60000}, 20000, 3};

static void test_where_it_pays(void **state)
{
    ft_own_draft own = {0};
    uint32_t drafted = passes(&own, &gains, 2000);
    assert_int_equal(drafted, 2000);
    assert_true(own.on);
    assert_in_range(own.token_us, 16000, 17000);
}

/* It is tried again for a share of the time, so more rarely where it loses more. */
static void test_where_it_loses(void **state)
{
    ft_own_draft own = {0};
    machine worse = loses;
    assert_int_equal(passes(&own, &loses, 16), 16); /* to find out */
    uint32_t drafted = passes(&own, &loses, 5000);
    assert_false(own.on);
    assert_in_range(own.token_us, 25000, 25000);
    assert_in_range(drafted, 32, 5000);
    assert_true(drafted * (80.0 / 75 - 1) < 0.011 * 5000);
    worse.load.tree_us = 160000;
    assert_in_range(passes(&own, &worse, 5000), 16, drafted / 5);
}

/* Another load, another answer; what was learnt of tokens serves both. */
static void test_loads(void **state)
{
    ft_own_draft own = {0};
    const machine many = {{.sessions = 32, .plain_us = 25000, .tree_us = 90000}, 100000, 3};
    passes(&own, &gains, 100);
    passes(&own, &many, 100);
    assert_in_range(passes(&own, &many, 100), 0, 4);
    passes(&own, &gains, 10);
    assert_in_range(passes(&own, &gains, 100), 98, 100);
}

/* What drafting delays counts: others' tokens in the same pass. */
static void test_others(void **state)
{
    ft_own_draft own = {0};
    machine crowd = {{.sessions = 1, .plain_us = 100000, .tree_us = 105000}, 20000, 3};
    passes(&own, &crowd, 100);
    assert_true(own.on); /* 125 ms for 3 tokens, 100 for 1 */
    crowd.load.others = 100;
    passes(&own, &crowd, 20);
    assert_false(own.on); /* 125 for 103, 100 for 101 */
}

/* Passes of one kind prove dearer than the cost model says. */
static void test_wrong_predictions(void **state)
{
    ft_own_draft own = {0};
    passes(&own, &gains, 40);
    assert_true(own.on);
    for (int i = 0; i < 20; i++)
        ft_own_draft_saw_pass(&own, true, 30000, 60000);
    passes(&own, &gains, 10);
    assert_false(own.on); /* (20 + 60) / 3 against 25 */
    for (int i = 0; i < 40; i++)
        ft_own_draft_saw_pass(&own, false, 25000, 50000);
    passes(&own, &gains, 10);
    assert_true(own.on);
    assert_in_range(own.token_us, 25000, 27000);
}

/* Drafts become better, or worse: found out, at the latest by a try. */
static void test_change(void **state)
{
    ft_own_draft own = {0};
    machine now = gains;
    passes(&own, &now, 200);
    now.tokens = 1;
    passes(&own, &now, 200);
    assert_in_range(passes(&own, &now, 200), 0, 6);
    now.draft_us = 1000;
    now.load.tree_us = 26000;
    now.tokens = 4;
    passes(&own, &now, 2000);
    assert_true(passes(&own, &now, 200) > 190);
}

/* A try goes on until verdicts have come: texts may have to be read first. */
static void test_try_waits(void **state)
{
    ft_own_draft own = {0};
    passes(&own, &loses, 30);
    while (!ft_own_draft_choose(&own, &loses.load)) {
    }
    for (int i = 0; i < 20; i++)
        assert_true(ft_own_draft_choose(&own, &loses.load));
    assert_int_equal(passes(&own, &loses, 100), 16);
}

/* Nothing is decided on what is not known. */
static void test_unknown(void **state)
{
    ft_own_draft own = {0};
    machine m = loses;
    m.load.plain_us = 0;
    assert_int_equal(passes(&own, &m, 100), 100);
    assert_true(own.token_us == 0);
}

/* ---- how much ---- */

/* A pass of `pass_us` and `row_us` a row, as the cost model comes to see it. */
static void teach(ft_cost *cost, int64_t pass_us, int64_t row_us)
{
    ft_cost_init(cost);
    for (uint32_t rows = 1; rows <= 64; rows *= 2)
        for (int i = 0; i < 4; i++)
            ft_cost_observe(cost, &(ft_pass){.rows = rows, .out = rows, .ctx = 100 * rows},
                            pass_us + row_us * rows);
}

static const ft_own_node chain[] = {{0.9f, 0}, {0.8f, 1}, {0.5f, 2}, {0.1f, 3}, {0.05f, 4}};

/* Tokens by 2 + 10 + (1 + k) ms: 1/13, 1.9/14, 2.7/15, 3.2/16, 3.3/17, 3.35/18. */
static void test_keep(void **state)
{
    ft_cost cost;
    ft_own_draft own = {0};
    ft_own_pass pass = {.sessions = 1,
                        .without = {.rows = 1, .out = 1, .ctx = 100},
                        .n_past = 100,
                        .out = 1,
                        .draft_us = 2000,
                        .depth_most = 5,
                        .cost = &cost};
    ft_cost_init(&cost);
    assert_int_equal(ft_own_draft_keep(&own, chain, 5, &pass), 5); /* nothing is known of passes */
    teach(&cost, 10000, 1000);
    assert_int_equal(ft_own_draft_keep(&own, chain, 5, &pass), 3);
    teach(&cost, 10000, 1);
    assert_int_equal(ft_own_draft_keep(&own, chain, 5, &pass), 5);
    teach(&cost, 10, 10000);
    assert_in_range(ft_own_draft_keep(&own, chain, 5, &pass), 0, 2);
}

/* Levels that bring less than their time are not drafted any more; they come back when they do. */
static void test_depth(void **state)
{
    static const ft_own_node deep[] = {{0.95f, 0}, {0.9f, 1}, {0.85f, 2}, {0.8f, 3}, {0.75f, 4}};
    ft_cost cost;
    ft_own_draft own = {0};
    uint32_t budget = 32, depth = 7;
    ft_own_pass pass = {.sessions = 1,
                        .without = {.rows = 1, .out = 1, .ctx = 100},
                        .n_past = 100,
                        .out = 1,
                        .draft_us = 10000,
                        .depth_most = 5,
                        .cost = &cost};
    teach(&cost, 10000, 1000);
    ft_own_draft_size(&own, &budget, &depth);
    assert_int_equal(budget, 32);
    assert_int_equal(depth, 7);
    for (int i = 0; i < 100; i++) {
        pass.draft_us = own.depth ? 2000 * own.depth : 10000;
        uint32_t n = own.depth && own.depth < 5 ? own.depth : 5;
        ft_own_draft_keep(&own, chain, n, &pass);
    }
    ft_own_draft_size(&own, &budget, &depth);
    assert_in_range(depth, 2, 3);
    assert_in_range(budget, 4, 10);
    for (int i = 0; i < 100; i++) {
        pass.draft_us = 2000 * own.depth;
        ft_own_draft_keep(&own, deep, own.depth, &pass);
    }
    assert_int_equal(own.depth, 5);
}

/* A prompt's token takes 100 us to read. */
static void test_reading(void **state)
{
    ft_mean read = {0};
    (void)state;
    assert_int_equal(ft_own_read_tok(&read, 0, 512), 512); /* nobody is delayed */
    assert_int_equal(ft_own_read_tok(&read, 10000, 512), 16);
    ft_own_read_saw(&read, 15, 100000); /* too short to say much */
    assert_false(read.known);
    ft_own_read_saw(&read, 100, 10000);
    assert_int_equal(ft_own_read_tok(&read, 10000, 512), 100);
    assert_int_equal(ft_own_read_tok(&read, 1000, 512), 16);
    assert_int_equal(ft_own_read_tok(&read, 100000, 512), 512);
    ft_own_read_saw(&read, 100, 30000);
    assert_float_equal(read.value, 200, 1e-9);
}

static void test_expectations(void **state)
{
    ft_own_draft own = {.nodes = 5.6};
    (void)state;
    assert_int_equal(ft_own_draft_nodes(&own, 32), 32); /* nothing was kept yet */
    own.depth = 3;
    assert_int_equal(ft_own_draft_nodes(&own, 32), 6);
    assert_int_equal(ft_own_draft_nodes(&own, 4), 4);
    assert_float_equal(ft_own_draft_edge_tok(0, 0), 1, 1e-9);
    assert_float_equal(ft_own_draft_edge_tok(30, 20), 2.5, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_it_pays), cmocka_unit_test(test_where_it_loses),
        cmocka_unit_test(test_loads),         cmocka_unit_test(test_change),
        cmocka_unit_test(test_try_waits),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_others),        cmocka_unit_test(test_wrong_predictions),
        cmocka_unit_test(test_keep),          cmocka_unit_test(test_depth),
        cmocka_unit_test(test_reading),       cmocka_unit_test(test_expectations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
