/* SPDX-License-Identifier: Apache-2.0
 *
 * From logits to tokens. The draw is the Gumbel-max trick with noise that is a pure function of
 * (seed, position, token): argmax over tokens of log p + G. p is the distribution after temperature,
 * top-k, top-p and min-p; tokens whose probability is below FT_SAMPLING_FLOOR times the largest are
 * out by definition. Temperature 0 is plain argmax (lowest id on a tie).
 */
#ifndef FT_SPEC_SAMPLING_H
#define FT_SPEC_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_sampling {
    float temperature; /* 0: greedy */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
} ft_sampling;

/* Greedy, everything off. */
ft_sampling ft_sampling_default(void);
/* FT_INVALID says which field is out of range or not a number. */
FT_WARN_UNUSED ft_status ft_sampling_check(const ft_sampling *s, ft_error *err);

/* Standard Gumbel noise of a token at a position of the text; in (-4, 23). Pure. */
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

/* The token that rule `exact` draws at `position` (the position of the drawn token in the text) from
 * logits [n_vocab]. Non-finite logits are treated as minus infinity. No allocation. */
int32_t ft_sampler_draw(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                        uint32_t position);

/* The candidates in falling order of score, at most `most` of them; returns how many. The first one
 * is what ft_sampler_draw returns. Drafters rank children by it: shared randomness. */
size_t ft_sampler_rank(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                       uint32_t position, ft_candidate *out, size_t most);

/* All candidates with their normalized log-probabilities (for tests and rule `ratio`), unordered. */
size_t ft_sampler_candidates(ft_sampler *sampler, const ft_sampling *s, const float *logits,
                             const ft_candidate **out);

/* Plain log-softmax value of a token (temperature 1, no filters), as OpenAI's logprobs want, and the
 * most probable tokens; returns how many of `most` it wrote. */
float ft_logprob(const float *logits, uint32_t n_vocab, int32_t token);
size_t ft_top_logprobs(const float *logits, uint32_t n_vocab, int32_t *tokens, float *logprobs,
                       size_t most);

#endif
