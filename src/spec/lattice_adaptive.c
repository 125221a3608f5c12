// SPDX-License-Identifier: Apache-2.0
// The adaptive code: a range coder over a point's tokens and counts, in ascending order of tokens.
// First comes the number of tokens, each as likely as the others. Then for each token its distance
// from the one before, and its count less 1, as far as what is left does not imply them.
//
// Both are numbers of unknown size. A number's bits are counted by decisions "has it more than j
// bits", then its bits below the highest follow. What matters for such a decision is how 2^j
// compares with what the number is expected to be, so that ratio, in powers of two, chooses its
// probability:
//   - a count is expected to be the mean of what is left;
//   - a distance is expected to follow a density that falls as 1 / (token + 128): byte-pair
//     vocabularies number their tokens by frequency, about as Zipf has it.
// The probabilities begin with the frequencies that the demo draft's texts show, and move a 64th of
// the way to each outcome, so that another draft's points are not lost. Without that movement its
// points are 1 % longer; twice the movement changes less than that.
//
// A code word is the shortest string of bytes whose value lies in the coder's last interval, and
// the smallest of these; the decoder checks that. So a point has one code word. Encoder and decoder
// are the same code, which either takes or finds each value. Integers only; no state; the
// workspace's owner calls.
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "spec/lattice.h"

/* ---- range coder ---- */

#define RANGE_LEAST (1u << 24)
#define ODDS_BITS   12 /* of a probability where it divides the range */
#define ODDS_LEAST  32 /* so no decision takes more than 7 bits */

typedef struct coder {
    bool reads;
    uint32_t range;
    /* Writing: the interval's lower end; reading: what was read less that end. In the bytes' next
     * 32 bits. */
    uint64_t low;
    const uint8_t *in;
    uint8_t *out;
    size_t n;   /* of out or in: bytes at most */
    size_t at;  /* bytes written, or read; past the end zeros are read, and nothing is written */
    bool wrong; /* what was read is no code word */
} coder;

static uint8_t next_byte(coder *c)
{
    const uint8_t byte = c->at < c->n ? c->in[c->at] : 0;
    c->at++;
    return byte;
}

static void begin_reading(coder *c, const uint8_t *in, size_t n)
{
    *c = (coder){.reads = true, .range = UINT32_MAX, .in = in, .n = n};
    for (int i = 0; i < 4; i++)
        c->low = c->low << 8 | next_byte(c);
    c->wrong = c->low >= c->range;
}

/* One more for the bytes written. */
static void carry(coder *c)
{
    for (size_t i = c->at; i-- > 0;)
        if (i < c->n && ++c->out[i] != 0)
            return;
}

static void advance(coder *c, uint32_t by)
{
    c->low += by;
    if (c->low >> 32) {
        carry(c);
        c->low = (uint32_t)c->low;
    }
}

static void write_byte(coder *c)
{
    if (c->at < c->n)
        c->out[c->at] = (uint8_t)(c->low >> 24);
    c->at++;
    c->low = (uint32_t)(c->low << 8);
}

static void normalize(coder *c)
{
    for (; c->range < RANGE_LEAST; c->range <<= 8) {
        if (c->reads)
            c->low = c->low << 8 | next_byte(c);
        else
            write_byte(c);
    }
}

/* Takes (writing) or finds (reading) a bit that is 1 with a probability of *odds / 65536. */
static bool code_bit(coder *c, uint16_t *odds, bool bit)
{
    uint32_t share = *odds >> (16 - ODDS_BITS);
    share = share < ODDS_LEAST ? ODDS_LEAST : share;
    share = ft_min_u32(share, (1u << ODDS_BITS) - ODDS_LEAST);
    const uint32_t ones = (c->range >> ODDS_BITS) * share;
    if (c->reads)
        bit = c->low < ones;
    if (bit) {
        c->range = ones;
        *odds += (uint16_t)((65536 - *odds) >> 6);
    } else {
        c->range -= ones;
        *odds -= *odds >> 6;
        if (c->reads)
            c->low -= ones;
        else
            advance(c, ones);
    }
    normalize(c);
    return bit;
}

/* Takes or finds a value below n < 2^24, each as likely as the others. */
static uint32_t code_uniform(coder *c, uint32_t value, uint32_t n)
{
    c->range /= n;
    if (c->reads) {
        value = (uint32_t)c->low / c->range;
        if (value >= n) {
            c->wrong = true;
            return 0;
        }
        c->low -= (uint64_t)value * c->range;
    } else {
        advance(c, value * c->range);
    }
    normalize(c);
    return value;
}

/* Ends the bytes; returns how many they are. */
static size_t end_writing(coder *c)
{
    uint64_t unit = UINT64_C(1) << 32, end;
    /* the multiple of the largest unit that has one in the interval */
    for (; (end = (c->low + unit - 1) & ~(unit - 1)) - c->low >= c->range; unit >>= 8)
        ;
    advance(c, (uint32_t)(end - c->low)); /* at most range */
    for (int i = 0; i < 4; i++)
        write_byte(c);
    while (c->at > 0 && c->at <= c->n && c->out[c->at - 1] == 0)
        c->at--;
    return c->at;
}

/* Whether the bytes are those that end_writing leaves. */
static bool ends_well(const coder *c)
{
    if (c->wrong || c->n > c->at || (c->n > 0 && c->in[c->n - 1] == 0))
        return false;
    if (c->n + 4 <= c->at)
        return true; /* one of the last byte is more than the interval */
    const uint64_t unit = UINT64_C(1) << (8 * (c->at - c->n));
    const uint64_t to_shorter = (UINT64_C(256) - c->in[c->n - 1]) * unit;
    return c->low < unit && to_shorter >= c->range - c->low;
}

/* ---- numbers ---- */

#define RATIO_LEAST (-12) /* powers of two; ratios beyond these count as these */
#define RATIO_MOST  5
#define RATIOS      (RATIO_MOST - RATIO_LEAST + 1)

/* Probabilities of 1 by the ratio of 2^j to the expected number: in 256ths, and as they move. */
typedef struct model_start {
    uint8_t any[RATIOS];  /* the number is above 0; j is 0 */
    uint8_t more[RATIOS]; /* it has more than j > 0 bits, if it has j */
    uint8_t bit[RATIOS];  /* its bit j is set */
} model_start;

typedef struct model {
    uint16_t any[RATIOS], more[RATIOS], bit[RATIOS];
} model;

static const model_start distances = {
    {255, 255, 254, 254, 252, 249, 236, 220, 202, 172, 138, 110, 90, 80, 75, 70, 60, 50},
    {255, 255, 255, 255, 255, 253, 251, 246, 238, 225, 205, 174, 135, 99, 79, 77, 70, 50},
    {128, 128, 128, 128, 128, 127, 125, 124, 120, 114, 105, 95, 86, 84, 84, 84, 84, 84},
};
static const model_start counts = {
    {250, 248, 246, 244, 240, 235, 225, 214, 208, 171, 136, 96, 75, 53, 36, 22, 13, 8},
    {250, 248, 246, 244, 240, 236, 234, 230, 227, 221, 204, 176, 161, 154, 140, 121, 101, 72},
    {128, 128, 128, 128, 128, 128, 127, 121, 116, 115, 110, 106, 103, 98, 89, 83, 72, 65},
};

static void begin_model(model *m, const model_start *start)
{
    for (int i = 0; i < RATIOS; i++) {
        m->any[i] = (uint16_t)(start->any[i] << 8);
        m->more[i] = (uint16_t)(start->more[i] << 8);
        m->bit[i] = (uint16_t)(start->bit[i] << 8);
    }
}

static uint32_t n_bits(uint64_t x)
{
    return x ? 64 - (uint32_t)__builtin_clzll(x) : 0;
}

/* floor(log2(a / b)); a, b > 0, a < 2^17, b < 2^40 */
static int32_t log2_ratio(uint64_t a, uint64_t b)
{
    return (int32_t)n_bits((a << 40) / b) - 41;
}

static uint32_t place(int32_t ratio)
{
    ratio = ratio < RATIO_LEAST ? RATIO_LEAST : ratio > RATIO_MOST ? RATIO_MOST : ratio;
    return (uint32_t)(ratio - RATIO_LEAST);
}

/* Takes or finds a number that is at most `limit`; ratio: log2 of 1 / the expected number. What is
 * found may be more than the limit, but has no more bits. */
static uint32_t code_number(coder *c, model *m, uint32_t value, uint32_t limit, int32_t ratio)
{
    const uint32_t most = n_bits(limit), had = n_bits(value);
    uint32_t n = 0;
    while (n < most && code_bit(c, &(n ? m->more : m->any)[place((int32_t)n + ratio)], n < had))
        n++;
    uint32_t found = n > 0; /* the highest bit */
    for (uint32_t j = n; j-- > 1;)
        found =
            found << 1 | code_bit(c, &m->bit[place((int32_t)j - 1 + ratio)], value >> (j - 1) & 1);
    return found;
}

/* ---- points ---- */

/* How far apart from `at` on a single token would be expected, if tokens had a density of
 * 1 / (token + 128), taken as constant between powers of two; see above. */
static uint64_t spread(uint64_t at, uint64_t n_vocab)
{
    const uint64_t from = at + 128, end = n_vocab + 128;
    const uint32_t octave = n_bits(from), last = n_bits(end - 1);
    if (octave == last)
        return end - from;
    const uint64_t octave_end = UINT64_C(1) << octave, last_begin = UINT64_C(1) << (last - 1);
    return octave_end - from + octave_end / 2 * (last - 1 - octave) +
           ((end - last_begin) >> (last - octave));
}

/* Takes or finds a point. */
static void code_point(coder *c, uint32_t n_vocab, ft_lattice_point *p)
{
    model distance, count;
    uint32_t at = 0, left = p->l;
    begin_model(&distance, &distances);
    begin_model(&count, &counts);
    p->n = code_uniform(c, p->n - 1, ft_min_u32(p->l, n_vocab)) + 1;
    for (uint32_t i = 0; i < p->n && !c->wrong; i++) {
        const uint32_t tokens = p->n - i; /* to come */
        const uint32_t free_ids = n_vocab - at - tokens, spare = left - tokens;
        const uint32_t had = c->reads ? 0 : (uint32_t)p->token[i] - at;
        const uint32_t skipped =
            code_number(c, &distance, had, free_ids, log2_ratio(tokens, spread(at, n_vocab)));
        uint32_t more = spare; /* of the last token */
        if (tokens > 1)
            more = code_number(c, &count, c->reads ? 0 : p->count[i] - 1, spare,
                               spare ? log2_ratio(tokens, spare) : 0);
        if (skipped > free_ids || more > spare) {
            c->wrong = true;
            return;
        }
        if (c->reads) {
            p->token[i] = (int32_t)(at + skipped);
            p->count[i] = more + 1;
        }
        at += skipped + 1;
        left -= more + 1;
    }
}

/* A decision takes at most 7 bits and a little, so a byte covers it. */
static size_t most_bytes(uint32_t n_vocab, uint32_t l)
{
    const size_t decisions = 2 * (size_t)n_bits(n_vocab) + 2 * (size_t)n_bits(l);
    return ft_min_u32(l, n_vocab) * decisions + 8;
}

static uint64_t encode(ft_lattice_work *work, const ft_lattice_point *point, uint8_t *out,
                       size_t most)
{
    ft_lattice_point taken = *point;
    coder c = {.range = UINT32_MAX, .out = out, .n = most};
    code_point(&c, work->n_vocab, &taken);
    const size_t n = end_writing(&c);
    return n <= most ? 8 * (uint64_t)n : FT_LATTICE_TOO_LONG;
}

static const char *decode(ft_lattice_work *work, uint32_t l, const uint8_t *in, size_t n,
                          ft_lattice_point *out)
{
    coder c;
    *out = (ft_lattice_point){.l = l, .n = 1, .token = out->token, .count = out->count};
    begin_reading(&c, in, n);
    if (!c.wrong)
        code_point(&c, work->n_vocab, out);
    return ends_well(&c) ? NULL : "its bytes are no point's";
}

const ft_lattice_code ft_lattice_adaptive = {
    .id = 1, .name = "adaptive", .most_bytes = most_bytes, .encode = encode, .decode = decode};
