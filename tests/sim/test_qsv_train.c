// SPDX-License-Identifier: Apache-2.0
// Training in the simulator: at a constant rate the policy is nearly as fast as the best fixed pair
// or faster; where rates differ it drafts more at the higher one; the same seed gives the same
// policy.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/qsv_train.h"
#include "support/positions.h"

static ft_error err;

static ft_qsv_config config(double kbit_s)
{
    return (ft_qsv_config){.k = {[FT_QSV_DRAFT_MS] = 5,
                                 [FT_QSV_VERIFY_MS] = 25,
                                 [FT_QSV_PROBABILITY_BITS] = 32,
                                 [FT_QSV_LENGTH_MOST] = 6,
                                 [FT_QSV_HEURISTIC_START] = 2,
                                 [FT_QSV_HEURISTIC_STEP] = 2,
                                 [FT_QSV_WIDTH_MOST] = 2,
                                 [FT_QSV_REPLAYS] = 4},
                           .l = {240, 720},
                           .n_l = 2,
                           .link = {{"constant", {.bits_per_s = {kbit_s * 1000}}}},
                           .n_links = 1};
}

static ft_qsv_train_opts opts_of(const ft_qsv_config *c, const ft_positions *positions)
{
    return (ft_qsv_train_opts){.config = c,
                               .positions = positions,
                               .dqn = {.steps = 1500,
                                       .batch = 32,
                                       .memory = 4000,
                                       .acts = 4,
                                       .target_every = 100,
                                       .check_every = 250,
                                       .rate = 2e-3f,
                                       .explore_last = 0.2f,
                                       .seed = 1}};
}

static void near_the_best_pair(ft_qsv_reward reward)
{
    const ft_qsv_config c = config(1000);
    ft_positions positions = made_positions(5, 50, 60);
    ft_qsv_train_opts opts = opts_of(&c, &positions);
    ft_qsv_training training;
    opts.reward = reward;
    ft_policy policy;
    if (ft_qsv_train(&opts, &err, &policy, &training) != FT_OK)
        fail_msg("%s", err.message);
    assert_true(training.train_texts == 80 && training.validation_texts == 20);
    assert_true(training.n == 6 && training.curve[5].step == 1500);
    const ft_qsv_score *kept = &training.curve[training.best].validation;
    for (uint32_t i = 0; i < training.n; i++)
        assert_true(training.curve[i].validation.mean <= kept->mean);
    if (kept->least < 0.98 || training.curve[training.best].train.least < 0.98)
        fail_msg("%g of the best pair where it checked, %g where it learnt", kept->least,
                 training.curve[training.best].train.least);
    assert_true(policy.draft == 0xdef && policy.target == 0xabc);
    assert_true(policy.n_lengths == 6 && policy.n_l == 2 && policy.l[1] == 720);
    ft_policy_deinit(&policy);
    ft_positions_deinit(&positions);
}

static void test_near_the_best_pair(void **state)
{
    near_the_best_pair(FT_QSV_REWARD_ROUND);
    near_the_best_pair(FT_QSV_REWARD_GAIN);
}

/* From 20 kbit/s to 50 Mbit/s: more tokens where points are cheap than where they are dear. */
static void looks_at_the_rate(ft_qsv_reward reward)
{
    ft_qsv_config c = config(20);
    ft_policy_past past = {0};
    float slow[FT_POLICY_INPUTS], fast[FT_POLICY_INPUTS];
    ft_positions positions = made_positions(5, 50, 60);
    ft_qsv_training training;
    ft_policy policy;
    c.link[1] = (ft_qsv_link){"constant", {.bits_per_s = {50e6}}};
    c.n_links = 2;
    ft_qsv_train_opts opts = opts_of(&c, &positions);
    opts.reward = reward;
    assert_int_equal(ft_qsv_train(&opts, &err, &policy, &training), FT_OK);
    for (int i = 0; i < 6; i++)
        ft_policy_saw(&past, 0.9f);
    ft_policy_state(&past, 20e3, slow);
    ft_policy_state(&past, 50e6, fast);
    const uint32_t at_slow = ft_policy_choose(&policy, slow).length;
    assert_int_equal(ft_policy_choose(&policy, slow).i_l, 0);
    assert_true(ft_policy_choose(&policy, fast).length > at_slow);
    const double mean = training.curve[training.best].validation.mean;
    if (mean < (reward == FT_QSV_REWARD_GAIN ? 1.005 : 0.98))
        fail_msg("%g of the best fixed pairs", mean);
    ft_policy_deinit(&policy);
    ft_positions_deinit(&positions);
}

static void test_looks_at_the_rate(void **state)
{
    looks_at_the_rate(FT_QSV_REWARD_ROUND);
    looks_at_the_rate(FT_QSV_REWARD_GAIN);
}

static void test_same_seed(void **state)
{
    const ft_qsv_config c = config(1000);
    ft_positions positions = made_positions(5, 3, 30);
    ft_qsv_train_opts opts = opts_of(&c, &positions);
    ft_qsv_training training;
    ft_policy policy[3];
    opts.horizon_ms = 100;
    opts.dqn.steps = 100;
    for (uint64_t i = 0; i < 3; i++) {
        opts.dqn.seed = i / 2;
        assert_int_equal(ft_qsv_train(&opts, &err, &policy[i], &training), FT_OK);
    }
    const size_t bytes = ft_mlp_n_params(&policy[0].net.shape) * sizeof(float);
    assert_memory_equal(policy[0].net.weight[0], policy[1].net.weight[0], bytes);
    assert_memory_not_equal(policy[0].net.weight[0], policy[2].net.weight[0], bytes);
    for (int i = 0; i < 3; i++)
        ft_policy_deinit(&policy[i]);
    ft_positions_deinit(&positions);
}

static bool stop_at_once(void)
{
    return true;
}

static void test_what_cannot_be_trained(void **state)
{
    ft_qsv_config c = config(1000);
    ft_positions few = made_positions(5, 1, 30), enough = made_positions(5, 2, 30);
    ft_qsv_train_opts opts = opts_of(&c, &few);
    ft_qsv_training training;
    ft_policy policy;
    assert_int_equal(ft_qsv_train(&opts, &err, &policy, &training), FT_INVALID);
    assert_non_null(strstr(err.message, "temperature 0.3"));
    assert_null(policy.net.weight[0]);
    opts.positions = &enough;
    opts.stop = stop_at_once;
    assert_int_equal(ft_qsv_train(&opts, &err, &policy, &training), FT_CANCELLED);
    assert_null(policy.net.weight[0]);
    c.l[0] = 241;
    assert_int_equal(ft_qsv_train(&opts, &err, &policy, &training), FT_INVALID);
    assert_non_null(strstr(err.message, "241"));
    ft_positions_deinit(&few);
    ft_positions_deinit(&enough);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_best_pair),
        cmocka_unit_test(test_looks_at_the_rate),
        cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_what_cannot_be_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
