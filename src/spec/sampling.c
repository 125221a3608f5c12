// SPDX-License-Identifier: Apache-2.0
// The sampler: candidates of a distribution after its filters, and the Gumbel-max draw among them.
// Invariant: the outcome is a function of logits, sampling and position, to the bit. So the values
// that decide it (scaled logits, weights, noise) come from noise.h's arithmetic, and the sums that
// decide it are sums of integers, because then their order does not matter. libm is used only for
// values that decide nothing: reported log-probabilities, and a bound with a margin. One thread
// owns a sampler. Nothing here sorts a vocabulary or allocates after creation.
#include "spec/sampling.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "base/sort.h"
#include "spec/noise.h"
#include "spec/shape.h"

#define CHUNK 64 /* tokens looked at together by loops that vectorize */
#define SLACK 16 /* entries behind candidate arrays that a vector store may touch */

struct ft_sampler {
    uint32_t n_vocab;
    /* The candidates of the present call: */
    size_t n;
    int32_t *id;   /* [n_vocab + SLACK] */
    float *scaled; /* [n_vocab + SLACK] (logit - largest) / temperature, <= 0 */
    float *weight; /* [n_vocab + CHUNK] exp(scaled); dense: by token, 0 for non-candidates */
    float max, per_t, least; /* token t is scaled to (logits[t] - max) * per_t, at least `least` */
    bool dense;
    ft_shape shape;      /* of the last ft_sampler_rank */
    uint64_t *key;       /* [n_vocab] for selection */
    ft_candidate *cands; /* [n_vocab] for ft_sampler_candidates */
};

ft_sampling ft_sampling_default(void)
{
    return (ft_sampling){.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 0};
}

ft_status ft_sampling_check(const ft_sampling *s, ft_error *err)
{
    bool cold = s->temperature == 0;
    if (!cold && !(s->temperature >= FT_TEMPERATURE_MIN && s->temperature <= 100))
        return ft_error_set(err, FT_INVALID, "temperature %g: it must be 0 or in %g..100",
                            (double)s->temperature, (double)FT_TEMPERATURE_MIN);
    if (s->top_k < 0)
        return ft_error_set(err, FT_INVALID, "top_k %d: it must be 0 (off) or more", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return ft_error_set(err, FT_INVALID, "top_p %g: it must be in 0..1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return ft_error_set(err, FT_INVALID, "min_p %g: it must be in 0..1", (double)s->min_p);
    return FT_OK;
}

ft_status ft_sampler_create(uint32_t n_vocab, ft_error *err, ft_sampler **out)
{
    *out = NULL;
    if (n_vocab == 0 || n_vocab > INT32_MAX - CHUNK)
        return ft_error_set(err, FT_INVALID, "sampler: a vocabulary of %u tokens", n_vocab);
    ft_sampler *sp = calloc(1, sizeof *sp);
    if (!sp)
        return ft_error_set(err, FT_NOMEM, "sampler: out of memory");
    sp->n_vocab = n_vocab;
    sp->id = calloc((size_t)n_vocab + SLACK, sizeof *sp->id);
    sp->scaled = calloc((size_t)n_vocab + SLACK, sizeof *sp->scaled);
    sp->weight = calloc((size_t)n_vocab + CHUNK, sizeof *sp->weight);
    sp->key = calloc(n_vocab, sizeof *sp->key);
    sp->cands = calloc(n_vocab, sizeof *sp->cands);
    if (!sp->id || !sp->scaled || !sp->weight || !sp->key || !sp->cands) {
        ft_sampler_destroy(sp);
        return ft_error_set(err, FT_NOMEM, "sampler: out of memory for %u tokens", n_vocab);
    }
    *out = sp;
    return FT_OK;
}

void ft_sampler_destroy(ft_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->id);
    free(sampler->scaled);
    free(sampler->weight);
    free(sampler->key);
    free(sampler->cands);
    free(sampler);
}

static bool find_max(const float *logits, uint32_t n_vocab, float *max)
{
    *max = ft_logits_max(logits, n_vocab);
    return *max > -INFINITY;
}

/* The token with the largest logit, the first of equals. */
static int32_t argmax(const float *logits, uint32_t n_vocab, float max)
{
    uint32_t i = 0;
    while (i + CHUNK <= n_vocab && ft_logits_max(logits + i, CHUNK) < max)
        i += CHUNK;
    while (logits[i] != max)
        i++;
    return (int32_t)i;
}

/* Collects all tokens whose scaled logit is at least `least`, in order of id. A NaN compares false
 * and -inf is too small; +inf alone needs the test against the largest finite logit. */
static void collect(ft_sampler *sp, const float *logits)
{
    const float max = sp->max, per_t = sp->per_t, least = sp->least;
    size_t n = 0;
    uint32_t i = 0;
#if defined(__AVX512F__)
    __m512 vmax = _mm512_set1_ps(max), vper_t = _mm512_set1_ps(per_t);
    __m512i vid = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; i + 16 <= sp->n_vocab; i += 16) {
        __m512 x = _mm512_loadu_ps(logits + i);
        __m512 scaled = _mm512_mul_ps(_mm512_sub_ps(x, vmax), vper_t);
        __mmask16 in = _mm512_cmp_ps_mask(x, vmax, _CMP_LE_OQ);
        in = _mm512_mask_cmp_ps_mask(in, scaled, _mm512_set1_ps(least), _CMP_GE_OQ);
        if (!in)
            continue;
        __m512i ids = _mm512_add_epi32(vid, _mm512_set1_epi32((int32_t)i));
        _mm512_storeu_ps(sp->scaled + n, _mm512_maskz_compress_ps(in, scaled));
        _mm512_storeu_si512(sp->id + n, _mm512_maskz_compress_epi32(in, ids));
        n += (size_t)__builtin_popcount(in);
    }
#endif
    for (; i < sp->n_vocab; i++) {
        float scaled = (logits[i] - max) * per_t;
        sp->id[n] = (int32_t)i;
        sp->scaled[n] = scaled;
        n += (scaled >= least) & (logits[i] <= max);
    }
    sp->n = n;
}

/* Weight of a selection key as an integer: sums of these are exact in any order. The floor makes
 * them at least 2^16, and 2^23 tokens fit into 64 bits. */
static inline uint64_t key_weight(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float minus;
    memcpy(&minus, &bits, sizeof minus);
    return (uint64_t)((double)ft_noise_exp(-minus) * (double)FT_SAMPLING_WEIGHT_MAX);
}

/* The bits of a scaled logit without its sign: the larger, the less probable. */
static inline uint32_t minus_bits(float scaled)
{
    const float minus = fabsf(scaled);
    uint32_t bits;
    memcpy(&bits, &minus, sizeof bits);
    return bits;
}

static void swap_keys(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

/* Partitions key[lo, hi), hi - lo > 1, around a median of three; returns how far the smaller ones
 * go, with the pivot at the returned index. */
static size_t partition(uint64_t *key, size_t lo, size_t hi)
{
    size_t mid = lo + (hi - lo) / 2, last = hi - 1;
    if (key[mid] < key[lo])
        swap_keys(&key[mid], &key[lo]);
    if (key[last] < key[lo])
        swap_keys(&key[last], &key[lo]);
    if (key[mid] < key[last])
        swap_keys(&key[mid], &key[last]); /* now lo <= last <= mid: the median is last */
    uint64_t pivot = key[last];
    size_t store = lo;
    for (size_t i = lo; i < last; i++) {
        uint64_t k = key[i];
        key[i] = key[store];
        key[store] = k;
        store += k < pivot;
    }
    swap_keys(&key[store], &key[last]);
    return store;
}

/* Moves the smallest keys to the front, as few as reach `target` in sum of weights (weighted) or in
 * number; returns how many. Quickselect: linear time on average. */
static size_t select_keys(uint64_t *key, size_t n, bool weighted, uint64_t target)
{
    size_t lo = 0, hi = n;
    uint64_t before = 0; /* what key[0, lo) weighs */
    while (hi - lo > 1) {
        size_t at = partition(key, lo, hi);
        uint64_t left = at - lo;
        if (weighted) {
            left = 0;
            for (size_t i = lo; i < at; i++)
                left += key_weight(key[i]);
        }
        uint64_t with_pivot = before + left + (weighted ? key_weight(key[at]) : 1);
        if (before + left >= target) {
            hi = at;
        } else if (with_pivot >= target) {
            return at + 1;
        } else {
            lo = at + 1;
            before = with_pivot;
        }
    }
    return lo < n && before < target ? lo + 1 : lo;
}

/* top-k and top-p on the collected candidates. */
static void keep_top(ft_sampler *sp, const ft_sampling *s)
{
    size_t n = sp->n;
    bool by_k = s->top_k > 0 && (size_t)s->top_k < n;
    if (!by_k && s->top_p >= 1)
        return;
    for (size_t i = 0; i < n; i++) /* smaller key: more probable, then lower id */
        sp->key[i] = (uint64_t)minus_bits(sp->scaled[i]) << 32 | (uint32_t)sp->id[i];
    if (by_k)
        n = select_keys(sp->key, n, false, (uint64_t)s->top_k);
    if (s->top_p < 1) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += key_weight(sp->key[i]);
        uint64_t target = (uint64_t)ceil((double)s->top_p * (double)sum);
        n = select_keys(sp->key, n, true, target > 0 ? target : 1);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(sp->key[i] >> 32);
        float minus;
        memcpy(&minus, &bits, sizeof minus);
        sp->scaled[i] = -minus;
        sp->id[i] = (int32_t)(uint32_t)sp->key[i];
    }
    sp->n = n;
}

static void keep_at_least(ft_sampler *sp, float least)
{
    size_t n = 0;
    for (size_t i = 0; i < sp->n; i++) {
        sp->id[n] = sp->id[i];
        sp->scaled[n] = sp->scaled[i];
        n += sp->scaled[i] >= least;
    }
    sp->n = n;
}

/* The candidates at temperature > 0 with their weights. If they are many, not selected by top-k or
 * top-p, and the caller allows it, the weights are dense, by token: then noise for all tokens is
 * cheaper than noise for a list. */
static void filter(ft_sampler *sp, const ft_sampling *s, const float *logits, float max,
                   bool may_be_dense)
{
    float floor_scaled = (float)ft_noise_log(FT_SAMPLING_FLOOR);
    float min_p = s->min_p > FT_SAMPLING_FLOOR ? (float)ft_noise_log(s->min_p) : floor_scaled;
    bool late = s->top_p < 1; /* only top-p looks at the mass of what min-p drops */
    bool selects = late || s->top_k > 0;
    sp->max = max;
    sp->per_t = 1.0f / s->temperature;
    sp->least = late ? floor_scaled : min_p;
    collect(sp, logits);
    sp->dense = may_be_dense && !selects && sp->n > sp->n_vocab / 4;
    if (sp->dense) {
        for (uint32_t t = 0; t < sp->n_vocab; t++) {
            float scaled = (logits[t] - max) * sp->per_t;
            bool in = (scaled >= sp->least) & (logits[t] <= max);
            sp->weight[t] = ft_noise_exp(in ? scaled : -INFINITY);
        }
        return;
    }
    keep_top(sp, s);
    if (late && min_p > floor_scaled)
        keep_at_least(sp, min_p);
    for (size_t i = 0; i < sp->n; i++)
        sp->weight[i] = ft_noise_exp(sp->scaled[i]);
}

/* The mass of the candidates that filter() left. */
static ft_mass mass_of(const ft_sampler *sp, const float *logits)
{
    const size_t n = sp->dense ? sp->n_vocab : sp->n;
    ft_mass mass = {0};
    float scaled[256];
    for (size_t first = 0; first < n; first += 256) {
        const size_t part = n - first < 256 ? n - first : 256;
        for (size_t i = 0; sp->dense && i < part; i++) { /* of weight 0 anything that is finite */
            float x = (logits[first + i] - sp->max) * sp->per_t;
            scaled[i] = x > FT_SHAPE_FAR && x <= 0 ? x : FT_SHAPE_FAR;
        }
        ft_mass_add(&mass, sp->weight + first, sp->dense ? scaled : sp->scaled + first, part);
    }
    return mass;
}

/* `second`: the weight of the second likeliest token, the likeliest's being 1. */
static ft_shape shape_of(const ft_logit_scan *scan, const ft_mass *mass, float second)
{
    return (ft_shape){.entropy = ft_mass_entropy(mass),
                      .margin = (float)((1 - (double)second) / ft_mass_sum(mass)),
                      .deviation = scan->deviation};
}

/* The best few candidates so far, in falling order of score. */
typedef struct best_list {
    ft_candidate *at;
    size_t n, most;
} best_list;

static void best_insert(best_list *best, ft_candidate c)
{
    size_t i = best->n < best->most ? best->n++ : best->most - 1;
    for (; i > 0; i--) {
        const ft_candidate *above = &best->at[i - 1];
        if (above->score > c.score || (above->score == c.score && above->token < c.token))
            break;
        best->at[i] = *above;
    }
    best->at[i] = c;
}

static bool best_beaten(const best_list *best, ft_candidate c)
{
    if (best->n < best->most)
        return true;
    const ft_candidate *last = &best->at[best->n - 1];
    return c.score > last->score || (c.score == last->score && c.token < last->token);
}

/* A candidate's score is at most scaled - log(1 - u) (noise.h). So it cannot beat a score b if
 * (1 - u) exp(b) > weight, and most candidates are dismissed without a logarithm. The bound is
 * exp(b) less a margin of 0.1 %, far above the rounding of weights and scores. */
static void score(best_list *best, double *bound, int32_t token, float scaled, uint32_t bits)
{
    ft_candidate c = {.token = token, .logp = scaled};
    c.score = scaled + ft_noise_gumbel(bits);
    if (!best_beaten(best, c))
        return;
    best_insert(best, c);
    if (best->n == best->most)
        *bound = exp((double)best->at[best->n - 1].score) * 0.999;
}

/* race() over dense weights: 64 tokens at a time, and most of the time all 64 are dismissed. */
static size_t race_dense(const ft_sampler *sp, const ft_sampling *s, const float *logits,
                         uint32_t position, ft_candidate *out, size_t most)
{
    best_list best = {.at = out, .most = most};
    double bound = 0;
    uint32_t block[FT_NOISE_LANES], bits[4][FT_NOISE_LANES];
    for (uint32_t first = 0; first < sp->n_vocab; first += 4 * FT_NOISE_LANES) {
        const float *weight = sp->weight + first;
        float least = (float)(bound * 0x1p-32 * 0.999);
        int some = 0;
        for (uint32_t i = 0; i < FT_NOISE_LANES; i++)
            block[i] = first / 4 + i;
        ft_noise_bits(s->seed, position, block, bits);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < FT_NOISE_LANES; i++)
                some |= (float)(UINT32_MAX - bits[k][i]) * least <= weight[4 * i + k];
        for (int t = 0; some && t < 4 * FT_NOISE_LANES; t++) {
            uint32_t r = bits[t & 3][t >> 2], token = first + (uint32_t)t;
            if (weight[t] > 0 && ft_noise_rest(r) * bound <= (double)weight[t])
                score(&best, &bound, (int32_t)token, (logits[token] - sp->max) * sp->per_t, r);
        }
    }
    return best.n;
}

/* The `most` best candidates by scaled + noise (logp holds the scaled logit). */
static size_t race(const ft_sampler *sp, const ft_sampling *s, const float *logits,
                   uint32_t position, ft_candidate *out, size_t most)
{
    if (sp->dense)
        return race_dense(sp, s, logits, position, out, most);
    best_list best = {.at = out, .most = most};
    double bound = 0;
    uint32_t block[FT_NOISE_LANES] = {0}, bits[4][FT_NOISE_LANES];
    uint8_t lane[4 * FT_NOISE_LANES];
    for (size_t from = 0; from < sp->n;) {
        /* As many candidates as fit into the lanes; neighbours share a block. */
        size_t to = from;
        int n = -1;
        for (; to < sp->n && to - from < sizeof lane; to++) {
            uint32_t b = (uint32_t)sp->id[to] >> 2;
            if (n < 0 || block[n] != b) {
                if (n == FT_NOISE_LANES - 1)
                    break;
                block[++n] = b;
            }
            lane[to - from] = (uint8_t)n;
        }
        ft_noise_bits(s->seed, position, block, bits);
        for (size_t i = from; i < to; i++) {
            uint32_t r = bits[sp->id[i] & 3][lane[i - from]];
            if (ft_noise_rest(r) * bound <= (double)sp->weight[i])
                score(&best, &bound, sp->id[i], sp->scaled[i], r);
        }
        from = to;
    }
    return best.n;
}

int32_t ft_sampler_draw(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                        uint32_t position)
{
    float max;
    if (!find_max(logits, sampler->n_vocab, &max))
        return 0;
    if (s->temperature == 0)
        return argmax(logits, sampler->n_vocab, max);
    filter(sampler, s, logits, max, true);
    ft_candidate first;
    race(sampler, s, logits, position, &first, 1);
    return first.token;
}

/* The `most` largest logits, as scores. */
static size_t largest(const float *logits, uint32_t n_vocab, ft_candidate *out, size_t most)
{
    best_list best = {.at = out, .most = most};
    for (uint32_t first = 0; first < n_vocab; first += CHUNK) {
        uint32_t end = n_vocab - first < CHUNK ? n_vocab : first + CHUNK;
        if (best.n == most && ft_logits_max(logits + first, end - first) <= out[most - 1].score)
            continue;
        for (uint32_t i = first; i < end; i++) {
            ft_candidate c = {.token = (int32_t)i, .score = logits[i]};
            if (isfinite(logits[i]) && best_beaten(&best, c))
                best_insert(&best, c);
        }
    }
    return best.n;
}

static size_t rank_greedy(ft_sampler *sp, const float *logits, const ft_logit_scan *scan,
                          ft_candidate *out, size_t most)
{
    const ft_mass mass = ft_logits_mass(logits, sp->n_vocab, scan->max);
    const float log_sum = (float)log(ft_mass_sum(&mass));
    const size_t n = largest(logits, sp->n_vocab, out, most);
    for (size_t i = 0; i < n; i++)
        out[i].logp = out[i].score = out[i].score - scan->max - log_sum;
    sp->shape = shape_of(scan, &mass, expf(scan->second - scan->max));
    return n;
}

size_t ft_sampler_walk(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                       uint32_t position, int32_t *out, size_t most)
{
    ft_candidate best[FT_SAMPLING_WALK];
    float max;
    size_t n = 0;
    most = most < FT_SAMPLING_WALK ? most : FT_SAMPLING_WALK;
    out[0] = 0;
    if (most == 0 || !find_max(logits, sampler->n_vocab, &max))
        return most > 0;
    if (s->temperature == 0) {
        n = largest(logits, sampler->n_vocab, best, most);
    } else {
        filter(sampler, s, logits, max, true);
        n = race(sampler, s, logits, position, best, most);
    }
    for (size_t i = 0; i < n; i++)
        out[i] = best[i].token;
    return n;
}

int32_t ft_sampler_draw_among(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                              uint32_t position, const uint32_t *mask)
{
    ft_candidate first;
    float max;
    size_t n = 0;
    if (!find_max(logits, sampler->n_vocab, &max))
        return -1;
    filter(sampler, s, logits, max, false);
    for (size_t i = 0; i < sampler->n; i++) {
        const uint32_t token = (uint32_t)sampler->id[i];
        sampler->id[n] = sampler->id[i];
        sampler->scaled[n] = sampler->scaled[i];
        sampler->weight[n] = sampler->weight[i];
        n += mask[token / 32] >> (token % 32) & 1;
    }
    sampler->n = n;
    return race(sampler, s, logits, position, &first, 1) > 0 ? first.token : -1;
}

size_t ft_sampler_rank(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                       uint32_t position, ft_candidate *out, size_t most)
{
    if (most == 0)
        return 0;
    const ft_logit_scan scan = ft_logits_scan(logits, sampler->n_vocab);
    if (!(scan.max > -INFINITY)) {
        sampler->shape = (ft_shape){0};
        out[0] = (ft_candidate){.token = 0};
        return 1;
    }
    if (s->temperature == 0)
        return rank_greedy(sampler, logits, &scan, out, most);
    filter(sampler, s, logits, scan.max, true);
    const size_t n = race(sampler, s, logits, position, out, most);
    const ft_mass mass = mass_of(sampler, logits);
    const float log_sum = (float)log(ft_mass_sum(&mass));
    for (size_t i = 0; i < n; i++) {
        out[i].logp -= log_sum;
        out[i].score -= log_sum;
    }
    float second = (scan.second - scan.max) * sampler->per_t;
    sampler->shape = shape_of(&scan, &mass, sampler->dense || sampler->n > 1 ? expf(second) : 0);
    return n;
}

ft_shape ft_sampler_shape(const ft_sampler *sampler)
{
    return sampler->shape;
}

size_t ft_sampler_candidates(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                             const ft_candidate **out)
{
    float max;
    *out = sampler->cands;
    sampler->cands[0] = (ft_candidate){.token = 0};
    if (!find_max(logits, sampler->n_vocab, &max))
        return 1;
    if (s->temperature == 0) {
        sampler->cands[0].token = argmax(logits, sampler->n_vocab, max);
        return 1;
    }
    filter(sampler, s, logits, max, false);
    const ft_mass mass = mass_of(sampler, logits);
    float log_sum = (float)log(ft_mass_sum(&mass));
    for (size_t i = 0; i < sampler->n; i++) {
        float logp = sampler->scaled[i] - log_sum;
        sampler->cands[i] = (ft_candidate){sampler->id[i], logp, logp};
    }
    return sampler->n;
}

static bool key_before(const void *ctx, const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

size_t ft_sampler_weights(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                          const int32_t **tokens, const uint64_t **weights)
{
    float max;
    const bool some = find_max(logits, sampler->n_vocab, &max);
    uint64_t *key = sampler->key;
    *tokens = sampler->id;
    *weights = key;
    if (!some || s->temperature == 0) {
        sampler->id[0] = some ? argmax(logits, sampler->n_vocab, max) : 0;
        key[0] = FT_SAMPLING_WEIGHT_MAX;
        return 1;
    }
    filter(sampler, s, logits, max, false);
    const size_t n = sampler->n;
    for (size_t i = 0; i < n; i++) /* token above, scaled below */
        key[i] = (uint64_t)(uint32_t)sampler->id[i] << 32 | minus_bits(sampler->scaled[i]);
    if (s->top_k > 0 || s->top_p < 1) /* else they are in order */
        ft_sort(key, n, sizeof *key, key_before, NULL);
    for (size_t i = 0; i < n; i++) {
        sampler->id[i] = (int32_t)(key[i] >> 32);
        key[i] = key_weight(key[i] << 32);
    }
    return n;
}
