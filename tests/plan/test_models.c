// SPDX-License-Identifier: Apache-2.0
// The paper's equations with numbers that were worked out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/bandwidth.h"
#include "plan/memory.h"
#include "plan/pipeline.h"
#include "plan/radio.h"
#include "plan/runtime.h"

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
        fail_msg("%.15g is not %.15g", a, b);
}

static void test_tokens(void **state)
{
    near(ft_plan_tokens(0.8, 0), 1);
    near(ft_plan_tokens(0.8, 3), (1 - pow(0.8, 4)) / (1 - 0.8)); /* (7) */
    near(ft_plan_tokens(1, 7), 8);
    near(ft_plan_tokens(0, 7), 1);
    assert_int_equal(ft_plan_rounds(18, ft_plan_tokens(0.8, 1)), 10); /* 18 / 1.8 */
    assert_int_equal(ft_plan_rounds(19, ft_plan_tokens(0.8, 1)), 11);
    assert_int_equal(ft_plan_rounds(34, ft_plan_tokens(0.36, 1)),
                     25); /* 34 / 1.36 in doubles: > 25 */
    assert_int_equal(ft_plan_rounds(1, 5), 1);
    for (uint32_t n = 1; n < 4000; n++)
        assert_int_equal(ft_plan_rounds(n, 1), n);
}

static void test_memory(void **state)
{
    near(ft_plan_weight_bytes(2, 10, 30), 2 * (8 * 100 + 4 * 300)); /* (9) */
    near(ft_plan_token_bytes(2, 10), 80);                           /* of (10) */
    const ft_plan_shape shape = {.n = 3, .in_max = 100, .out_max = 50, .in_sum = 210};
    ft_plan_memory m = {.padded = true};
    near(ft_plan_kv_tokens(&m, &shape, 290), 3 * 150);
    m.padded = false;
    near(ft_plan_kv_tokens(&m, &shape, 290), 290);
}

/* J = 2, h1 = 10, h2 = 30. */
static void test_operations(void **state)
{
    const ft_plan_model m = {.layers = 2, .hidden = 10, .ffn = 30, .c1 = 0.5, .c2 = 3};
    near(ft_plan_operations(&m, 7, 0),
         2 * (8 * 7 * 100 + 4 * 49 * 10 + 4 * 7 * 10 * 30));                       /* (11) */
    near(ft_plan_operations(&m, 1, 9), 2 * (8 * 100 + 4 * 10 * 10 + 4 * 10 * 30)); /* (12) */
    near(ft_plan_pass_s(&m, 100, 4), 0.5 * 100 * 4 + 3);                           /* (17) */
}

/* (13), (14), (18), (19) of round n, term by term. */
static void stages(const ft_plan_pair *pair, const ft_plan_shape *b, uint32_t l, uint32_t n,
                   double out[2])
{
    const ft_plan_model *d = &pair->draft, *v = &pair->verify;
    const double tokens = ft_plan_tokens(0.7, l), in = b->in_max, behind = (n - 1) * tokens - 1;
    out[0] = 0;
    for (uint32_t i = 1; i <= l; i++) {
        const double kv = in + behind + i - 1;
        const double f = n == 1 && i == 1
                             ? 4 * d->layers * d->hidden * in * (2 * d->hidden + in + d->ffn)
                             : 4 * d->layers * d->hidden * (2 * d->hidden + kv + 1 + d->ffn);
        out[0] += d->c1 * f * b->n + d->c2;
    }
    const double f =
        n == 1
            ? 4 * v->layers * v->hidden * (in + l) * (2 * v->hidden + in + l + v->ffn)
            : 4 * v->layers * v->hidden * (1 + l) * (2 * v->hidden + in + behind + l + 1 + v->ffn);
    out[1] = v->c1 * f * b->n + v->c2;
}

static void test_stages(void **state)
{
    const ft_plan_pair pair = {.draft = {2, 10, 30, 1e-3, 0.2}, .verify = {5, 40, 90, 1e-4, 0.7}};
    const ft_plan_shape shape = {.n = 3, .in_max = 100, .out_max = 50, .in_sum = 210};
    for (uint32_t l = 0; l < 6; l++) {
        ft_plan_time draft, verify;
        ft_plan_pair_times(&pair, &shape, l, ft_plan_tokens(0.7, l), &draft, &verify);
        for (uint32_t n = 1; n < 20; n++) {
            double want[2];
            stages(&pair, &shape, l, n, want);
            near(ft_plan_time_at(&draft, n), want[0]);
            near(ft_plan_time_at(&verify, n), want[1]);
        }
    }
}

static void test_radio(void **state)
{
    const ft_plan_radio radio = {.bandwidth_hz = 20e6, .power_w = 0.2, .noise_w = 0.1};
    near(ft_plan_dbm_w(-106), 2.5118864315095823e-14);
    near(ft_plan_dbm_w(30), 1);
    near(ft_plan_gain(1e-3, 2, 100), 2e-7);
    near(ft_plan_radio_rate(&radio, 3.5), 20e6 * 3); /* 1 + 0.2 * 3.5 / 0.1 = 8 */
    near(ft_plan_embedding_bits(2048, 4096), 98304);
}

/* The sum of the shares with which all inputs are there at `at`. */
static double shares(const ft_plan_task *tasks, uint32_t n, double at)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += tasks[k].payload_bits / tasks[k].rate_bits_s / (at - tasks[k].release_s);
    return sum;
}

static void test_bandwidth(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int i = 0; i < 500; i++) {
        ft_plan_task tasks[20];
        double share[20], low = 0, high = 0, sum = 0;
        const uint32_t n = 1 + ft_rng_below(&rng, 20);
        for (uint32_t k = 0; k < n; k++) {
            tasks[k] = (ft_plan_task){.in_tok = 1,
                                      .out_tok = 1,
                                      .release_s = i % 2 ? 100 * ft_rng_unit(&rng) : 5,
                                      .payload_bits = 1e6 * ft_rng_unit(&rng),
                                      .rate_bits_s = exp(10 * ft_rng_unit(&rng))};
            low = fmax(low, tasks[k].release_s);
            high += tasks[k].payload_bits / tasks[k].rate_bits_s;
        }
        high += low;
        for (int bit = 0; bit < 200; bit++) {
            const double middle = (low + high) / 2;
            *(shares(tasks, n, middle) > 1 ? &low : &high) = middle;
        }
        const double at = ft_plan_bandwidth(tasks, n, share);
        near(at, high);
        for (uint32_t k = 0; k < n; k++) {
            near(share[k],
                 tasks[k].payload_bits / tasks[k].rate_bits_s / (high - tasks[k].release_s));
            sum += share[k];
        }
        near(sum, 1);
        near(ft_plan_com_s(tasks, n, share), at);
        for (uint32_t k = 0; k < n; k++)
            share[k] = 1.0 / n;
        assert_true(ft_plan_com_s(tasks, n, share) >= at * (1 - 1e-9)); /* uniform is no better */
    }
}

/* Tasks without an upload only have to be released. */
static void test_no_upload(void **state)
{
    ft_plan_task tasks[2] = {{.rate_bits_s = INFINITY}, {.release_s = 3, .rate_bits_s = INFINITY}};
    double share[2];
    near(ft_plan_bandwidth(tasks, 2, share), 3);
    near(share[0] + share[1], 1);
    tasks[0].payload_bits = tasks[0].rate_bits_s = 2;
    near(ft_plan_bandwidth(tasks, 2, share), 3);
    near(share[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_operations), cmocka_unit_test(test_stages),
        cmocka_unit_test(test_radio),      cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_no_upload)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
