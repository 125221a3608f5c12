// SPDX-License-Identifier: Apache-2.0
// Both codes of lattice points: each point comes back unchanged, in as many bits as promised; every
// other string of bytes is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/sort.h"
#include "spec/lattice.h"

static const ft_lattice_code *const codes[] = {&ft_lattice_index, &ft_lattice_adaptive};

typedef struct place {
    void *memory[2];
    ft_lattice_work work, other;
    uint8_t *bytes;
} place;

static size_t most_of(uint32_t n_vocab, uint32_t l)
{
    const size_t index = ft_lattice_index.most_bytes(n_vocab, l);
    const size_t adaptive = ft_lattice_adaptive.most_bytes(n_vocab, l);
    return index > adaptive ? index : adaptive;
}

static place open_place(uint32_t n_vocab, uint32_t l_max)
{
    place p = {.bytes = malloc(most_of(n_vocab, l_max) + 1)};
    for (int i = 0; i < 2; i++)
        p.memory[i] = malloc(ft_lattice_work_bytes(n_vocab, l_max));
    p.work = ft_lattice_work_in(p.memory[0], n_vocab, l_max);
    p.other = ft_lattice_work_in(p.memory[1], n_vocab, l_max);
    return p;
}

static void close_place(place *p)
{
    free(p->memory[0]);
    free(p->memory[1]);
    free(p->bytes);
}

static bool below(const void *ctx, const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b;
}

/* l draws of a token with their counts. The larger `steep` is, the likelier are lower tokens. */
static void random_point(ft_rng *rng, ft_lattice_work *work, uint32_t l, double steep)
{
    ft_lattice_point *p = &work->point;
    int32_t *draws = malloc(l * sizeof *draws);
    for (uint32_t i = 0; i < l; i++)
        draws[i] = (int32_t)(work->n_vocab * pow(ft_rng_unit(rng), 1 + steep));
    ft_sort(draws, l, sizeof *draws, below, NULL);
    p->l = l;
    p->n = 0;
    for (uint32_t i = 0; i < l; i++) {
        if (p->n > 0 && p->token[p->n - 1] == draws[i]) {
            p->count[p->n - 1]++;
            continue;
        }
        p->token[p->n] = draws[i];
        p->count[p->n++] = 1;
    }
    free(draws);
}

static void one_token(ft_lattice_work *work, uint32_t l, int32_t token)
{
    work->point.l = work->point.count[0] = l;
    work->point.n = 1;
    work->point.token[0] = token;
}

/* The point goes through a code and back; returns its bits. */
static uint64_t round_trip(place *p, const ft_lattice_code *code)
{
    const ft_lattice_point *in = &p->work.point, *out = &p->other.point;
    const size_t most = code->most_bytes(p->work.n_vocab, in->l);
    const uint64_t bits = code->encode(&p->work, in, p->bytes, most);
    assert_true(bits <= 8 * most);
    const size_t n = (size_t)(bits + 7) / 8;
    uint8_t *exact = malloc(n ? n : 1); /* sanitizers see its end */
    memcpy(exact, p->bytes, n);
    const char *wrong = code->decode(&p->other, in->l, exact, n, &p->other.point);
    if (wrong)
        fail_msg("%s: %s", code->name, wrong);
    assert_int_equal(out->l, in->l);
    assert_int_equal(out->n, in->n);
    assert_memory_equal(out->token, in->token, in->n * sizeof *in->token);
    assert_memory_equal(out->count, in->count, in->n * sizeof *in->count);
    p->bytes[n] = 0; /* one byte more, and one less */
    assert_non_null(code->decode(&p->other, in->l, p->bytes, n + 1, &p->other.point));
    if (n > 0 && code == &ft_lattice_index)
        assert_non_null(code->decode(&p->other, in->l, p->bytes, n - 1, &p->other.point));
    free(exact);
    return bits;
}

static void both(place *p)
{
    for (size_t i = 0; i < FT_COUNT(codes); i++)
        (void)round_trip(p, codes[i]);
}

static void random_points(void **state)
{
    static const uint32_t vocab[] = {1, 2, 3, 17, 256, 4096, 32000, 151936};
    static const uint32_t ls[] = {1, 2, 3, 8, 100, 240, 720};
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (size_t v = 0; v < FT_COUNT(vocab); v++)
        for (size_t k = 0; k < FT_COUNT(ls); k++) {
            place p = open_place(vocab[v], ls[k]);
            const int rounds = vocab[v] < 10000 ? 60 : 6;
            for (int i = 0; i < rounds; i++) {
                random_point(&rng, &p.work, ls[k], i % 6);
                both(&p);
            }
            one_token(&p.work, ls[k], 0);
            both(&p);
            one_token(&p.work, ls[k], (int32_t)vocab[v] - 1);
            both(&p);
            close_place(&p);
        }
}

/* The largest l, and a larger vocabulary than any model has. */
static void the_largest(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 2);
    place p = open_place(600, FT_LATTICE_L_MAX);
    for (int i = 0; i < 3; i++) {
        random_point(&rng, &p.work, FT_LATTICE_L_MAX, i);
        both(&p);
    }
    close_place(&p);
    p = open_place(1u << 22, 50);
    for (int i = 0; i < 3; i++) {
        random_point(&rng, &p.work, 50, i);
        both(&p);
    }
    close_place(&p);
}

/* ---- index ---- */

/* C(n, k), which fits. */
static uint64_t choose(uint64_t n, uint64_t k)
{
    uint64_t c = 1;
    for (uint64_t i = 1; i <= k; i++)
        c = c * (n - k + i) / i;
    return c;
}

static uint64_t bits_of(uint64_t points)
{
    uint64_t bits = 0;
    while (points > UINT64_C(1) << bits)
        bits++;
    return bits;
}

/* Every number below C(l + V - 1, l) is a point's, of which each has another; the others, in as
 * many bytes, are refused. */
static void every_number(void **state)
{
    for (uint32_t n_vocab = 1; n_vocab <= 6; n_vocab++)
        for (uint32_t l = 1; l <= 7; l++) {
            place p = open_place(n_vocab, l);
            const uint64_t points = choose(l + n_vocab - 1, l);
            const uint64_t bits = bits_of(points), n = (bits + 7) / 8;
            for (uint64_t number = 0; number < UINT64_C(1) << (8 * n); number++) {
                const uint8_t bytes[] = {(uint8_t)number, (uint8_t)(number >> 8)};
                const char *wrong = ft_lattice_index.decode(&p.work, l, bytes, n, &p.work.point);
                if ((wrong == NULL) != (number < points))
                    fail_msg("V %u, l %u: number %d", n_vocab, l, (int)number);
                if (wrong)
                    continue;
                uint8_t again[2] = {0};
                assert_int_equal(
                    ft_lattice_index.encode(&p.work, &p.work.point, again, sizeof again), bits);
                assert_memory_equal(again, bytes, n);
            }
            close_place(&p);
        }
}

/* Eq. (6), by lgamma. */
static void bits_are_the_formulas(void **state)
{
    static const struct {
        uint32_t n_vocab, l;
    } at[] = {{32000, 100}, {49152, 240}, {49152, 720}, {151936, 1000}, {2, 1}, {300, 5}};
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (size_t i = 0; i < FT_COUNT(at); i++) {
        const double n = (double)at[i].l + at[i].n_vocab, l = at[i].l;
        const double log2_points = (lgamma(n) - lgamma(l + 1) - lgamma(n - l)) / log(2);
        place p = open_place(at[i].n_vocab, at[i].l);
        random_point(&rng, &p.work, at[i].l, 2);
        const uint64_t bits = round_trip(&p, &ft_lattice_index);
        assert_int_equal(bits, (uint64_t)ceil(log2_points - 1e-9));
        close_place(&p);
    }
}

static void too_long(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 4);
    place p = open_place(49152, 240);
    random_point(&rng, &p.work, 240, 0);
    for (size_t c = 0; c < FT_COUNT(codes); c++) {
        const uint64_t bits = round_trip(&p, codes[c]);
        const size_t n = (size_t)(bits + 7) / 8;
        for (size_t most = 0; most < n; most++) {
            uint8_t *out = malloc(most ? most : 1);
            assert_true(codes[c]->encode(&p.work, &p.work.point, out, most) == FT_LATTICE_TOO_LONG);
            free(out);
        }
    }
    close_place(&p);
}

/* ---- adaptive ---- */

static void check_form(const ft_lattice_point *p, uint32_t n_vocab)
{
    uint64_t sum = 0;
    assert_in_range(p->n, 1, ft_min_u32(p->l, n_vocab));
    for (uint32_t i = 0; i < p->n; i++) {
        assert_in_range(p->token[i], i > 0 ? p->token[i - 1] + 1 : 0, n_vocab - 1);
        assert_in_range(p->count[i], 1, p->l);
        sum += p->count[i];
    }
    assert_int_equal(sum, p->l);
}

/* True: it is a point's, and the code writes the same bytes for that. */
static bool reads(place *p, const ft_lattice_code *code, uint32_t l, const uint8_t *bytes, size_t n)
{
    const char *wrong = code->decode(&p->other, l, bytes, n, &p->other.point);
    if (wrong)
        return false;
    check_form(&p->other.point, p->work.n_vocab);
    const size_t most = code->most_bytes(p->work.n_vocab, l);
    const uint64_t bits = code->encode(&p->other, &p->other.point, p->bytes, most);
    assert_int_equal((bits + 7) / 8, n);
    assert_memory_equal(p->bytes, bytes, n);
    return true;
}

/* Of all strings of at most two bytes, as many are taken as there are points. */
static void a_point_has_one_string(void **state)
{
    static const struct {
        uint32_t n_vocab, l;
    } at[] = {{1, 1}, {1, 9}, {2, 1}, {3, 2}, {4, 3}, {9, 2}, {200, 1}};
    for (size_t i = 0; i < FT_COUNT(at); i++) {
        place p = open_place(at[i].n_vocab, at[i].l);
        uint64_t taken = 0;
        for (uint32_t n = 0; n <= 2; n++)
            for (uint32_t x = 0; x < 1u << (8 * n); x++) {
                const uint8_t bytes[] = {(uint8_t)x, (uint8_t)(x >> 8)};
                taken += reads(&p, &ft_lattice_adaptive, at[i].l, bytes, n);
            }
        assert_int_equal(taken, choose(at[i].l + at[i].n_vocab - 1, at[i].l));
        close_place(&p);
    }
}

/* Points' bytes with changes, and random ones. */
static void other_bytes(void **state)
{
    static const uint32_t vocab[] = {3, 400, 49152};
    ft_rng rng;
    uint32_t taken = 0, refused = 0;
    ft_rng_init(&rng, 5);
    for (int i = 0; i < 6000; i++) {
        const uint32_t n_vocab = vocab[i % 3], l = 1 + ft_rng_below(&rng, 60);
        const ft_lattice_code *code = codes[i / 3 % 2];
        place p = open_place(n_vocab, l);
        random_point(&rng, &p.work, l, ft_rng_below(&rng, 5));
        const size_t most = code->most_bytes(n_vocab, l);
        size_t n = (size_t)(code->encode(&p.work, &p.work.point, p.bytes, most) + 7) / 8;
        uint8_t *bytes = malloc(n + 1);
        memcpy(bytes, p.bytes, n);
        if (i % 4 == 0)
            n = ft_rng_below(&rng, (uint32_t)n + 1);
        for (uint32_t k = 1 + ft_rng_below(&rng, 3); n > 0 && k > 0; k--)
            bytes[ft_rng_below(&rng, (uint32_t)n)] ^= (uint8_t)(1u << ft_rng_below(&rng, 8));
        const bool good = reads(&p, code, l, bytes, n);
        taken += good;
        refused += !good;
        free(bytes);
        close_place(&p);
    }
    assert_true(taken > 500 && refused > 500);
}

/* What a draft's distribution looks like: a few likely tokens, a tail. */
static void real_looking_points_are_short(void **state)
{
    static const uint32_t ls[] = {240, 720};
    ft_rng rng;
    ft_rng_init(&rng, 6);
    for (int k = 0; k < 2; k++) {
        place p = open_place(49152, ls[k]);
        uint64_t index = 0, adaptive = 0;
        for (int i = 0; i < 50; i++) {
            int32_t tokens[40] = {0};
            uint64_t weight[40];
            for (int t = 0; t < 40; t++) {
                const double id = 49152 * pow(ft_rng_unit(&rng), 3) / 41;
                tokens[t] = (t > 0 ? tokens[t - 1] + 1 : 0) + (int32_t)id;
                weight[t] = (uint64_t)(0x1p40 * exp(-8 * ft_rng_unit(&rng)));
            }
            ft_lattice_quantize(&p.work, ls[k], tokens, weight, 40, &p.work.point);
            index += round_trip(&p, &ft_lattice_index);
            adaptive += round_trip(&p, &ft_lattice_adaptive);
        }
        assert_true((double)adaptive < 0.4 * (double)index);
        close_place(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_points), cmocka_unit_test(the_largest),
        cmocka_unit_test(every_number),  cmocka_unit_test(bits_are_the_formulas),
        cmocka_unit_test(too_long),      cmocka_unit_test(a_point_has_one_string),
        cmocka_unit_test(other_bytes),   cmocka_unit_test(real_looking_points_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
