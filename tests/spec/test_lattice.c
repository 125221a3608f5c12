// SPDX-License-Identifier: Apache-2.0
// spec/lattice.c: no point is nearer than the one it finds, ties go as documented, and the sum is
// always l.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/lattice.h"
#include "spec/sampling.h"

enum { SMALL = 4, MOST = 50000 };

typedef struct place {
    void *memory;
    ft_lattice_work work;
} place;

static place open_place(uint32_t n_vocab, uint32_t l_max)
{
    place p = {.memory = malloc(ft_lattice_work_bytes(n_vocab, l_max))};
    assert_non_null(p.memory);
    p.work = ft_lattice_work_in(p.memory, n_vocab, l_max);
    return p;
}

static void check_form(const ft_lattice_point *point, uint32_t l, uint32_t n_vocab)
{
    uint64_t sum = 0;
    assert_int_equal(point->l, l);
    assert_in_range(point->n, 1, l);
    for (uint32_t i = 0; i < point->n; i++) {
        assert_in_range(point->token[i], i > 0 ? point->token[i - 1] + 1 : 0, n_vocab - 1);
        assert_true(point->count[i] > 0);
        assert_int_equal(ft_lattice_count(point, point->token[i]), point->count[i]);
        sum += point->count[i];
    }
    assert_int_equal(sum, l);
}

/* ---- against all points ---- */

/* Of `count` from the distribution weight / sum, as l^2 sum^2 times the squared distance. */
static uint64_t distance(const uint64_t *weight, uint64_t sum, const uint32_t *count, uint32_t l)
{
    uint64_t d = 0;
    for (int i = 0; i < SMALL; i++) {
        const int64_t off = (int64_t)(count[i] * sum) - (int64_t)(l * weight[i]);
        d += (uint64_t)(off * off);
    }
    return d;
}

/* The least distance of any point with the first `i` counts given, and `left` for the others. */
static uint64_t least(const uint64_t *weight, uint64_t sum, uint32_t *count, int i, uint32_t left,
                      uint32_t l)
{
    uint64_t best = UINT64_MAX;
    if (i == SMALL - 1) {
        count[i] = left;
        return distance(weight, sum, count, l);
    }
    for (count[i] = 0; count[i] <= left; count[i]++) {
        const uint64_t d = least(weight, sum, count, i + 1, left - count[i], l);
        best = d < best ? d : best;
    }
    return best;
}

static void none_is_nearer(void **state)
{
    static const int32_t tokens[SMALL] = {2, 3, 5, 8};
    place p = open_place(10, 12);
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < 4000; i++) {
        const uint32_t l = 1 + ft_rng_below(&rng, 12);
        const uint32_t high = i & 1 ? 1000 : 6; /* small ones: many ties */
        uint64_t weight[SMALL], sum = 0;
        uint32_t count[SMALL];
        for (int k = 0; k < SMALL; k++)
            sum += weight[k] = 1 + ft_rng_below(&rng, high);
        ft_lattice_quantize(&p.work, l, tokens, weight, SMALL, &p.work.point);
        check_form(&p.work.point, l, 10);
        for (int k = 0; k < SMALL; k++)
            count[k] = ft_lattice_count(&p.work.point, tokens[k]);
        const uint64_t found = distance(weight, sum, count, l);
        assert_int_equal(found, least(weight, sum, count, 0, l, l));
    }
    free(p.memory);
}

/* ---- ties ---- */

static void check(const uint64_t *weight, size_t n, uint32_t l, const uint32_t *expected)
{
    static const int32_t tokens[] = {0, 1, 2, 3, 4};
    place p = open_place(5, l);
    ft_lattice_quantize(&p.work, l, tokens, weight, n, &p.work.point);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ft_lattice_count(&p.work.point, (int32_t)i), expected[i]);
    free(p.memory);
}

static void of_equal_errors_the_lower_token(void **state)
{
    /* halves round up to 1 each; the lower ones lose it again */
    check((uint64_t[]){1, 1, 1, 1}, 4, 2, (uint32_t[]){0, 0, 1, 1});
    check((uint64_t[]){1, 1}, 2, 1, (uint32_t[]){0, 1});
    /* thirds round down; the lower ones gain */
    check((uint64_t[]){1, 1, 1}, 3, 1, (uint32_t[]){1, 0, 0});
    check((uint64_t[]){1, 1, 1}, 3, 4, (uint32_t[]){2, 1, 1});
    check((uint64_t[]){1, 1, 1, 1, 1}, 5, 2, (uint32_t[]){1, 1, 0, 0, 0});
    /* 0.4 and twice 1.8: the larger error, not the lower token */
    check((uint64_t[]){2, 9, 9}, 3, 4, (uint32_t[]){0, 2, 2});
}

static void edges(void **state)
{
    check((uint64_t[]){7}, 1, 1, (uint32_t[]){1});
    check((uint64_t[]){FT_SAMPLING_WEIGHT_MAX}, 1, FT_LATTICE_L_MAX, (uint32_t[]){65535});
    check((uint64_t[]){1, FT_SAMPLING_WEIGHT_MAX}, 2, FT_LATTICE_L_MAX, (uint32_t[]){0, 65535});
    check((uint64_t[]){1, 1, 1, 1, 1}, 5, FT_LATTICE_L_MAX,
          (uint32_t[]){13107, 13107, 13107, 13107, 13107});
}

/* ---- large ones ---- */

/* No point is nearer if none is that has one part of l elsewhere: the squared distance is a sum of
 * convex functions of the counts. That part would come from the largest error and go to the
 * smallest, and bring 2 W (largest - smallest - W). */
static void check_nearest(const ft_lattice_point *point, const int32_t *tokens,
                          const uint64_t *weight, size_t n)
{
    int64_t largest = INT64_MIN, smallest = INT64_MAX;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weight[i];
    for (size_t i = 0; i < n; i++) {
        const uint32_t count = ft_lattice_count(point, tokens[i]);
        const int64_t error = (int64_t)(count * sum - point->l * weight[i]);
        largest = count > 0 && error > largest ? error : largest;
        smallest = error < smallest ? error : smallest;
    }
    assert_true(largest - smallest <= (int64_t)sum);
}

static void any_size(void **state)
{
    static int32_t tokens[MOST];
    static uint64_t weight[MOST];
    static const uint32_t ls[] = {1, 2, 100, 240, 720, 20000, FT_LATTICE_L_MAX};
    place p = open_place(2 * MOST, FT_LATTICE_L_MAX);
    ft_rng rng;
    ft_rng_init(&rng, 2);
    for (int round = 0; round < 40; round++) {
        const size_t n = round % 4 ? 1 + ft_rng_below(&rng, MOST) : MOST;
        const double slope = 2.5 * ft_rng_unit(&rng);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            tokens[i] = (int32_t)(2 * i + ft_rng_below(&rng, 2));
            weight[i] = 1 + (uint64_t)(0x1p39 * pow((double)i + 1, -slope) * ft_rng_unit(&rng));
            sum += (double)weight[i];
        }
        const uint32_t l = ls[round % 7];
        ft_lattice_quantize(&p.work, l, tokens, weight, n, &p.work.point);
        check_form(&p.work.point, l, 2 * MOST);
        check_nearest(&p.work.point, tokens, weight, n);
        /* rounding moves a count by less than 1/2, its correction by 1 */
        for (size_t i = 0; i < n; i++) {
            const double exact = l * (double)weight[i] / sum;
            assert_true(fabs(ft_lattice_count(&p.work.point, tokens[i]) - exact) < 1);
        }
        assert_int_equal(ft_lattice_count(&p.work.point, 2 * MOST - 1 - tokens[MOST - 1] % 2), 0);
    }
    free(p.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_nearer),
        cmocka_unit_test(of_equal_errors_the_lower_token),
        cmocka_unit_test(edges),
        cmocka_unit_test(any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
