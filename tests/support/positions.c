// SPDX-License-Identifier: Apache-2.0
// Made-up positions. A text has easy and hard stretches of about ten positions, so that the last
// confidences tell something about the next. Tokens are drawn from p, as a target draws them.
#include "support/positions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define VOCAB   49152
#define CHANGES 0.1 /* chance that a stretch ends */

static const uint32_t l_of[MADE_L] = {8, 240, 720};

static void softmax(double *x)
{
    double sum = 0;
    for (uint32_t i = 0; i < MADE_TOKENS; i++)
        sum += x[i] = exp(x[i]);
    for (uint32_t i = 0; i < MADE_TOKENS; i++)
        x[i] /= sum;
}

/* Rounds down, then gives the rest to the tokens that lost most. */
static void quantize(const double *q, uint32_t l, uint32_t *count)
{
    uint32_t left = l;
    for (uint32_t i = 0; i < MADE_TOKENS; i++)
        left -= count[i] = (uint32_t)(q[i] * l);
    for (; left > 0; left--) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < MADE_TOKENS; i++)
            if (q[i] * l - count[i] > q[most] * l - count[most])
                most = i;
        count[most]++;
    }
}

void made_place_draw(ft_rng *rng, double ease, made_place *out)
{
    const double spread = 1 + 3.5 * ease, error = 1.6 - 1.2 * ease;
    for (uint32_t i = 0; i < MADE_TOKENS; i++) {
        const double logit = spread * ft_rng_normal(rng);
        out->p[i] = logit;
        out->q[i] = logit + error * ft_rng_normal(rng);
    }
    softmax(out->p);
    softmax(out->q);
    for (uint32_t k = 0; k < MADE_L; k++)
        quantize(out->q, l_of[k], out->count[k]);
}

uint32_t made_draw(ft_rng *rng, const double *weight, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += weight[i];
    double at = ft_rng_unit(rng) * sum;
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (at < weight[i])
            return i;
        at -= weight[i];
    }
    return n - 1;
}

/* Draws with shared noise: the target's token, and its place among the draft's children. */
static uint32_t draw_shared(ft_rng *rng, const made_place *at, uint8_t *rank)
{
    double target[MADE_TOKENS], draft[MADE_TOKENS];
    uint32_t x = 0, better = 0;
    for (uint32_t i = 0; i < MADE_TOKENS; i++) {
        const double noise = -log(-log(ft_rng_unit(rng)));
        target[i] = log(at->p[i]) + noise;
        draft[i] = log(at->q[i]) + noise;
        x = target[i] > target[x] ? i : x;
    }
    for (uint32_t i = 0; i < MADE_TOKENS; i++)
        better += draft[i] > draft[x];
    *rank = better < FT_POSITIONS_RANKS ? (uint8_t)better : FT_POSITIONS_RANKS;
    return x;
}

/* What there is to know about sample, then quantize. */
static double sq_of(const made_place *at, uint32_t k, double *tv)
{
    double accept = 0, rest = 0, sum = 0;
    for (uint32_t i = 0; i < MADE_TOKENS; i++) {
        const double point = (double)at->count[k][i] / l_of[k];
        accept += at->q[i] * (point > 0 ? fmin(1, at->p[i] / point) : 1);
        rest += fmax(at->p[i] - point, 0);
    }
    for (uint32_t i = 0; i < MADE_TOKENS; i++) {
        const double point = (double)at->count[k][i] / l_of[k];
        const double kept = at->q[i] * (point > 0 ? fmin(1, at->p[i] / point) : 1);
        const double drawn = rest > 0 ? (1 - accept) * fmax(at->p[i] - point, 0) / rest : 0;
        sum += fabs(kept + drawn - at->p[i]);
    }
    *tv = sum / 2;
    return accept;
}

static void fill(ft_rng *rng, double easy, ft_positions_text *text)
{
    double sq_tv[MADE_L] = {0};
    bool is_easy = ft_rng_unit(rng) < easy;
    for (uint32_t i = 0; i < text->n; i++) {
        made_place at;
        if (ft_rng_unit(rng) < CHANGES)
            is_easy = ft_rng_unit(rng) < easy;
        made_place_draw(rng, is_easy ? 1 : 0, &at);
        const uint32_t x = draw_shared(rng, &at, &text->rank[i]);
        text->p[i] = (float)at.p[x];
        text->q[i] = (float)at.q[x];
        for (uint32_t y = 0; y < MADE_TOKENS; y++)
            text->top[i] = fmaxf(text->top[i], (float)at.q[y]);
        for (uint32_t k = 0; k < MADE_L; k++) {
            double tv;
            text->count[k * text->n + i] = (uint16_t)at.count[k][x];
            text->adaptive_bits[k * text->n + i] = 20 + 40 * k + (is_easy ? 0 : 20);
            text->sq_accept[k * text->n + i] = (float)fmin(1, sq_of(&at, k, &tv));
            sq_tv[k] += tv / text->n;
        }
    }
    for (uint32_t k = 0; k < MADE_L; k++)
        text->sq_tv[k] = (float)sq_tv[k];
}

ft_positions made_positions(uint64_t seed, uint32_t n_texts, uint32_t n)
{
    ft_positions all = {.target = 0xabc,
                        .draft = 0xdef,
                        .n_vocab = VOCAB,
                        .top_k = MADE_TOKENS,
                        .n_temperatures = 2,
                        .n_l = MADE_L,
                        .temperature = {0.3f, 1}};
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (uint32_t k = 0; k < MADE_L; k++) {
        const double l = all.l[k] = l_of[k];
        all.index_bits[k] = (uint32_t)ceil(
            (lgamma(l + VOCAB) - lgamma(l + 1) - lgamma((double)VOCAB)) / log(2)); /* eq. (6) */
    }
    for (uint32_t i = 0; i < 2 * n_texts; i++) {
        ft_positions_text *text;
        assert_int_equal(ft_positions_add(&all, n, NULL, &text), FT_OK);
        text->temperature = i % 2;
        fill(&rng, i % 2 ? 0.4 : 0.7, text);
    }
    return all;
}
