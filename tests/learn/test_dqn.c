// SPDX-License-Identifier: Apache-2.0
// Gradients against differences; masked weights stay 0; double DQN on a world whose values are
// known, and with the same bits for the same seed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "learn/dqn.h"
#include "learn/mlp_adam.h"

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s", err.message);
}

/* ---- gradients ---- */

static const ft_mlp_shape shape = {3, {5, 19, 7, 3}};

/* Of sum of weight[o] y[o]. */
static double loss(const ft_mlp *net, const float *x, const float *weight)
{
    float y[3];
    double sum = 0;
    ft_mlp_run(net, x, 1, y);
    for (int o = 0; o < 3; o++)
        sum += (double)weight[o] * (double)y[o];
    return sum;
}

static void test_gradients(void **state)
{
    const float x[5] = {0.3f, -1, 0, 0.7f, 2}, slope[3] = {0.5f, -1, 0.25f};
    ft_mlp net;
    ft_mlp_adam adam;
    ft_rng rng;
    float y[3], again[3];
    double largest = 0;
    ft_rng_init(&rng, 1);
    must(ft_mlp_init(&shape, &err, &net));
    must(ft_mlp_adam_init(&net, NULL, &rng, &err, &adam));
    ft_mlp_adam_run(&adam, x, y);
    ft_mlp_run(&net, x, 1, again);
    assert_memory_equal(y, again, sizeof y);
    ft_mlp_adam_back(&adam, slope);
    ft_mlp_adam_back(&adam, slope); /* adds */
    for (size_t i = 0; i < adam.n; i++) {
        float *weight = &net.weight[0][i];
        const float was = *weight, step = 2e-3f;
        *weight = was + step;
        const double up = loss(&net, x, slope);
        *weight = was - step;
        const double down = loss(&net, x, slope);
        *weight = was;
        const double expected = 2 * (up - down) / (2 * (double)step);
        if (fabs(expected - (double)adam.gradient[i]) > 2e-3 * (1 + fabs(expected)))
            fail_msg("%zu: %g is not %g", i, (double)adam.gradient[i], expected);
        largest = fmax(largest, fabs(expected));
    }
    assert_true(largest > 1); /* there is something to compare */
    ft_mlp_adam_deinit(&adam);
    ft_mlp_deinit(&net);
}

/* Adam's first step moves each weight by the rate against its gradient's sign. */
static void test_first_step(void **state)
{
    const float x[5] = {0.3f, -1, 0, 0.7f, 2}, slope[3] = {0.5f, -1, 0.25f};
    const size_t n = ft_mlp_n_params(&shape);
    uint8_t *mask = malloc(n);
    float *before = malloc(n * sizeof *before), *gradient = malloc(n * sizeof *gradient), y[3];
    ft_mlp net;
    ft_mlp_adam adam;
    ft_rng rng;
    size_t moved = 0;
    for (size_t i = 0; i < n; i++)
        mask[i] = i % 3 > 0;
    ft_rng_init(&rng, 1);
    must(ft_mlp_init(&shape, &err, &net));
    must(ft_mlp_adam_init(&net, mask, &rng, &err, &adam));
    memcpy(before, net.weight[0], n * sizeof *before);
    ft_mlp_adam_run(&adam, x, y);
    ft_mlp_adam_back(&adam, slope);
    memcpy(gradient, adam.gradient, n * sizeof *gradient);
    ft_mlp_adam_step(&adam, 0.01f);
    for (size_t i = 0; i < n; i++) {
        const double step = (double)net.weight[0][i] - (double)before[i];
        if (!mask[i])
            assert_true(net.weight[0][i] == 0);
        else if (fabsf(gradient[i]) > 1e-4f)
            assert_true(fabs(step + copysign(0.01, (double)gradient[i])) < 1e-4);
        moved += fabs(step) > 0.009;
        assert_true(adam.gradient[i] == 0);
    }
    assert_true(moved > n / 4);
    ft_mlp_adam_deinit(&adam);
    ft_mlp_deinit(&net);
    free(mask);
    free(before);
    free(gradient);
}

/* ---- a world ---- */

enum { ROOMS = 6, ACTIONS = 3 };
#define DISCOUNT 0.8

/* Rooms in a row. Action 0 stays and gains 0.3 in the first room; 1 goes up and costs 0.1; 2 goes
 * back to the first room, and gains 5 in the last one. */
typedef struct row {
    uint32_t at;
    uint32_t checks;
    float last[1 + ROOMS * ACTIONS]; /* what the network says at the last check */
    uint32_t stop_after;
} row;

static uint32_t next_room(uint32_t at, uint32_t action)
{
    return action == 0 ? at : action == 2 ? 0 : at + 1 < ROOMS ? at + 1 : at;
}

static double reward_of(uint32_t at, uint32_t action)
{
    return action == 0 ? (at == 0 ? 0.3 : 0) : action == 1 ? -0.1 : at == ROOMS - 1 ? 5 : 0;
}

static void see(void *ctx, float *state)
{
    memset(state, 0, ROOMS * sizeof *state);
    state[((row *)ctx)->at] = 1;
}

static void look(void *ctx, float *reward, float *discount, float *next)
{
    const row *r = ctx;
    for (uint32_t action = 0; action < ACTIONS; action++) {
        row behind = {.at = next_room(r->at, action)};
        reward[action] = (float)reward_of(r->at, action);
        discount[action] = (float)DISCOUNT;
        see(&behind, next + action * ROOMS);
    }
}

static void act(void *ctx, uint32_t action)
{
    row *r = ctx;
    r->at = next_room(r->at, action);
}

static bool check(void *ctx, uint32_t step, const ft_mlp *net)
{
    row *r = ctx;
    r->checks++;
    r->last[0] = (float)step;
    for (uint32_t i = 0; i < ROOMS; i++) {
        float x[ROOMS] = {0};
        x[i] = 1;
        ft_mlp_run(net, x, 1, r->last + 1 + i * ACTIONS);
    }
    return r->stop_after == 0 || r->checks < r->stop_after;
}

static const ft_dqn_opts opts = {.steps = 4000,
                                 .batch = 32,
                                 .memory = 2000,
                                 .acts = 2,
                                 .target_every = 50,
                                 .check_every = 500,
                                 .rate = 3e-3f,
                                 .explore_last = 0.3f,
                                 .seed = 1};

static void train(row *r, ft_mlp *net, uint64_t seed)
{
    const ft_mlp_shape of_net = {2, {ROOMS, 24, ACTIONS}};
    const ft_dqn_world world = {.ctx = r, .see = see, .look = look, .act = act, .check = check};
    ft_dqn_opts o = opts;
    o.seed = seed;
    must(ft_mlp_init(&of_net, &err, net));
    must(ft_dqn_train(&o, &world, NULL, &err, net));
}

/* By value iteration. */
static void values(double out[ROOMS][ACTIONS])
{
    memset(out, 0, ROOMS * ACTIONS * sizeof(double));
    for (int i = 0; i < 200; i++)
        for (uint32_t at = 0; at < ROOMS; at++)
            for (uint32_t action = 0; action < ACTIONS; action++) {
                const double *next = out[next_room(at, action)];
                out[at][action] =
                    reward_of(at, action) + DISCOUNT * fmax(next[0], fmax(next[1], next[2]));
            }
}

static void test_learns_the_values(void **state)
{
    double expected[ROOMS][ACTIONS];
    row r = {0};
    ft_mlp net;
    values(expected);
    assert_true(expected[0][1] > expected[0][0]); /* to stay would be short-sighted */
    train(&r, &net, 1);
    assert_true(r.checks == 8 && r.last[0] == 4000);
    for (uint32_t at = 0; at < ROOMS; at++) {
        const float *learnt = r.last + 1 + at * ACTIONS;
        for (uint32_t action = 0; action < ACTIONS; action++)
            if (fabs((double)learnt[action] - expected[at][action]) > 0.1)
                fail_msg("room %u, action %u: %g is not %g", at, action, (double)learnt[action],
                         expected[at][action]);
    }
    ft_mlp_deinit(&net);
}

static void test_same_seed(void **state)
{
    row r[3] = {{0}, {0}, {0}};
    ft_mlp net[3];
    const size_t bytes = (ROOMS * 24 + 24 + 24 * ACTIONS + ACTIONS) * sizeof(float);
    for (int i = 0; i < 3; i++)
        train(&r[i], &net[i], i == 2 ? 2 : 1);
    assert_memory_equal(net[0].weight[0], net[1].weight[0], bytes);
    assert_memory_not_equal(net[0].weight[0], net[2].weight[0], bytes);
    for (int i = 0; i < 3; i++)
        ft_mlp_deinit(&net[i]);
}

static void test_ends_early(void **state)
{
    row r = {.stop_after = 2};
    ft_mlp net;
    train(&r, &net, 1);
    assert_true(r.checks == 2 && r.last[0] == 1000);
    ft_mlp_deinit(&net);
}

static void test_options(void **state)
{
    const ft_dqn_world world = {.see = see, .look = look, .act = act};
    const ft_mlp_shape of_net = {1, {ROOMS, ACTIONS}};
    ft_dqn_opts o = opts;
    ft_mlp net;
    must(ft_mlp_init(&of_net, &err, &net));
    o.memory = 31;
    assert_int_equal(ft_dqn_train(&o, &world, NULL, &err, &net), FT_INVALID);
    ft_mlp_deinit(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),         cmocka_unit_test(test_first_step),
        cmocka_unit_test(test_learns_the_values), cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_ends_early),        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
