/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws under a constraint (ft_sampling.matcher). The token is the best by log p + noise among
 * those that the filters leave and the constraint allows; if it allows none of them, the best among
 * all that it allows, by the sampler's floor alone. If no token at all may follow, the text ends.
 * So a text is a function of prompt, sampling, seed and constraint, with and without drafts.
 */
#ifndef FT_SPEC_CONSTRAINED_H
#define FT_SPEC_CONSTRAINED_H

#include "constrain/constraint.h"
#include "model/vocab.h"
#include "spec/penalties.h"
#include "spec/sampling.h"

/* A vocabulary's tokens, for grammars; special ones have no bytes. Borrows it. */
ft_constrain_tokens ft_constrained_tokens(const ft_vocab *vocab);

/* Moves s->matcher behind the answer's tokens in the past. False: they do not fit. */
bool ft_constrained_follow(const ft_sampling *s, const ft_past *past);

/* As ft_sampler_draw, where s->matcher stands. room: [n_vocab]. No allocation here; the matcher may
 * allocate. */
int32_t ft_constrained_draw(ft_sampler *sampler, uint32_t n_vocab, float *room,
                            const ft_sampling *s, const float *logits, uint32_t position);

/* For drafts: the logits without what may not follow, in `room` [n_vocab], which may be `logits`
 * itself. Where most of the likeliest tokens may follow, or it is much work to know all that may,
 * only the likeliest ones are looked at. */
const float *ft_constrained_logits(ft_sampler *sampler, uint32_t n_vocab, float *room,
                                   ft_matcher *matcher, const float *logits);

#endif
