// SPDX-License-Identifier: Apache-2.0
// The index code (Quantize-Sample-and-Verify eq. (6)): a point's number among the C(l + V - 1, l)
// points, in exactly ceil(log2 C(l + V - 1, l)) bits, lowest first.
//
// D(x, m) = C(x + m, m) is the number of points of m over the tokens 0 to x. Points are numbered by
// their last token, then by the tokens before it (the combinatorial number system). So if the
// tokens x_s in ascending order have counts that sum to m_s, the number is the sum of
// D(x_s, m_s) - D(x_s, m_{s-1}). From D(x, m) to its neighbours leads one multiplication and one
// exact division by a single limb, and as many steps are taken at once as their factors fit into a
// limb. Everything is exact, but one hint: while decoding, a quotient in double precision tells
// which steps surely do not lead too far. The workspace's owner calls; GMP's mpn functions do not
// allocate, where their mpz kin end the program if they cannot.
#include <assert.h>
#include <gmp.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "spec/lattice.h"
#include "spec/noise.h"

static_assert(GMP_NUMB_BITS == 64 && sizeof(mp_limb_t) == sizeof(uint64_t), "limbs of 64 bits");

/* log2 C(l + V - 1, l) within 1e-5, the same on every machine. */
static double log2_points(uint32_t n_vocab, uint32_t l)
{
    double sum = 0, product = 1;
    for (uint32_t i = 1; i <= l; i++) {
        product *= ((double)n_vocab - 1 + i) / i; /* below 2^31 */
        if (i == l || product > 0x1p900) {
            sum += ft_noise_log(product);
            product = 1;
        }
    }
    return sum * 1.4426950408889634;
}

static size_t most_bytes(uint32_t n_vocab, uint32_t l)
{
    return (size_t)ceil((ceil(log2_points(n_vocab, l) - 1e-4) + 1) / 8);
}

uint32_t ft_lattice_index_limbs(uint32_t n_vocab, uint32_t l)
{
    /* one more: a product before its division */
    return (uint32_t)(most_bytes(n_vocab, l) / sizeof(uint64_t)) + 2;
}

/* A number without leading zero limbs; 0 has none. */
typedef struct number {
    uint64_t *limb;
    mp_size_t n;
} number;

static void strip(number *a)
{
    while (a->n > 0 && a->limb[a->n - 1] == 0)
        a->n--;
}

static int compare(const number *a, const number *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->n ? mpn_cmp(a->limb, b->limb, a->n) : 0;
}

/* a times up / down, which is whole. */
static void scale(number *a, uint64_t up, uint64_t down)
{
    const mp_limb_t carry = mpn_mul_1(a->limb, a->limb, a->n, up);
    if (carry)
        a->limb[a->n++] = carry;
    mpn_divexact_1(a->limb, a->limb, a->n, down);
    strip(a);
}

/* How many factors up to `largest` < 2^32 fit into a limb. */
static uint32_t factors_of(uint64_t largest)
{
    uint32_t bits = 1;
    while (largest >> bits)
        bits++;
    return 64 / bits;
}

/* D(x, m) to D(x + by, m): times (x + m + i) / (x + i) for i = 1 to by. D is symmetric, so this
 * moves along m, too. */
static void grow(number *d, uint32_t factors, uint64_t x, uint64_t m, uint64_t by)
{
    for (uint64_t i = 1; i <= by;) {
        uint64_t up = 1, down = 1;
        for (uint32_t k = 0; k < factors && i <= by; k++, i++) {
            up *= x + m + i;
            down *= x + i;
        }
        scale(d, up, down);
    }
}

/* *d = D(x, m), by the shorter way from D(x, 0) or D(0, m), which are 1. */
static void begin(number *d, uint32_t factors, uint64_t x, uint64_t m)
{
    d->limb[0] = 1;
    d->n = 1;
    if (x < m)
        grow(d, factors, 0, m, x);
    else
        grow(d, factors, 0, x, m);
}

static uint64_t bits_of(const number *a)
{
    return a->n ? (uint64_t)a->n * 64 - (uint64_t)__builtin_clzll(a->limb[a->n - 1]) : 0;
}

/* ceil(log2 points) */
static uint64_t bits_for(const number *points)
{
    return bits_of(points) - (mpn_popcount(points->limb, points->n) == 1);
}

static uint64_t encode(ft_lattice_work *work, const ft_lattice_point *point, uint8_t *out,
                       size_t most)
{
    const uint64_t last = work->n_vocab - 1;
    const uint32_t factors = factors_of(last + point->l);
    uint64_t *sum = work->number[1], x = 0, m = 0;
    number d = {.limb = work->number[0]};
    memset(sum, 0, work->n_limbs * sizeof *sum);
    begin(&d, factors, x, m);
    for (uint32_t s = 0; s < point->n; s++) {
        const uint64_t token = (uint64_t)point->token[s], count = point->count[s];
        if (token - x < m)
            grow(&d, factors, x, m, token - x);
        else
            begin(&d, factors, token, m);
        x = token;
        /* below 0 at first, modulo a power of two: the next addition makes up for it */
        mpn_sub(sum, sum, work->n_limbs, d.limb, d.n);
        grow(&d, factors, m, x, count);
        m += count;
        mpn_add(sum, sum, work->n_limbs, d.limb, d.n);
    }
    begin(&d, factors, last, m);
    const uint64_t bits = bits_for(&d);
    if ((bits + 7) / 8 > most)
        return FT_LATTICE_TOO_LONG;
    for (uint64_t i = 0; i < (bits + 7) / 8; i++)
        out[i] = (uint8_t)(sum[i / 8] >> (8 * (i % 8)));
    return bits;
}

/* About a / b, 0 where a is much smaller; b > 0, a <= b. */
static double quotient(const number *a, const number *b)
{
    const mp_size_t shift = b->n - a->n;
    if (a->n == 0 || shift > 2)
        return 0;
    const double above =
        (double)a->limb[a->n - 1] + (a->n > 1 ? (double)a->limb[a->n - 2] : 0) * 0x1p-64;
    const double below =
        (double)b->limb[b->n - 1] + (b->n > 1 ? (double)b->limb[b->n - 2] : 0) * 0x1p-64;
    const double ratio = above / below;
    return shift == 0 ? ratio : shift == 1 ? ratio * 0x1p-64 : ratio * 0x1p-128;
}

/* *e = D(x - 1, m) is more than `rest`, and x > 1. Moves down by as many x as fit into a limb and
 * surely leave it more than `rest`, or else by one. Returns by how many. */
static uint64_t descend(number *e, const number *rest, uint32_t factors, uint64_t x, uint64_t m)
{
    const double sure = 1 - 1e-9, share = quotient(rest, e);
    uint64_t up = x - 1, down = x - 1 + m, by = 1;
    for (; by < factors && by + 1 < x; by++) {
        const uint64_t more_up = up * (x - 1 - by), more_down = down * (x - 1 - by + m);
        if (share * (double)more_down >= (double)more_up * sure)
            break;
        up = more_up;
        down = more_down;
    }
    scale(e, up, down);
    return by;
}

/* The point of a number below D(n_vocab - 1, l), last tokens first, into the end of room for
 * `room` tokens. *e = D(n_vocab - 1, l). Returns how many tokens. */
static uint32_t unrank(number *e, number *rest, uint32_t factors, uint32_t n_vocab,
                       ft_lattice_point *out, uint32_t room)
{
    uint64_t x = n_vocab - 1, m = out->l;
    uint32_t n = 0;
    if (x > 0)
        scale(e, x, x + m); /* D(x - 1, m) from now on */
    while (m > 0) {
        uint64_t count = 0;
        while (x > 1 && compare(rest, e) < 0)
            x -= descend(e, rest, factors, x, m);
        /* D(0, m) is 1 for all m; behind token 0 nothing is left to tell apart */
        if (x == 1 && compare(rest, e) < 0)
            x = 0;
        for (; x > 0 && m > 0 && compare(rest, e) >= 0; m--, count++) {
            mpn_sub(rest->limb, rest->limb, rest->n, e->limb, e->n);
            strip(rest);
            scale(e, m, x - 1 + m);
        }
        if (x == 0) {
            count = m;
            m = 0;
        }
        n++;
        out->token[room - n] = (int32_t)x;
        out->count[room - n] = (uint32_t)count;
    }
    return n;
}

static const char *decode(ft_lattice_work *work, uint32_t l, const uint8_t *in, size_t n,
                          ft_lattice_point *out)
{
    const uint32_t factors = factors_of((uint64_t)work->n_vocab - 1 + l);
    const uint32_t room = ft_min_u32(l, work->n_vocab);
    number points = {.limb = work->number[0]}, rest = {.limb = work->number[1]};
    *out = (ft_lattice_point){.l = l, .token = out->token, .count = out->count};
    begin(&points, factors, work->n_vocab - 1, l);
    if (n != (bits_for(&points) + 7) / 8)
        return "its number has another length than those of its points";
    rest.n = (mp_size_t)((n + 7) / 8);
    memset(rest.limb, 0, (size_t)rest.n * sizeof *rest.limb);
    for (size_t i = 0; i < n; i++)
        rest.limb[i / 8] |= (uint64_t)in[i] << (8 * (i % 8));
    strip(&rest);
    if (compare(&rest, &points) >= 0)
        return "its number is none of a point";
    out->n = unrank(&points, &rest, factors, work->n_vocab, out, room);
    memmove(out->token, out->token + room - out->n, out->n * sizeof *out->token);
    memmove(out->count, out->count + room - out->n, out->n * sizeof *out->count);
    return NULL;
}

const ft_lattice_code ft_lattice_index = {
    .id = 0, .name = "index", .most_bytes = most_bytes, .encode = encode, .decode = decode};
