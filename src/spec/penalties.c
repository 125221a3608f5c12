// SPDX-License-Identifier: Apache-2.0
// Applies penalties and biases. Each distinct token of the text is counted first and changed once,
// so that the outcome does not depend on the order of the text. A thread owns a penalizer.
#include "spec/penalties.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In a count: the text has the token. */
#define SEEN (UINT32_C(1) << 31)

static bool is_within(float x, float least, float most)
{
    return x >= least && x <= most; /* no NaN is */
}

ft_status ft_penalties_check(const ft_penalties *p, uint32_t n_vocab, ft_error *err)
{
    if (!is_within(p->presence, -FT_PENALTY_MOST, FT_PENALTY_MOST))
        return ft_error_set(err, FT_INVALID, "presence_penalty %g: it must be in -2..2",
                            (double)p->presence);
    if (!is_within(p->frequency, -FT_PENALTY_MOST, FT_PENALTY_MOST))
        return ft_error_set(err, FT_INVALID, "frequency_penalty %g: it must be in -2..2",
                            (double)p->frequency);
    if (p->repetition != 0 && !is_within(p->repetition, FT_REPETITION_LEAST, FT_REPETITION_MOST))
        return ft_error_set(err, FT_INVALID, "repetition_penalty %g: it must be in %g..%g",
                            (double)p->repetition, (double)FT_REPETITION_LEAST,
                            (double)FT_REPETITION_MOST);
    if (p->n_bias > FT_BIAS_MAX)
        return ft_error_set(err, FT_INVALID, "logit_bias: %u entries, at most %d", p->n_bias,
                            FT_BIAS_MAX);
    for (uint32_t i = 0; i < p->n_bias; i++)
        if (p->bias_token[i] < 0 || (uint32_t)p->bias_token[i] >= n_vocab ||
            (i > 0 && p->bias_token[i] <= p->bias_token[i - 1]) ||
            !is_within(p->bias[i], -FT_BIAS_MOST, FT_BIAS_MOST))
            return ft_error_set(err, FT_INVALID,
                                "logit_bias: %g for token %d: rising tokens below %u, and a bias "
                                "in -100..100",
                                (double)p->bias[i], p->bias_token[i], n_vocab);
    return FT_OK;
}

ft_status ft_penalizer_init(ft_penalizer *z, uint32_t n_vocab, ft_error *err)
{
    *z = (ft_penalizer){.logits = calloc(n_vocab, sizeof *z->logits),
                        .count = calloc(n_vocab, sizeof *z->count),
                        .n_vocab = n_vocab};
    if (z->logits && z->count)
        return FT_OK;
    ft_penalizer_deinit(z);
    return ft_error_set(err, FT_NOMEM, "penalties: out of memory for %u tokens", n_vocab);
}

void ft_penalizer_deinit(ft_penalizer *z)
{
    free(z->logits);
    free(z->count);
    *z = (ft_penalizer){0};
}

static int32_t token_at(const ft_past *past, uint32_t i)
{
    return i < past->n_text ? past->text[i] : past->path[i - past->n_text];
}

/* The logit of a token that the text has, `count` times in the answer. */
static float changed(const ft_penalties *p, float logit, uint32_t count)
{
    if (p->repetition != 0)
        logit = logit > 0 ? logit / p->repetition : logit * p->repetition;
    return count > 0 ? logit - ((float)count * p->frequency + p->presence) : logit;
}

const float *ft_penalize(ft_penalizer *z, const ft_sampling *s, const ft_past *past,
                         const float *logits)
{
    const ft_penalties *p = s->penalties;
    const uint32_t n = past->n_text + past->n_path;
    if (!p || !ft_penalties_any(p))
        return logits;
    memcpy(z->logits, logits, z->n_vocab * sizeof *logits);
    /* of the prompt only repetition says something */
    const uint32_t from = p->repetition == 0 || p->repetition == 1 ? s->answer_at : 0;
    for (uint32_t i = from; i < n; i++) {
        uint32_t *count = &z->count[token_at(past, i)];
        *count = (*count | SEEN) + (i >= s->answer_at);
    }
    for (uint32_t i = from; i < n; i++) {
        const int32_t token = token_at(past, i);
        if (z->count[token] && fabsf(logits[token]) <= FLT_MAX) /* the first time */
            z->logits[token] = changed(p, logits[token], z->count[token] & ~SEEN);
        z->count[token] = 0;
    }
    for (uint32_t i = 0; i < p->n_bias; i++)
        z->logits[p->bias_token[i]] += p->bias[i];
    return z->logits;
}
