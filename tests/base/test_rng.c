// SPDX-License-Identifier: Apache-2.0
// Philox against the published known answers (Random123, kat_vectors), and the moments of the
// generator built on it. Seeds are fixed, so a bound that holds once always holds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void test_philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        uint32_t out[4];
        ft_philox4x32(kat[i].counter, kat[i].key, out);
        assert_memory_equal(out, kat[i].out, sizeof out);
    }
}

static void test_sequence_depends_on_the_whole_seed(void **state)
{
    ft_rng a, b, c;
    int same_b = 0, same_c = 0;
    ft_rng_init(&a, 1);
    ft_rng_init(&b, 1);
    ft_rng_init(&c, 1 | (uint64_t)1 << 32);
    for (int i = 0; i < 1000; i++) {
        uint32_t x = ft_rng_u32(&a);
        same_b += x == ft_rng_u32(&b);
        same_c += x == ft_rng_u32(&c);
    }
    assert_int_equal(same_b, 1000);
    assert_true(same_c < 3);
}

static void test_below(void **state)
{
    enum { BINS = 7, DRAWS = 70000 };
    unsigned count[BINS] = {0};
    ft_rng rng;
    ft_rng_init(&rng, 42);
    for (int i = 0; i < DRAWS; i++) {
        uint32_t x = ft_rng_below(&rng, BINS);
        assert_true(x < BINS);
        count[x]++;
    }
    double chi2 = 0, expected = (double)DRAWS / BINS;
    for (int i = 0; i < BINS; i++)
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
    assert_true(chi2 < 22.5); /* 6 degrees of freedom, p = 0.001 */
    for (int i = 0; i < 100; i++)
        assert_int_equal(ft_rng_below(&rng, 1), 0);
}

static void test_unit(void **state)
{
    enum { DRAWS = 200000 };
    double sum = 0, squares = 0;
    ft_rng rng;
    ft_rng_init(&rng, 7);
    for (int i = 0; i < DRAWS; i++) {
        double u = ft_rng_unit(&rng);
        assert_true(u > 0 && u < 1);
        sum += u;
        squares += u * u;
    }
    double mean = sum / DRAWS, variance = squares / DRAWS - mean * mean;
    assert_true(fabs(mean - 0.5) < 0.003); /* 4.6 standard errors */
    assert_true(fabs(variance - 1.0 / 12) < 0.001);
}

/* Both ends of the interval stay open: the generator's smallest and largest words. */
static void test_unit_is_open(void **state)
{
    ft_rng low = {.left = 1, .out = {0}}, high = {.left = 1, .out = {UINT32_MAX}};
    assert_true(ft_rng_unit(&low) > 0);
    assert_true(ft_rng_unit(&high) < 1);
}

static void test_normal(void **state)
{
    enum { DRAWS = 200000 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    ft_rng rng;
    ft_rng_init(&rng, 11);
    for (int i = 0; i < DRAWS; i++) {
        double x = ft_rng_normal(&rng);
        assert_true(isfinite(x));
        m1 += x / DRAWS;
        m2 += x * x / DRAWS;
        m3 += x * x * x / DRAWS;
        m4 += x * x * x * x / DRAWS;
    }
    assert_true(fabs(m1) < 0.01);
    assert_true(fabs(m2 - 1) < 0.015);
    assert_true(fabs(m3) < 0.04);
    assert_true(fabs(m4 - 3) < 0.1);
}

static void test_random_bytes(void **state)
{
    unsigned char a[4096] = {0}, b[4096] = {0};
    unsigned ones = 0;
    assert_int_equal(ft_random_bytes(a, sizeof a), FT_OK);
    assert_int_equal(ft_random_bytes(b, sizeof b), FT_OK);
    assert_memory_not_equal(a, b, sizeof a);
    for (size_t i = 0; i < sizeof a; i++)
        ones += (unsigned)__builtin_popcount(a[i]);
    assert_true(ones > 15400 && ones < 17400); /* 16384 +- 11 standard deviations */
    assert_int_equal(ft_random_bytes(a, 0), FT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_sequence_depends_on_the_whole_seed),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_unit),
        cmocka_unit_test(test_unit_is_open),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
