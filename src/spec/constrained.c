// SPDX-License-Identifier: Apache-2.0
// Draws under a constraint: a walk down the tokens as the plain draw ranks them, since most that a
// model would take are allowed. Only where the first few do not fit are all tokens asked about. No
// state.
#include "spec/constrained.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

/* Tokens that are tried one by one. Within a string one of a few fits nearly always, and all that
 * fit are expensive to find; elsewhere they are not, but few more to try cost little. */
#define WALK FT_SAMPLING_WALK

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    return ft_vocab_piece(ctx, token, false, out);
}

static bool ends(const void *ctx, int32_t token)
{
    return ft_vocab_is_eog(ctx, token);
}

static const char *mark(const void *ctx, size_t i, int32_t *token)
{
    return ft_vocab_special(ctx, i, token);
}

ft_constrain_tokens ft_constrained_tokens(const ft_vocab *vocab)
{
    return (ft_constrain_tokens){.n = (uint32_t)ft_vocab_size(vocab),
                                 .piece = piece,
                                 .ends = ends,
                                 .mark = mark,
                                 .n_marks = ft_vocab_n_special(vocab),
                                 .ctx = vocab};
}

static bool in(const uint32_t *mask, int32_t token)
{
    return mask[token / 32] >> (token % 32) & 1;
}

bool ft_constrained_follow(const ft_sampling *s, const ft_past *past)
{
    const uint32_t from = ft_min_u32(s->answer_at, past->n_text);
    const uint32_t skip = ft_min_u32(s->answer_at - from, past->n_path); /* of the prompt, too */
    return ft_matcher_follow(s->matcher, past->text + from, past->n_text - from,
                             skip ? past->path + skip : past->path, past->n_path - skip);
}

static const float *masked(uint32_t n_vocab, float *room, const uint32_t *mask, const float *logits)
{
    for (uint32_t t = 0; t < n_vocab; t++)
        room[t] = in(mask, (int32_t)t) ? logits[t] : -INFINITY;
    return room;
}

/* The best of all that may follow. */
static int32_t best_of_all(ft_sampler *sampler, const float *allowed, const ft_sampling *s,
                           uint32_t position, const uint32_t *mask)
{
    const ft_sampling open = {.temperature = s->temperature, .top_p = 1, .seed = s->seed};
    int32_t token = ft_sampler_draw(sampler, &open, allowed, position);
    if (!in(mask, token)) /* none of them has a finite logit: the first one */
        for (token = 0; !in(mask, token);)
            token++;
    return token;
}

int32_t ft_constrained_draw(ft_sampler *sampler, uint32_t n_vocab, float *room,
                            const ft_sampling *s, const float *logits, uint32_t position)
{
    int32_t best[WALK], token = -1;
    const size_t n = ft_sampler_walk(sampler, s, logits, position, best, WALK);
    for (size_t i = 0; i < n; i++)
        if (ft_matcher_allows(s->matcher, best[i]))
            return best[i];
    const uint32_t *mask = ft_matcher_mask(s->matcher);
    if (!mask)
        return ft_matcher_end(s->matcher);
    if (s->temperature > 0 && n == WALK)
        token = ft_sampler_draw_among(sampler, s, logits, position, mask);
    return token >= 0
               ? token
               : best_of_all(sampler, masked(n_vocab, room, mask, logits), s, position, mask);
}

const float *ft_constrained_logits(ft_sampler *sampler, uint32_t n_vocab, float *room,
                                   ft_matcher *matcher, const float *logits)
{
    static const ft_sampling greedy = {.top_p = 1};
    int32_t best[WALK], out[WALK];
    const size_t n = ft_sampler_walk(sampler, &greedy, logits, 0, best, WALK);
    const uint32_t *mask;
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++)
        if (!ft_matcher_allows(matcher, best[i]))
            out[n_out++] = best[i];
    if (n_out > n / 2 && ft_matcher_guess(matcher, &mask))
        return mask ? masked(n_vocab, room, mask, logits) : logits;
    if (n_out == 0)
        return logits;
    if (room != logits)
        memcpy(room, logits, n_vocab * sizeof *room);
    for (size_t i = 0; i < n_out; i++)
        room[out[i]] = -INFINITY;
    return room;
}
