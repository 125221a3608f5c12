/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to tokens. The draw is the Gumbel-max trick with noise that is a pure function of
 * (seed, position, token): argmax over tokens of log p + G. p is softmax(logits / temperature)
 * after these filters, in this order, where more probable means a larger logit and, among equals,
 * the lower id:
 *   floor   tokens below FT_SAMPLING_FLOOR times the largest probability are out by definition;
 *   top-k   the k most probable stay;
 *   top-p   of those, renormalized, the fewest most probable ones whose sum reaches top_p stay;
 *   min-p   tokens below min_p times the largest probability are out.
 * The most probable token always stays. Temperature 0 is plain argmax (lowest id on a tie). A draw
 * is a function of logits, sampling and position, to the bit, on every machine (noise.c).
 */
#ifndef FT_SPEC_SAMPLING_H
#define FT_SPEC_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "base/penalties.h"
#include "base/status.h"

/* Half the spacing of floats below 1: beside the most probable token such a token does not change a
 * single-precision sum. Together all tokens of a vocabulary of 49,152 that are out weigh less than
 * 0.003 of that one token. Without a floor a draw would need noise for the whole vocabulary. */
#define FT_SAMPLING_FLOOR 0x1p-24f

typedef struct ft_matcher ft_matcher; /* constrain/constraint.h */

typedef struct ft_sampling {
    float temperature; /* 0: greedy; else FT_TEMPERATURE_MIN to 100 */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 1: off; 0 keeps one token */
    float min_p;       /* 0: off */
    uint64_t seed;
    /* Applied to logits before all of this (spec/penalties.h), by rules; the sampler itself does
     * not know them. Borrowed; NULL: none. */
    const ft_penalties *penalties;
    uint32_t answer_at; /* the position in the text at which the answer begins */
    /* What the answer's tokens must fit (spec/constrained.h); the sampler itself does not know it
     * either. Rules move it to where they draw, so it is the drawing thread's. Borrowed; NULL: they
     * may be any. */
    ft_matcher *matcher;
} ft_sampling;

#define FT_SAMPLING_WALK 16 /* tokens of ft_sampler_walk at most */

#define FT_TEMPERATURE_MIN 0.0001f /* below it logits / temperature would overflow */

/* Greedy, everything off. */
ft_sampling ft_sampling_default(void);
/* FT_INVALID says which field is out of range or not a number. */
FT_WARN_UNUSED ft_status ft_sampling_check(const ft_sampling *s, ft_error *err);

/* Standard Gumbel noise of a token at a position of the text; in (-4, 23). Pure, and the same bits
 * on every machine. */
float ft_gumbel(uint64_t seed, uint32_t position, int32_t token);

/* One candidate after the filters. */
typedef struct ft_candidate {
    int32_t token;
    float logp;  /* log-probability, normalized over the candidates */
    float score; /* logp + noise; at temperature 0 the logp */
} ft_candidate;

/* Workspace for one vocabulary size; owned by one thread. */
typedef struct ft_sampler ft_sampler;
FT_WARN_UNUSED ft_status ft_sampler_create(uint32_t n_vocab, ft_error *err, ft_sampler **out);
void ft_sampler_destroy(ft_sampler *sampler);

/* The token that is drawn at `position` (the position of the drawn token in the text) from logits
 * [n_vocab]. Non-finite logits are treated as minus infinity; if all are, token 0 is drawn. `s`
 * must pass ft_sampling_check. No allocation. */
int32_t ft_sampler_draw(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                        uint32_t position);

/* The tokens that ft_sampler_draw prefers, the drawn one first, at most `most`; returns how many:
 * fewer where the filters leave fewer. */
size_t ft_sampler_walk(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                       uint32_t position, int32_t *out, size_t most);
/* The token that ft_sampler_draw prefers of those that the filters leave and that are in the mask
 * (token t: bit t % 32 of word t / 32); -1: there is none. Not for temperature 0. */
int32_t ft_sampler_draw_among(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                              uint32_t position, const uint32_t *mask);

/* The candidates in falling order of score (lower id on a tie), at most `most` of them; returns how
 * many. The first one is what ft_sampler_draw returns. Drafters rank children by it: shared
 * randomness. At temperature 0 the candidates are the whole vocabulary with softmax(logits). */
size_t ft_sampler_rank(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                       uint32_t position, ft_candidate *out, size_t most);

/* What a distribution looks like: what tells whether a token drawn from it will do
 * (learn/features.h). */
typedef struct ft_shape {
    float entropy;   /* of the distribution that is drawn from, filters included; nats */
    float margin;    /* there, probability of the likeliest token less that of the second */
    float deviation; /* standard deviation of the finite logits */
} ft_shape;
/* Of the last ft_sampler_rank, which has seen most of it anyway. Temperature 0: of
 * softmax(logits). */
ft_shape ft_sampler_shape(const ft_sampler *sampler);

/* All candidates with their normalized log-probabilities (for rules that need probabilities),
 * unordered; score is the logp. At temperature 0 that is one token with log-probability 0. *out is
 * borrowed until the next call on the sampler. */
size_t ft_sampler_candidates(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                             const ft_candidate **out);

/* The same candidates in ascending order of token, with integers in proportion to their
 * probabilities: the most probable one has FT_SAMPLING_WEIGHT_MAX, none has 0. They are the same on
 * every machine, and sums of them are exact in any order. Both are borrowed until the next call on
 * the sampler; returns how many there are. */
#define FT_SAMPLING_WEIGHT_MAX (UINT64_C(1) << 40)
size_t ft_sampler_weights(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                          const int32_t **tokens, const uint64_t **weights);

/* Plain log-softmax value of a token (temperature 1, no filters), as OpenAI's logprobs want, and
 * the most probable tokens; returns how many of `most` it wrote. */
float ft_logprob(const float *logits, uint32_t n_vocab, int32_t token);
size_t ft_top_logprobs(const float *logits, uint32_t n_vocab, int32_t *tokens, float *logprobs,
                       size_t most);

#endif
