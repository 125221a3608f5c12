// SPDX-License-Identifier: Apache-2.0
// Perceptrons: inference against sums in double precision, for widths that fill registers and that
// do not; training learns what is not linear, is the same for the same seed, and keeps its best
// epoch.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/mlp_train.h"

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

/* Layer by layer, as it is written in books. */
static void naive(const ft_mlp *mlp, const float *x, double *y)
{
    double in[FT_MLP_WIDTH], out[FT_MLP_WIDTH];
    for (uint32_t i = 0; i < mlp->shape.width[0]; i++)
        in[i] = (double)x[i];
    for (uint32_t l = 0; l < mlp->shape.n_layers; l++) {
        const uint32_t n_in = mlp->shape.width[l], n_out = mlp->shape.width[l + 1];
        for (uint32_t o = 0; o < n_out; o++) {
            out[o] = (double)mlp->bias[l][o];
            for (uint32_t i = 0; i < n_in; i++)
                out[o] += in[i] * (double)mlp->weight[l][(size_t)i * n_out + o];
            if (l + 1 < mlp->shape.n_layers && out[o] < 0)
                out[o] = 0;
        }
        memcpy(in, out, n_out * sizeof *in);
    }
    memcpy(y, in, mlp->shape.width[mlp->shape.n_layers] * sizeof *y);
}

static void test_run_equals_naive(void **state)
{
    const ft_mlp_shape shapes[] = {{1, {5, 1}},
                                   {2, {5, 32, 1}},
                                   {3, {7, 33, 17, 3}},
                                   {4, {5, 512, 128, 64, 1}},
                                   {4, {1, 79, 64, 15, 130}}};
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        enum { ROWS = 9 };
        ft_mlp mlp;
        float x[ROWS * 8], y[ROWS * 130], one[130];
        double expected[FT_MLP_WIDTH];
        const uint32_t n_in = shapes[s].width[0], n_out = shapes[s].width[shapes[s].n_layers];
        must(ft_mlp_init(&shapes[s], &err, &mlp));
        for (size_t i = 0; i < ft_mlp_n_params(&mlp.shape); i++)
            mlp.weight[0][i] = 0.3f * (float)ft_rng_normal(&rng);
        for (uint32_t i = 0; i < ROWS * n_in; i++)
            x[i] = i % 5 ? (float)ft_rng_normal(&rng) : 0;
        ft_mlp_run(&mlp, x, ROWS, y);
        for (uint32_t r = 0; r < ROWS; r++) {
            naive(&mlp, x + r * n_in, expected);
            ft_mlp_run(&mlp, x + r * n_in, 1, one);
            assert_memory_equal(one, y + r * n_out, n_out * sizeof *one);
            for (uint32_t o = 0; o < n_out; o++)
                assert_true(fabs(expected[o] - (double)one[o]) < 1e-4 * (1 + fabs(expected[o])));
        }
        ft_mlp_deinit(&mlp);
    }
}

static void test_shapes_are_checked(void **state)
{
    const ft_mlp_shape bad[] = {{0, {5}},
                                {1, {5, 0}},
                                {1, {FT_MLP_WIDTH + 1, 1}},
                                {FT_MLP_LAYERS + 1, {5, 1, 1, 1, 1, 1, 1, 1, 1}}};
    ft_mlp mlp;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ft_mlp_init(&bad[i], &err, &mlp), FT_INVALID);
    ft_mlp_deinit(&mlp);
}

enum { N = 1500, CHECKED = 400 };

/* Inside a ring or not: no line tells the classes apart. */
static void ring(uint64_t seed, uint32_t n, float *x, uint8_t *y)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (uint32_t i = 0; i < n; i++) {
        x[2 * i] = (float)ft_rng_normal(&rng);
        x[2 * i + 1] = (float)ft_rng_normal(&rng);
        const float r = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1];
        y[i] = r > 1.2f;
    }
}

static void test_learns_a_ring(void **state)
{
    static float x[2 * N], checked_x[2 * CHECKED];
    static uint8_t y[N], checked_y[CHECKED];
    const ft_mlp_shape shape = {3, {2, 32, 16, 1}};
    const ft_mlp_data train = {x, y, N}, checked = {checked_x, checked_y, CHECKED};
    const ft_mlp_train_opts opts = {
        .batch = 50, .max_epochs = 40, .rate = 5e-3f, .n_threads = 1, .seed = 1};
    ft_mlp mlp[2];
    ft_mlp_training how[2];
    ring(1, N, x, y);
    ring(2, CHECKED, checked_x, checked_y);
    for (int i = 0; i < 2; i++) {
        must(ft_mlp_init(&shape, &err, &mlp[i]));
        must(ft_mlp_train(&opts, &train, &checked, &err, &mlp[i], &how[i]));
    }
    /* the same seed */
    assert_memory_equal(mlp[0].weight[0], mlp[1].weight[0],
                        ft_mlp_n_params(&shape) * sizeof(float));
    /* what it says of itself is so */
    assert_true(how[0].best > 0 && how[0].best <= how[0].epochs && how[0].epochs <= 40);
    assert_true(fabs(ft_mlp_loss(&mlp[0], &checked) - how[0].loss) < 1e-9);
    assert_true(how[0].train_loss < 0.3 && how[0].loss < 0.25);
    uint32_t right = 0;
    for (uint32_t i = 0; i < CHECKED; i++) {
        float odds;
        ft_mlp_run(&mlp[0], checked_x + 2 * i, 1, &odds);
        right += (odds > 0) == checked_y[i];
    }
    assert_true(right > 0.93 * CHECKED);
    for (int i = 0; i < 2; i++)
        ft_mlp_deinit(&mlp[i]);
}

static void test_what_cannot_be_trained(void **state)
{
    static float x[2 * N];
    static uint8_t y[N];
    const ft_mlp_data all = {x, y, N}, none = {x, y, 0}, few = {x, y, 20};
    const ft_mlp_shape one = {1, {2, 1}}, two = {1, {2, 2}};
    const ft_mlp_train_opts opts = {.batch = 50, .max_epochs = 60, .rate = 1e-3f, .n_threads = 1};
    ft_mlp_training how;
    ft_mlp mlp;
    must(ft_mlp_init(&one, &err, &mlp));
    assert_int_equal(ft_mlp_train(&opts, &all, &none, &err, &mlp, &how), FT_INVALID);
    assert_int_equal(ft_mlp_train(&opts, &few, &all, &err, &mlp, &how), FT_INVALID);
    ft_mlp_deinit(&mlp);
    must(ft_mlp_init(&two, &err, &mlp));
    assert_int_equal(ft_mlp_train(&opts, &all, &all, &err, &mlp, &how), FT_INVALID);
    ft_mlp_deinit(&mlp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_equals_naive),
        cmocka_unit_test(test_shapes_are_checked),
        cmocka_unit_test(test_learns_a_ring),
        cmocka_unit_test(test_what_cannot_be_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
