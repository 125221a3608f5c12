// SPDX-License-Identifier: Apache-2.0
// Texts from a law, and a source that drafts them. A draw is a pure function of its context, by
// Philox, so nothing is remembered but contexts.
// Invariant of a source: context[i] is behind text[0, i), i <= n_past, and pending[k] is behind
// pending node k. It belongs to one thread.
#include "sim/edgellm_world.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define OTHER     FT_DRAFT_RANKED /* a token that the draft does not name */
#define LEAST     1e-6            /* less likely tokens are not named */
#define MEAN_LOW  0.01            /* a text's mean is kept between these */
#define MEAN_HIGH 0.99
#define CONTEXT   (1u << 14) /* tokens of a text: the config's text_tok is far below */

uint64_t ft_edgellm_behind(uint64_t context, int32_t token)
{
    /* ft_rng has 0 in the third word: draws and contexts are independent. */
    const uint32_t counter[4] = {(uint32_t)token, 0, 1, 0};
    const uint32_t key[2] = {(uint32_t)context, (uint32_t)(context >> 32)};
    uint32_t out[4];
    ft_philox4x32(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

/* Marsaglia and Tsang, A simple method for generating gamma variables, 2000. */
static double draw_gamma(ft_rng *rng, double shape)
{
    const double boost = shape < 1 ? pow(ft_rng_unit(rng), 1 / shape) : 1;
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = ft_rng_normal(rng), t = 1 + c * x, v = t * t * t;
        const double u = ft_rng_unit(rng);
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return boost * d * v;
    }
}

static double draw_beta(ft_rng *rng, double mean, double concentration)
{
    const double a = draw_gamma(rng, mean * concentration);
    const double b = draw_gamma(rng, (1 - mean) * concentration);
    return a + b > 0 ? a / (a + b) : mean;
}

ft_edgellm_text ft_edgellm_text_make(const ft_edgellm_law *law, uint64_t seed, uint32_t index)
{
    ft_edgellm_text text = {.law = *law, .root = ft_edgellm_behind(seed, (int32_t)index)};
    ft_rng rng;
    ft_rng_init(&rng, text.root);
    text.law.correctness =
        fmin(fmax(draw_beta(&rng, law->correctness, law->text_concentration), MEAN_LOW), MEAN_HIGH);
    return text;
}

int32_t ft_edgellm_look(const ft_edgellm_text *text, uint64_t context, ft_draft_children *children)
{
    ft_rng rng;
    ft_rng_init(&rng, context);
    double p = draw_beta(&rng, text->law.correctness, text->law.top_concentration);
    double left = 1, u = ft_rng_unit(&rng);
    int32_t next = OTHER;
    uint32_t n = 0;
    for (; n < FT_DRAFT_RANKED && p >= LEAST; n++) {
        if (next == OTHER && u < p)
            next = (int32_t)n;
        u -= p;
        if (children)
            children->at[n] =
                (ft_draft_child){.token = (int32_t)n, .logp = fminf(logf((float)p), 0)};
        left -= p;
        p = fmin(p, text->law.next_share * left);
    }
    if (children)
        children->n = n;
    return next;
}

/* ---- the source ---- */

typedef struct source {
    ft_draft_source base;
    const ft_edgellm_text *text;
    ft_edgellm_clock *clock;
    uint64_t context[CONTEXT + 1];
    uint64_t pending[FT_DRAFT_PENDING];
} source;

static void destroy(ft_draft_source *base)
{
    free(base);
}

static void answer(const source *s, uint64_t context, ft_draft_children *out)
{
    *out = (ft_draft_children){0};
    (void)ft_edgellm_look(s->text, context, out);
}

static void read_text(source *s, const ft_draft_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t at = s->base.n_past++;
        s->context[at + 1] = ft_edgellm_behind(s->context[at], r->tokens[i]);
    }
    if (r->children)
        answer(s, s->context[s->base.n_past], r->children);
}

static void read_leaves(source *s, const ft_draft_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const uint64_t before =
            r->parents[i] < 0 ? s->context[s->base.n_past] : s->pending[r->parents[i]];
        const uint64_t behind = ft_edgellm_behind(before, r->tokens[i]);
        s->pending[s->base.n_pending++] = behind;
        answer(s, behind, &r->children[i]);
    }
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++) {
        ft_draft_request *r = &requests[i];
        source *s = (source *)r->source;
        const uint32_t more = r->parents ? s->base.n_pending + r->n : s->base.n_past + r->n;
        r->status = more <= (r->parents ? FT_DRAFT_PENDING : CONTEXT) ? FT_OK : FT_EXHAUSTED;
        if (r->status != FT_OK)
            continue;
        s->context[0] = s->text->root;
        if (r->parents)
            read_leaves(s, r);
        else
            read_text(s, r);
        s->clock->now_s += s->clock->row_s * (1 + s->clock->row_share * (r->n - 1));
        s->clock->rows += r->n;
    }
    return FT_OK;
}

static ft_status commit(ft_draft_source *base, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    source *s = (source *)base;
    if (n_path > CONTEXT - base->n_past)
        return ft_error_set(err, FT_EXHAUSTED, "simulate: the text is too long");
    for (uint32_t i = 0; i < n_path; i++)
        s->context[++base->n_past] = s->pending[path[i]];
    for (uint32_t i = 0; i < n_keep; i++) /* keep rises */
        s->pending[i] = s->pending[keep[i]];
    base->n_pending = n_keep;
    return FT_OK;
}

static void truncate_text(ft_draft_source *base, uint32_t n_past)
{
    assert(n_past <= base->n_past);
    base->n_past = n_past;
    base->n_pending = 0;
}

static uint32_t room_tok(const ft_draft_source *base)
{
    (void)base;
    return UINT32_MAX;
}

ft_status ft_edgellm_source_create(const ft_edgellm_text *text, ft_edgellm_clock *clock,
                                   ft_error *err, ft_draft_source **out)
{
    static const ft_draft_source_ops ops = {.destroy = destroy,
                                            .forward = forward,
                                            .commit = commit,
                                            .truncate = truncate_text,
                                            .room_tok = room_tok};
    source *s = calloc(1, sizeof *s);
    *out = s ? &s->base : NULL;
    if (!s)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    s->base = (ft_draft_source){.ops = &ops,
                                .group = s,
                                .n_ctx = CONTEXT,
                                .n_vocab = FT_EDGELLM_VOCAB,
                                .max_text = FT_DRAFT_FEED,
                                .max_leaves = FT_DRAFT_LEAVES,
                                .total_tok = UINT32_MAX};
    s->text = text;
    s->clock = clock;
    return FT_OK;
}
