// SPDX-License-Identifier: Apache-2.0
// The sampler: noise pinned to the bit, filters against a naive reference, draws against their
// distribution.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/noise.h"
#include "spec/sampling.h"
#include "support/stats.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* From an independent implementation with 50 decimal digits, rounded once to float. */
static void test_noise_is_pinned(void **state)
{
    static const struct {
        uint64_t seed;
        uint32_t position;
        int32_t token;
        uint32_t bits;
    } known[] = {
        {0ull, 0u, 0, 0x3f748663u},                         /* 0.955176 */
        {0ull, 0u, 1, 0x3d56a5d8u},                         /* 0.052404 */
        {0ull, 0u, 2, 0x3acee691u},                         /* 0.001579 */
        {0ull, 0u, 3, 0xbf5aef72u},                         /* -0.855216 */
        {0ull, 0u, 4, 0x3ee5a99bu},                         /* 0.448560 */
        {1ull, 0u, 0, 0xbf5444b0u},                         /* -0.829173 */
        {42ull, 7u, 49151, 0x402033a8u},                    /* 2.503153 */
        {0x123456789abcdef0ull, 4096u, 31999, 0x3ffad36cu}, /* 1.959577 */
        {UINT64_MAX, UINT32_MAX, 151935, 0x3f7524c6u},      /* 0.957592 */
        {7ull, 1u, 128, 0x3effdc79u},                       /* 0.499729 */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(bits_of(ft_gumbel(known[i].seed, known[i].position, known[i].token)),
                         known[i].bits);
}

static void test_gumbel_of_bits_is_pinned(void **state)
{
    static const uint32_t known[][2] = {
        {0u, 0xc04851d5u},          {1u, 0xc0452b66u},          {2147483647u, 0x3ebba795u},
        {2147483648u, 0x3ebba795u}, {4294967294u, 0x41ae33b3u}, {4294967295u, 0x41b6fda9u},
        {123456789u, 0xbfa224f3u},  {3000000000u, 0x3f832ffdu},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(bits_of(ft_noise_gumbel(known[i][0])), known[i][1]);
}

/* The vectorized generator and the plain one are the same function. */
static void test_lanes_equal_single(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (int round = 0; round < 50; round++) {
        uint64_t seed = (uint64_t)ft_rng_u32(&rng) << 32 | ft_rng_u32(&rng);
        uint32_t position = ft_rng_u32(&rng), block[FT_NOISE_LANES], bits[4][FT_NOISE_LANES];
        for (int i = 0; i < FT_NOISE_LANES; i++)
            block[i] = ft_rng_u32(&rng) >> 4;
        ft_noise_bits(seed, position, block, bits);
        for (int i = 0; i < FT_NOISE_LANES; i++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(bits_of(ft_noise_gumbel(bits[k][i])),
                                 bits_of(ft_gumbel(seed, position, (int32_t)(block[i] * 4) + k)));
    }
}

static void test_noise_bound_holds(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 4);
    for (int i = 0; i < 100000; i++) {
        uint32_t r = i & 1 ? ft_rng_u32(&rng) : UINT32_MAX - (uint32_t)i;
        assert_true(ft_noise_gumbel(r) <= -log(ft_noise_rest(r)) + 1e-5);
    }
}

static void test_exp_and_log_are_close(void **state)
{
    for (float x = -86.9f; x <= 0; x += 0.0137f)
        assert_true(fabs(ft_noise_exp(x) / exp((double)x) - 1) < 3e-7);
    assert_true(ft_noise_exp(-87.0f) == 0 && ft_noise_exp(-INFINITY) == 0);
    assert_true(ft_noise_exp(0) == 1);
    for (double x = 1e-9; x < 1e9; x *= 1.037)
        assert_true(fabs(ft_noise_log(x) - log(x)) <= 1e-14 * fabs(log(x)) + 1e-16);
}

/* Counts of noise in 64 equally probable bins of the Gumbel distribution, across tokens, positions
 * and seeds. */
static void test_noise_is_gumbel(void **state)
{
    enum { BINS = 64, N = 60000 };
    for (int way = 0; way < 3; way++) {
        double observed[BINS] = {0}, expected[BINS];
        for (uint32_t i = 0; i < N; i++) {
            float g = way == 0   ? ft_gumbel(11, 5, (int32_t)i)
                      : way == 1 ? ft_gumbel(11, i, 77)
                                 : ft_gumbel(i, 5, 77);
            int bin = (int)(exp(-exp(-(double)g)) * BINS);
            observed[bin < BINS ? bin : BINS - 1]++;
        }
        for (int b = 0; b < BINS; b++)
            expected[b] = (double)N / BINS;
        assert_true(ft_chi_square_p(observed, expected, BINS) > 0.001);
    }
}

static void test_check(void **state)
{
    ft_error err = {0};
    ft_sampling s = ft_sampling_default();
    assert_int_equal(ft_sampling_check(&s, &err), FT_OK);
    const float bad_t[] = {-1, NAN, INFINITY, 1e-6f, 101};
    for (size_t i = 0; i < sizeof bad_t / sizeof *bad_t; i++) {
        s = ft_sampling_default();
        s.temperature = bad_t[i];
        assert_int_equal(ft_sampling_check(&s, &err), FT_INVALID);
        assert_non_null(strstr(err.message, "temperature"));
    }
    const float bad_p[] = {-0.1f, NAN, 1.1f};
    for (size_t i = 0; i < sizeof bad_p / sizeof *bad_p; i++) {
        s = ft_sampling_default();
        s.top_p = bad_p[i];
        assert_int_equal(ft_sampling_check(&s, &err), FT_INVALID);
        s = ft_sampling_default();
        s.min_p = bad_p[i];
        assert_int_equal(ft_sampling_check(&s, &err), FT_INVALID);
    }
    s = ft_sampling_default();
    s.top_k = -1;
    assert_int_equal(ft_sampling_check(&s, &err), FT_INVALID);
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(0, &err, &sp), FT_INVALID);
    assert_null(sp);
    ft_sampler_destroy(NULL);
}

/* ---- a naive reference ---- */

typedef struct naive {
    int32_t id;
    float scaled;
} naive;

static int by_probability(const void *a, const void *b)
{
    const naive *x = a, *y = b;
    if (x->scaled != y->scaled)
        return x->scaled > y->scaled ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The filters as the header words them: sort everything, then cut. */
static size_t naive_filter(const ft_sampling *s, const float *logits, uint32_t n_vocab, naive *out)
{
    float max = -INFINITY;
    size_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (isfinite(logits[i]) && logits[i] > max)
            max = logits[i];
    for (uint32_t i = 0; i < n_vocab; i++)
        if (isfinite(logits[i]))
            out[n++] = (naive){(int32_t)i, (logits[i] - max) * (1 / s->temperature)};
    qsort(out, n, sizeof *out, by_probability);
    while (n > 1 && out[n - 1].scaled < (float)log(0x1p-24))
        n--;
    if (s->top_k > 0 && (size_t)s->top_k < n)
        n = (size_t)s->top_k;
    if (s->top_p < 1) {
        double sum = 0, part = 0;
        for (size_t i = 0; i < n; i++)
            sum += exp(out[i].scaled);
        size_t keep = 0;
        while (keep < n && (keep == 0 || part < (double)s->top_p * sum))
            part += exp(out[keep++].scaled);
        n = keep;
    }
    while (s->min_p > 0 && n > 1 && out[n - 1].scaled < (float)log(s->min_p))
        n--;
    return n;
}

static int by_id(const void *a, const void *b)
{
    const ft_candidate *x = a, *y = b;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int naive_by_id(const void *a, const void *b)
{
    const naive *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void check_against_naive(ft_sampler *sp, const ft_sampling *s, const float *logits,
                                uint32_t n_vocab)
{
    naive *want = malloc(n_vocab * sizeof *want);
    const ft_candidate *got;
    size_t n_want = naive_filter(s, logits, n_vocab, want);
    size_t n_got = ft_sampler_candidates(sp, s, logits, &got);
    assert_int_equal(n_got, n_want);
    double sum = 0;
    for (size_t i = 0; i < n_want; i++)
        sum += exp(want[i].scaled);
    qsort(want, n_want, sizeof *want, naive_by_id);
    ft_candidate *sorted = malloc(n_got * sizeof *sorted);
    memcpy(sorted, got, n_got * sizeof *sorted);
    qsort(sorted, n_got, sizeof *sorted, by_id);
    int32_t best = -1;
    float best_score = -INFINITY;
    for (size_t i = 0; i < n_want; i++) {
        assert_int_equal(sorted[i].token, want[i].id);
        assert_true(fabs(sorted[i].logp - (want[i].scaled - log(sum))) < 1e-5);
        float score = want[i].scaled + ft_gumbel(s->seed, 9, want[i].id);
        if (score > best_score) {
            best_score = score;
            best = want[i].id;
        }
    }
    assert_int_equal(ft_sampler_draw(sp, s, logits, 9), best);
    const int32_t *tokens;
    const uint64_t *weights;
    assert_int_equal(ft_sampler_weights(sp, s, logits, &tokens, &weights), n_want);
    for (size_t i = 0; i < n_want; i++) {
        assert_int_equal(tokens[i], want[i].id);
        const double exact = 0x1p40 * exp((double)want[i].scaled);
        assert_true(fabs((double)weights[i] - exact) <= 1 + exact * 1e-5);
    }
    free(sorted);
    free(want);
}

static void fill(ft_rng *rng, float *logits, uint32_t n, double spread, bool ties)
{
    for (uint32_t i = 0; i < n; i++) {
        double x = ft_rng_normal(rng) * spread;
        logits[i] = (float)(ties ? round(x) : x);
    }
}

static void test_filters_equal_naive(void **state)
{
    enum { MAX = 5003 };
    static const uint32_t sizes[] = {1, 2, 15, 16, 64, 1000, MAX};
    static const float top_ps[] = {1, 0.95f, 0.5f, 0.01f, 0};
    static const float min_ps[] = {0, 0.05f, 0.5f, 1};
    static const int32_t top_ks[] = {0, 1, 5, 40, 100000};
    static float logits[MAX];
    ft_rng rng;
    ft_rng_init(&rng, 5);
    for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
        ft_sampler *sp;
        assert_int_equal(ft_sampler_create(sizes[z], NULL, &sp), FT_OK);
        for (int i = 0; i < 200; i++) {
            fill(&rng, logits, sizes[z], 0.1 + 0.1 * ft_rng_below(&rng, 60), i & 1);
            ft_sampling s = {.temperature = 0.3f + 0.1f * (float)ft_rng_below(&rng, 12),
                             .top_k = top_ks[ft_rng_below(&rng, 5)],
                             .top_p = top_ps[ft_rng_below(&rng, 5)],
                             .min_p = min_ps[ft_rng_below(&rng, 4)],
                             .seed = (uint64_t)i};
            check_against_naive(sp, &s, logits, sizes[z]);
        }
        ft_sampler_destroy(sp);
    }
}

static void test_ties_go_to_low_ids(void **state)
{
    float logits[8] = {1, 2, 2, 2, 2, 2, 2, 2};
    ft_sampler *sp;
    const ft_candidate *got;
    assert_int_equal(ft_sampler_create(8, NULL, &sp), FT_OK);
    ft_sampling s = ft_sampling_default();
    assert_int_equal(ft_sampler_draw(sp, &s, logits, 0), 1);
    s.temperature = 1;
    s.top_k = 3;
    assert_int_equal(ft_sampler_candidates(sp, &s, logits, &got), 3);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(got[i].token, 1, 3);
    s.top_k = 0;
    s.top_p = 0.5f;
    logits[0] = 2; /* eight equals: exactly four make one half */
    assert_int_equal(ft_sampler_candidates(sp, &s, logits, &got), 4);
    for (size_t i = 0; i < 4; i++)
        assert_in_range(got[i].token, 0, 3);
    ft_sampler_destroy(sp);
}

static void test_what_is_not_finite_is_out(void **state)
{
    enum { N = 70 };
    float logits[N], plain[N];
    ft_rng rng;
    ft_rng_init(&rng, 6);
    fill(&rng, plain, N, 1, false);
    memcpy(logits, plain, sizeof logits);
    const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < N; i += 3) {
        logits[i] = odd[(i / 3) % 4];
        plain[i] = -1e30f;
    }
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(N, NULL, &sp), FT_OK);
    for (uint32_t t = 0; t < 3; t++) {
        ft_sampling s = ft_sampling_default();
        s.temperature = (float)t;
        s.top_k = t == 2 ? 7 : 0;
        for (uint32_t position = 0; position < 50; position++)
            assert_int_equal(ft_sampler_draw(sp, &s, logits, position),
                             ft_sampler_draw(sp, &s, plain, position));
    }
    assert_true(ft_logprob(logits, N, 0) == -INFINITY);
    assert_true(fabsf(ft_logprob(logits, N, 1) - ft_logprob(plain, N, 1)) < 1e-6f);
    for (int i = 0; i < N; i++)
        logits[i] = odd[i % 4];
    ft_sampling s = {.temperature = 1, .top_p = 0.9f};
    ft_candidate one;
    const ft_candidate *all;
    assert_int_equal(ft_sampler_draw(sp, &s, logits, 0), 0);
    assert_int_equal(ft_sampler_rank(sp, &s, logits, 0, &one, 1), 1);
    assert_int_equal(one.token, 0);
    assert_int_equal(ft_sampler_candidates(sp, &s, logits, &all), 1);
    const int32_t *tokens;
    const uint64_t *weights;
    assert_int_equal(ft_sampler_weights(sp, &s, logits, &tokens, &weights), 1);
    assert_int_equal(tokens[0], 0);
    s.temperature = 0;
    assert_int_equal(ft_sampler_weights(sp, &s, plain, &tokens, &weights), 1);
    assert_int_equal(tokens[0], ft_sampler_draw(sp, &s, plain, 0));
    assert_true(weights[0] == FT_SAMPLING_WEIGHT_MAX);
    int32_t token;
    float logprob;
    assert_int_equal(ft_top_logprobs(logits, N, &token, &logprob, 1), 0);
    ft_sampler_destroy(sp);
}

static void test_rank_leads_with_the_draw(void **state)
{
    enum { N = 2000, MOST = 12 };
    static float logits[N];
    ft_candidate out[MOST];
    ft_rng rng;
    ft_rng_init(&rng, 8);
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(N, NULL, &sp), FT_OK);
    for (uint32_t i = 0; i < 200; i++) {
        fill(&rng, logits, N, 0.5 + 0.02 * i, false);
        ft_sampling s = {.temperature = i % 3 == 0 ? 0 : 0.8f, .top_p = 1, .seed = i};
        size_t n = ft_sampler_rank(sp, &s, logits, i, out, MOST);
        assert_true(n >= 1);
        assert_int_equal(out[0].token, ft_sampler_draw(sp, &s, logits, i));
        for (size_t k = 0; k < n; k++) {
            float noise = s.temperature > 0 ? ft_gumbel(s.seed, i, out[k].token) : 0;
            assert_true(fabsf(out[k].score - out[k].logp - noise) < 1e-4f);
            assert_true(k == 0 || out[k - 1].score >= out[k].score);
            if (s.temperature == 0)
                assert_true(fabsf(out[k].logp - ft_logprob(logits, N, out[k].token)) < 1e-5f);
        }
        /* Nobody outside the list scores higher than its last. */
        const ft_candidate *all;
        size_t n_all = ft_sampler_candidates(sp, &s, logits, &all);
        size_t above = 0;
        for (size_t k = 0; k < n_all && s.temperature > 0; k++)
            above += all[k].logp + ft_gumbel(s.seed, i, all[k].token) > out[n - 1].score + 1e-4f;
        assert_true(above < n);
        assert_true(s.temperature == 0 || n == (n_all < MOST ? n_all : MOST));
    }
    ft_sampler_destroy(sp);
}

/* A walk has the tokens that draws give when those before them are out; a draw among some has the
 * first of them that a walk meets. */
static void test_walks(void **state)
{
    enum { N = 2000, MOST = 12 };
    static float logits[N], left[N];
    ft_rng rng;
    ft_rng_init(&rng, 9);
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(N, NULL, &sp), FT_OK);
    for (uint32_t i = 0; i < 200; i++) {
        int32_t walk[MOST];
        uint32_t mask[(N + 31) / 32] = {0};
        fill(&rng, logits, N, 0.5 + 0.02 * i, i % 5 == 0);
        const ft_sampling s = {.temperature = i % 3 == 0 ? 0 : 0.8f,
                               .top_p = 1,
                               .top_k = i % 4 == 0 ? 5 : 0,
                               .seed = i};
        const size_t n = ft_sampler_walk(sp, &s, logits, i, walk, MOST);
        assert_true(n >= 1 && n <= MOST && (n <= 5 || s.top_k == 0 || s.temperature == 0));
        memcpy(left, logits, sizeof left);
        for (size_t k = 0; k < n && (s.top_k == 0 || s.temperature == 0); k++) {
            assert_int_equal(walk[k], ft_sampler_draw(sp, &s, left, i));
            left[walk[k]] = -INFINITY;
        }
        if (s.temperature == 0)
            continue;
        const size_t in = i % n;
        mask[walk[in] / 32] |= 1u << (walk[in] % 32);
        mask[walk[n - 1] / 32] |= 1u << (walk[n - 1] % 32);
        assert_int_equal(ft_sampler_draw_among(sp, &s, logits, i, mask), walk[in]);
        memset(mask, 0, sizeof mask);
        assert_int_equal(ft_sampler_draw_among(sp, &s, logits, i, mask), -1);
    }
    ft_sampler_destroy(sp);
}

/* Standard deviation of the finite logits. */
static double deviation(const float *logits, uint32_t n)
{
    double sum = 0, squares = 0, count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (isfinite(logits[i])) {
            sum += logits[i];
            squares += (double)logits[i] * logits[i];
            count++;
        }
    return sqrt(squares / count - sum / count * (sum / count));
}

/* What a rank says of a distribution is what its candidates say. */
static void test_shape(void **state)
{
    enum { N = 2003, MOST = 12 };
    static float logits[N];
    ft_candidate out[MOST];
    ft_rng rng;
    ft_rng_init(&rng, 10);
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(N, NULL, &sp), FT_OK);
    for (uint32_t i = 0; i < 60; i++) {
        fill(&rng, logits, N, 0.5 + 0.1 * i, false);
        logits[i] = i % 4 ? logits[i] : (float[]){NAN, INFINITY, -INFINITY}[i / 4 % 3];
        /* at temperature 0 it is that of softmax(logits) */
        ft_sampling s = {.temperature = 1, .top_p = i % 6 == 5 ? 0.8f : 1, .seed = i};
        s.top_k = i % 6 == 4 ? 20 : 0;
        const ft_candidate *all;
        double entropy = 0, first = -1, second = 0;
        size_t n = ft_sampler_candidates(sp, &s, logits, &all);
        for (size_t k = 0; k < n; k++) {
            double p = exp(all[k].logp);
            entropy -= p * all[k].logp;
            second = p > first ? fmax(first, 0) : fmax(second, p);
            first = fmax(first, p);
        }
        s.temperature = i % 2 ? 0 : 1;
        if (i % 6 >= 4)
            s.temperature = 1;
        ft_sampler_rank(sp, &s, logits, i, out, MOST);
        const ft_shape shape = ft_sampler_shape(sp);
        assert_true(fabs(shape.entropy - entropy) < 1e-3);
        assert_true(fabs(shape.margin - (first - second)) < 1e-4);
        assert_true(fabs(shape.deviation - deviation(logits, N)) < 1e-3);
    }
    for (uint32_t i = 0; i < N; i++)
        logits[i] = NAN;
    const ft_sampling greedy = ft_sampling_default();
    ft_sampler_rank(sp, &greedy, logits, 0, out, MOST);
    assert_true(ft_sampler_shape(sp).deviation == 0 && ft_sampler_shape(sp).entropy == 0);
    ft_sampler_destroy(sp);
}

static void test_draws_fit_p(void **state)
{
    enum { N = 300, DRAWS = 20000 };
    static float logits[N];
    static double observed[N], expected[N];
    ft_rng rng;
    ft_rng_init(&rng, 9);
    ft_sampler *sp;
    assert_int_equal(ft_sampler_create(N, NULL, &sp), FT_OK);
    fill(&rng, logits, N, 1.5, false);
    const ft_sampling ways[] = {{.temperature = 1, .top_p = 1},
                                {.temperature = 0.7f, .top_p = 0.9f},
                                {.temperature = 1.3f, .top_p = 1, .top_k = 50},
                                {.temperature = 1, .top_p = 1, .min_p = 0.1f}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        ft_sampling s = ways[w];
        const ft_candidate *all;
        memset(observed, 0, sizeof observed);
        memset(expected, 0, sizeof expected);
        size_t n = ft_sampler_candidates(sp, &s, logits, &all);
        for (size_t i = 0; i < n; i++)
            expected[all[i].token] = DRAWS * exp(all[i].logp);
        for (uint32_t i = 0; i < DRAWS; i++) {
            s.seed = w & 1 ? 1234 : i; /* across seeds, and across positions */
            observed[ft_sampler_draw(sp, &s, logits, w & 1 ? i : 17)]++;
        }
        assert_true(ft_chi_square_p(observed, expected, N) > 0.001);
    }
    ft_sampler_destroy(sp);
}

static void test_logprobs(void **state)
{
    const float logits[5] = {0, 1, 3, 3, -INFINITY};
    double sum = exp(0) + exp(1) + 2 * exp(3);
    int32_t tokens[5];
    float logprobs[5];
    assert_true(fabs(ft_logprob(logits, 5, 1) - (1 - log(sum))) < 1e-6);
    assert_true(ft_logprob(logits, 5, 5) == -INFINITY && ft_logprob(logits, 5, -1) == -INFINITY);
    assert_int_equal(ft_top_logprobs(logits, 5, tokens, logprobs, 3), 3);
    assert_int_equal(tokens[0], 2);
    assert_int_equal(tokens[1], 3);
    assert_int_equal(tokens[2], 1);
    assert_true(fabs(logprobs[2] - (1 - log(sum))) < 1e-6);
    assert_int_equal(ft_top_logprobs(logits, 5, tokens, logprobs, 5), 4);
    assert_int_equal(ft_top_logprobs(logits, 5, tokens, logprobs, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise_is_pinned),
        cmocka_unit_test(test_gumbel_of_bits_is_pinned),
        cmocka_unit_test(test_lanes_equal_single),
        cmocka_unit_test(test_noise_bound_holds),
        cmocka_unit_test(test_exp_and_log_are_close),
        cmocka_unit_test(test_noise_is_gumbel),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_filters_equal_naive),
        cmocka_unit_test(test_ties_go_to_low_ids),
        cmocka_unit_test(test_what_is_not_finite_is_out),
        cmocka_unit_test(test_rank_leads_with_the_draw),
        cmocka_unit_test(test_walks),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_draws_fit_p),
        cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
