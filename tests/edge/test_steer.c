// SPDX-License-Identifier: Apache-2.0
// What goes into the controller and what comes out, without a link, a draft model or a clock.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "edge/steer.h"

enum { BUDGET = 16, DEPTH = 4 };

static ft_steer make(bool automatic)
{
    const ft_control_opts opts = {.max_budget = BUDGET, .max_depth = DEPTH, .max_width = 4};
    const ft_steer_opts how = {
        .draft = ft_draft_params_tree(BUDGET, DEPTH, 4), .drafts = true, .automatic = automatic};
    ft_steer_learnt learnt[FT_PLACES] = {0};
    ft_steer s;
    for (int i = 0; i < FT_PLACES; i++) {
        ft_control_init(&learnt[i].control, &opts);
        learnt[i].fallback = ft_fallback_begin(0);
    }
    ft_steer_init(&s, &how, learnt);
    return s;
}

static ft_control_choice choose(ft_steer *s, uint32_t most, uint32_t max_tree,
                                ft_draft_params *params)
{
    const ft_rule_terms terms = ft_rule_exact.terms(&ft_rule_exact, 300, NULL);
    const ft_steer_ask ask = {.most = most, .max_tree = max_tree, .terms = &terms};
    return ft_steer_choose(s, &ask, params);
}

static void test_a_fixed_draft(void **state)
{
    ft_draft_params params;
    ft_steer s = make(false);
    ft_control_choice choice = choose(&s, 100, BUDGET, &params);
    assert_true(choice.speculate);
    assert_int_equal(params.budget, BUDGET);
    assert_int_equal(params.depth, DEPTH);
    choice = choose(&s, 3, BUDGET, &params); /* a path of two nodes yields three tokens */
    assert_int_equal(params.depth, 2);
    s.chosen = false;
    choice = choose(&s, 1, BUDGET, &params);
    assert_false(choice.speculate);
    assert_int_equal(choice.run, 1);
}

/* What is learnt at one place is not used at the other, and waits there for the return. */
static void test_places_are_learnt_apart(void **state)
{
    ft_steer_learnt learnt[FT_PLACES];
    ft_steer s = make(true);
    s.control.verify = (ft_control_line){.x = 8, .y = 60000, .slope = 5000, .n = 3};
    s.depth.us = 7;
    s.chosen = true;
    ft_steer_go(&s, FT_PLACE_SERVER);
    assert_true(s.chosen);
    ft_steer_go(&s, FT_PLACE_FALLBACK);
    assert_false(s.chosen);
    assert_true(s.control.verify.n == 0 && s.depth.us == 0);
    s.control.verify = (ft_control_line){.x = 8, .y = 600000, .slope = 100, .n = 1};
    ft_steer_get_learnt(&s, learnt);
    assert_int_equal(learnt[FT_PLACE_SERVER].control.verify.n, 3);
    assert_int_equal(learnt[FT_PLACE_FALLBACK].control.verify.n, 1);
    ft_steer_go(&s, FT_PLACE_SERVER);
    assert_true(s.control.verify.n == 3 && s.depth.us == 7);
    ft_steer_get_learnt(&s, learnt);
    assert_int_equal(learnt[FT_PLACE_SERVER].control.verify.n, 3);
    assert_int_equal(learnt[FT_PLACE_FALLBACK].control.verify.n, 1);
}

/* Where rows are dear, a fixed tree has fewer nodes if rows are weighed, and all otherwise. */
static void test_rows_are_weighed(void **state)
{
    ft_draft_params params;
    ft_steer s = make(false);
    s.depth.tokens = 2;
    s.depth.us = 100000;
    s.control.verify = (ft_control_line){.x = 8, .y = 60000, .slope = 5000, .n = 3};
    (void)choose(&s, 100, BUDGET, &params);
    assert_true(params.min_logp < -1e30f);
    s.how.draft.weigh_rows = true;
    (void)choose(&s, 100, BUDGET, &params);
    assert_float_equal(expf(params.min_logp), 0.1, 1e-4);
}

static void test_runs_where_nothing_can_be_drafted(void **state)
{
    ft_draft_params params;
    for (int automatic = 0; automatic < 2; automatic++) {
        ft_steer s = make(automatic);
        const ft_control_choice choice = choose(&s, 5, 0, &params);
        assert_false(choice.speculate || choice.shadow);
        assert_in_range(choice.run, 1, 5);
    }
}

static void test_what_the_server_takes(void **state)
{
    ft_draft_params params;
    ft_steer s = make(false);
    const ft_msg_verdict none = {.hints.no_trees = true};
    (void)choose(&s, 100, 8, &params);
    assert_int_equal(params.budget, 8);
    ft_steer_heard(&s, &none.hints);
    s.chosen = false;
    assert_false(choose(&s, 100, BUDGET, &params).speculate);
}

/* A text of an edge for which trees have paid: one that is told at first that rows are dear begins
 * with a run, and goes back to trees when they are cheap. */
static void test_dear_rows_begin_with_runs(void **state)
{
    static const uint32_t prices[] = {0, 600, 0};
    ft_draft_params params;
    ft_steer s = make(true);
    s.control.run_us = 50000;
    s.control.verify = (ft_control_line){.x = 4, .y = 51000, .slope = 100, .n = 9};
    s.control.draft = (ft_control_line){.x = 4, .y = 8000, .slope = 2000, .n = 9};
    for (size_t i = 0; i < 3; i++) {
        const ft_msg_hints hints = {.row_price = prices[i]};
        ft_steer_heard(&s, &hints);
        s.chosen = false;
        assert_int_equal(choose(&s, 100, BUDGET, &params).speculate, prices[i] == 0);
    }
}

static void test_a_choice_stands_until_it_is_acted_on(void **state)
{
    ft_draft_params params;
    ft_steer s = make(true);
    const ft_control_choice first = choose(&s, 100, BUDGET, &params);
    s.control.run_us = 1000; /* asked now, the controller would want a longer run */
    s.control.rtt_us = 20000;
    const ft_control_choice again = choose(&s, 100, BUDGET, &params);
    assert_int_equal(again.speculate, first.speculate);
    assert_int_equal(again.run, first.run);
    s.chosen = false;
    assert_true(choose(&s, 100, BUDGET, &params).run > first.run);
}

static ft_tree chain(uint32_t n)
{
    ft_tree tree = {0};
    for (uint32_t i = 0; i < n; i++)
        ft_tree_add(&tree, (int32_t)i - 1, 5, 0);
    return tree;
}

/* While a verification lasts, forwards are free. Where the network takes longer, only the first one
 * is, and the second one waits until a draft has told what it is worth. Before rounds have told
 * what they bring, and where drawn tokens must not decide, drafts end with the free ones. */
static void test_a_pipeline_drafts_on_where_it_waits(void **state)
{
    static const struct {
        double rtt_us;
        double free_forwards;
    } cases[] = {{0, DEPTH}, {40000, 1}};
    const ft_sampling sampled = {.temperature = 1, .top_p = 1};
    const ft_rule_terms points = ft_rule_ratio.terms(&ft_rule_ratio, 300, &sampled);
    const ft_steer_ask ask = {.most = 100, .max_tree = BUDGET, .terms = &points};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_draft_params params;
        ft_steer s = make(false);
        s.control.opts.depth_rule = FT_DEPTH_PIPELINE;
        ft_control_expect_verify(&s.control, 20000, 0);
        ft_control_expect_draft(&s.control, 2000);
        s.control.rtt_us = cases[i].rtt_us;
        s.depth = (ft_depth){.forward_us = 2000, .tokens = 40, .us = 700000};
        (void)choose(&s, 100, BUDGET, &params);
        assert_int_equal(params.depth, DEPTH);
        assert_ptr_equal(params.deep_enough, &s.depth);
        assert_float_equal(s.depth.free_us, cases[i].free_forwards * 2000, 1e-6);
        assert_int_equal(ft_depth_enough(&s.depth, 1, 0.9), cases[i].free_forwards < 2);
        assert_int_equal(ft_depth_enough(&s.depth, 1, 0.01), cases[i].free_forwards < 2);
        (void)ft_steer_choose(&s, &ask, &params);
        assert_null(params.deep_enough);
        assert_int_equal(params.depth, cases[i].free_forwards);
        s.depth.tokens = 0;
        (void)choose(&s, 100, BUDGET, &params);
        assert_null(params.deep_enough);
        assert_int_equal(params.depth, cases[i].free_forwards);
    }
}

/* Where the server waits in any case, every draft has the same number of forwards: as many as were
 * worth it so far. Where forwards are free, each draft decides. The room has the last word. */
static void test_a_pipeline_keeps_its_rhythm(void **state)
{
    static const struct {
        double rtt_us;
        uint32_t worth, most_tok, steady, depth, least;
    } cases[] = {
        {40000, 0, 100, 1, DEPTH, 1}, {40000, 1, 100, 2, DEPTH, 1}, {40000, 2, 100, 3, DEPTH, 1},
        {40000, 2, 2, 3, 1, 1},       {12000, 2, 100, 0, DEPTH, 4},
    };
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        ft_draft_params params;
        const bool automatic = i % 2;
        ft_steer s = make(automatic);
        s.control.opts.depth_rule = FT_DEPTH_PIPELINE;
        ft_control_expect_verify(&s.control, 20000, 0);
        ft_control_expect_draft(&s.control, 2000);
        s.control.rtt_us = cases[i / 2].rtt_us;
        s.depth = (ft_depth){.forward_us = 2000, .tokens = 40, .us = 700000, .steady = 77};
        for (uint32_t k = 1; k <= cases[i / 2].worth; k++)
            ft_depth_saw_worth(&s.depth, k, 1);
        if (automatic) { /* the controller's choice, which is kept */
            s.control.waits = cases[i / 2].rtt_us > 20000;
            s.choice = (ft_control_choice){.speculate = true, .budget = BUDGET, .depth = DEPTH};
            s.chosen = true;
        }
        (void)choose(&s, cases[i / 2].most_tok, BUDGET, &params);
        assert_int_equal(s.control.waits, cases[i / 2].rtt_us > 20000);
        assert_int_equal(s.depth.steady, cases[i / 2].steady);
        assert_int_equal(params.depth, cases[i / 2].depth);
        assert_ptr_equal(params.deep_enough, &s.depth);
        assert_float_equal(s.depth.free_us, cases[i / 2].least * 2000, 1e-6);
    }
}

/* Nodes that are not worth their rows are left out, in a tree of a fixed size, too. */
static void test_a_pipeline_counts_rows(void **state)
{
    (void)state;
    for (int automatic = 0; automatic < 2; automatic++) {
        ft_draft_params params;
        ft_steer s = make(automatic);
        s.control.opts.depth_rule = FT_DEPTH_PIPELINE;
        ft_control_expect_verify(&s.control, 20000, 1000);
        ft_control_expect_draft(&s.control, 2000);
        s.depth = (ft_depth){.forward_us = 2000, .tokens = 40, .us = 800000};
        s.choice = (ft_control_choice){.speculate = true, .budget = BUDGET, .depth = DEPTH};
        s.chosen = automatic;
        (void)choose(&s, 100, BUDGET, &params);
        assert_true(params.weigh_rows);
        assert_float_equal(expf(params.min_logp), 0.05, 1e-6);
        assert_int_equal(params.budget, BUDGET);
        s.depth.tokens = 0; /* it is not known what rounds bring */
        s.chosen = automatic;
        (void)choose(&s, 100, BUDGET, &params);
        assert_false(params.weigh_rows);
        assert_true(params.min_logp == -INFINITY);
    }
}

/* What early drafts save makes forwards dearer where the server waits, and only there. */
static void test_a_pipeline_leaves_leaves_to_early_drafts(void **state)
{
    const ft_rule_terms terms = ft_rule_exact.terms(&ft_rule_exact, 300, NULL);
    const ft_steer_ask asks[] = {
        {.most = 100, .max_tree = BUDGET, .terms = &terms},
        {.most = 100, .max_tree = BUDGET, .terms = &terms, .early_us = 20000}};
    for (int i = 0; i < 8; i++) {
        const bool waits = i & 1, early = i & 2, pipeline = i & 4;
        ft_draft_params params;
        ft_steer s = make(false);
        s.control.opts.depth_rule = pipeline ? FT_DEPTH_PIPELINE : FT_DEPTH_LATENCY;
        ft_control_expect_verify(&s.control, 20000, 0);
        ft_control_expect_draft(&s.control, 2000);
        s.control.rtt_us = waits ? 40000 : 0;
        s.depth = (ft_depth){.forward_us = 2000, .tokens = 40, .us = 700000, .left = 0.7};
        (void)ft_steer_choose(&s, &asks[early ? 1 : 0], &params);
        const double left = ft_depth_left(&s.depth, 20000);
        assert_true(left > 0.1 && left < 0.9);
        assert_float_equal(s.depth.left, waits && early && pipeline ? left : 0, 1e-9);
    }
}

static void test_a_tree_is_measured(void **state)
{
    const ft_tree tree = chain(3);
    const ft_msg_verdict v = {.n_path = 2, .n_next = 1, .verify_us = 4000};
    const ft_steer_times unknown = {0}, times = {ft_known(9000), ft_known(2000)};
    ft_steer s = make(true);
    ft_steer_drafted(&s, &tree, 3, 3000, true);
    assert_int_equal(s.tree.levels, 3);
    assert_float_equal(s.tree.expected, 4, 1e-6);
    assert_int_equal(s.control.draft.n, 0); /* a cold one says nothing */
    ft_steer_drafted(&s, &tree, 3, 3000, false);
    assert_int_equal(s.control.draft.n, 1);
    ft_steer_saw_tree(&s, &v, 3, &unknown);
    assert_int_equal(s.control.verify.n, 0);
    ft_steer_saw_tree(&s, &v, 3, &times);
    assert_int_equal(s.control.verify.n, 1);
    assert_true(s.control.rtt_us > 0);
}

/* The predictor is in every second interval of rounds until it is known whether it pays: here
 * rounds with it bring twice as much. With a fixed predictor it is in all. */
static void test_a_predictor_is_compared(void **state)
{
    const ft_predictor predictor = {0};
    const ft_tree tree = chain(3);
    const ft_steer_times times = {ft_known(9000), ft_known(2000)};
    ft_draft_params params;
    for (int if_pays = 0; if_pays < 2; if_pays++) {
        ft_steer s = make(false);
        uint32_t with = 0, last = 0;
        s.how.draft.predictor = &predictor;
        s.how.predictor_if_pays = if_pays;
        for (int round = 0; round < 400; round++) {
            (void)choose(&s, 100, BUDGET, &params);
            assert_int_equal(params.predictor != NULL, s.by_predictor);
            const ft_msg_verdict v = {.n_path = params.predictor ? 3 : 1, .n_next = 1};
            with += s.by_predictor;
            last += s.by_predictor && round >= 200;
            ft_steer_drafted(&s, &tree, 3, 3000, false);
            ft_steer_saw_tree(&s, &v, 3, &times);
        }
        assert_true(if_pays ? with < 400 && last > 170 : with == 400);
        assert_int_equal(ft_measured_pays(&s.predictor), if_pays);
        ft_steer_go(&s, FT_PLACE_FALLBACK); /* not known there */
        assert_false(ft_measured_pays(&s.predictor));
    }
}

/* A run takes what its passes took and waited for. A verdict that waited for text to be read does
 * not count. */
static void test_a_run_is_measured(void **state)
{
    const ft_msg_verdict reading = {
        .n_next = 1, .more = true, .queue_us = 70000, .verify_us = 20000, .read_tok = 20};
    const ft_msg_verdict more = {.n_next = 1, .more = true, .queue_us = 100, .verify_us = 2900};
    const ft_msg_verdict last = {.n_next = 2, .queue_us = 1000, .verify_us = 3500};
    const ft_steer_times unknown = {0};
    ft_steer s = make(true);
    ft_steer_saw_run(&s, &reading, &unknown);
    assert_float_equal(ft_control_token_us(&s.control), 0, 0);
    ft_steer_saw_run(&s, &more, &unknown);
    assert_float_equal(ft_control_token_us(&s.control), 0, 0);
    ft_steer_saw_run(&s, &last, &unknown);
    assert_float_equal(ft_control_token_us(&s.control), 2500, 1);
    assert_true(s.run.tokens == 0 && s.run.us == 0);
    ft_steer_saw_run(&s, &more, &unknown);
    ft_steer_go(&s, FT_PLACE_FALLBACK); /* what came of it says nothing of the other place */
    assert_true(s.run.tokens == 0 && s.run.us == 0);
}

/* A policy of 1 to 12 tokens with l = 100 or 300 that prefers one choice. */
static ft_policy policy_that_wants(uint32_t length, uint32_t i_l)
{
    const ft_policy like = {.n_lengths = 12, .n_l = 2, .l = {100, 300}};
    ft_policy p;
    assert_int_equal(ft_policy_init(&like, NULL, &p), FT_OK);
    p.net.bias[2][(length - 1) * 2 + i_l] = 1;
    return p;
}

/* The policy has the last word on length and l where drafts carry points and the rate is known. */
static void test_a_policy_chooses(void **state)
{
    const ft_sampling sampled = {.temperature = 1, .top_p = 1};
    const ft_rule_terms points = ft_rule_ratio.terms(&ft_rule_ratio, 300, &sampled);
    const ft_rule_terms none = ft_rule_exact.terms(&ft_rule_exact, 300, &sampled);
    const ft_policy_past past = {.n = 1, .confidence = {0.5f}};
    ft_steer_ask ask = {
        .most = 100, .max_tree = BUDGET, .terms = &points, .past = &past, .uplink_bits_per_s = 1e6};
    ft_policy policy = policy_that_wants(3, 1);
    ft_draft_params params;
    ft_steer s = make(false);
    s.how.draft.resolution = 50;
    s.how.policy = &policy;
    assert_true(ft_steer_choose(&s, &ask, &params).speculate && s.by_policy);
    assert_true(params.budget == 3 && params.depth == 3 && params.resolution == 300);
    ask.most = 3; /* two drafted, and the target's */
    (void)ft_steer_choose(&s, &ask, &params);
    assert_true(params.budget == 2 && params.resolution == 300 && s.by_policy);
    ask.most = 100;
    ask.uplink_bits_per_s = 0; /* not known: as without a policy */
    (void)ft_steer_choose(&s, &ask, &params);
    assert_true(params.budget == DEPTH && params.resolution == 50 && !s.by_policy);
    ask.uplink_bits_per_s = 1e6;
    ask.terms = &none;
    (void)ft_steer_choose(&s, &ask, &params);
    assert_true(params.budget == BUDGET && params.resolution == 0 && !s.by_policy);
    ft_policy_deinit(&policy);

    ask.terms = &points;
    policy = policy_that_wants(12, 0); /* more than a draft may have */
    (void)ft_steer_choose(&s, &ask, &params);
    assert_true(params.budget == DEPTH && params.resolution == 100);
    ask.max_tree = 0; /* nothing can be drafted */
    s.chosen = false;
    assert_false(ft_steer_choose(&s, &ask, &params).speculate || s.by_policy);
    ft_policy_deinit(&policy);
}

/* Where the depth rule asks it and the text's rule allows it, a threshold ends drafts, and verdicts
 * move it. */
static void test_fallback(void **state)
{
    const ft_sampling sampled = {.temperature = 1, .top_p = 1};
    const ft_rule_terms points = ft_rule_ratio.terms(&ft_rule_ratio, 300, &sampled);
    const ft_steer_ask ask = {.most = 100, .max_tree = BUDGET, .terms = &points};
    const ft_msg_verdict all = {.n_path = 2, .path = {0, 1}, .n_next = 1};
    const ft_msg_verdict unread = {.n_next = 1, .hints.no_trees = true};
    const ft_tree tree = chain(2);
    ft_draft_params params;
    for (int automatic = 0; automatic < 2; automatic++) {
        ft_steer s = make(automatic);
        (void)choose(&s, 100, BUDGET, &params);
        assert_null(params.fallback); /* not asked for */
        ft_steer_saw_path(&s, &tree, &all);
        assert_float_equal(s.fallback.alpha, 0.01, 1e-6);
        s.control.opts.depth_rule = FT_DEPTH_FALLBACK;
        (void)choose(&s, 100, BUDGET, &params);
        assert_ptr_equal(params.fallback, &s.fallback);
        assert_null(params.deep_enough);
        ft_steer_saw_path(&s, &tree, &all);
        assert_float_equal(s.fallback.alpha, 0.005, 1e-6);
        ft_steer_saw_path(&s, &tree, &unread);
        assert_float_equal(s.fallback.alpha, 0.005, 1e-6);
        (void)ft_steer_choose(&s, &ask, &params); /* drawn tokens must not decide */
        assert_null(params.fallback);
        ft_steer_saw_path(&s, &tree, &all);
        assert_float_equal(s.fallback.alpha, 0.005, 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_learnt_apart),
        cmocka_unit_test(test_a_fixed_draft),
        cmocka_unit_test(test_rows_are_weighed),
        cmocka_unit_test(test_runs_where_nothing_can_be_drafted),
        cmocka_unit_test(test_what_the_server_takes),
        cmocka_unit_test(test_dear_rows_begin_with_runs),
        cmocka_unit_test(test_a_choice_stands_until_it_is_acted_on),
        cmocka_unit_test(test_a_pipeline_drafts_on_where_it_waits),
        cmocka_unit_test(test_a_pipeline_keeps_its_rhythm),
        cmocka_unit_test(test_a_pipeline_counts_rows),
        cmocka_unit_test(test_a_pipeline_leaves_leaves_to_early_drafts),
        cmocka_unit_test(test_a_tree_is_measured),
        cmocka_unit_test(test_a_predictor_is_compared),
        cmocka_unit_test(test_a_run_is_measured),
        cmocka_unit_test(test_a_policy_chooses),
        cmocka_unit_test(test_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
