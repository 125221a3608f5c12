// SPDX-License-Identifier: Apache-2.0
// Log-probabilities that are reported, and decide nothing (sampling.h). No state, no allocation.
#include <math.h>

#include "spec/sampling.h"
#include "spec/shape.h"

float ft_logprob(const float *logits, uint32_t n_vocab, int32_t token)
{
    float max;
    if (token < 0 || (uint32_t)token >= n_vocab || !isfinite(logits[token]) ||
        (max = ft_logits_max(logits, n_vocab)) == -INFINITY)
        return -INFINITY;
    const ft_mass mass = ft_logits_mass(logits, n_vocab, max);
    return logits[token] - max - (float)log(ft_mass_sum(&mass));
}

size_t ft_top_logprobs(const float *logits, uint32_t n_vocab, int32_t *tokens, float *logprobs,
                       size_t most)
{
    float max;
    size_t n = 0;
    if (most == 0 || (max = ft_logits_max(logits, n_vocab)) == -INFINITY)
        return 0;
    const ft_mass mass = ft_logits_mass(logits, n_vocab, max);
    float log_sum = (float)log(ft_mass_sum(&mass));
    for (uint32_t t = 0; t < n_vocab; t++) {
        if (!isfinite(logits[t]))
            continue;
        float logprob = logits[t] - max - log_sum;
        if (n == most && !(logprob > logprobs[n - 1]))
            continue;
        size_t i = n < most ? n++ : most - 1;
        for (; i > 0 && logprob > logprobs[i - 1]; i--) {
            tokens[i] = tokens[i - 1];
            logprobs[i] = logprobs[i - 1];
        }
        tokens[i] = (int32_t)t;
        logprobs[i] = logprob;
    }
    return n;
}
