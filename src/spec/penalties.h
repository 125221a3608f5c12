/* SPDX-License-Identifier: Apache-2.0
 *
 * Penalties and biases on logits: a pure function of the logits, of what was asked for, and of the
 * text before the drawn token. So a text is the same with and without drafts. For each token t that
 * the text has:
 *   repetition  a positive logit is divided by it, another one multiplied (CTRL, arXiv:1909.05858,
 *               section 4.1, in the form that handles negative logits); prompt and answer count;
 *   frequency, presence  logit - (count * frequency + presence); the answer alone counts;
 * then each bias is added to its token's logit. Logits that are not finite stay as they are. It is
 * exact arithmetic of single floats in a fixed order: the same bits on edge and server.
 */
#ifndef FT_SPEC_PENALTIES_H
#define FT_SPEC_PENALTIES_H

#include <stdint.h>

#include "base/penalties.h"
#include "base/status.h"
#include "spec/sampling.h"

/* The tokens before the drawn one: text, and drafted ones behind it. */
typedef struct ft_past {
    const int32_t *text; /* [n_text] */
    uint32_t n_text;
    const int32_t *path; /* [n_path] */
    uint32_t n_path;
} ft_past;

/* FT_INVALID says what is out of range, or not below n_vocab. */
FT_WARN_UNUSED ft_status ft_penalties_check(const ft_penalties *p, uint32_t n_vocab, ft_error *err);

/* Room to apply them, for one vocabulary; owned by one thread. */
typedef struct ft_penalizer {
    float *logits;   /* [n_vocab] */
    uint32_t *count; /* [n_vocab], zeros between calls */
    uint32_t n_vocab;
} ft_penalizer;
FT_WARN_UNUSED ft_status ft_penalizer_init(ft_penalizer *z, uint32_t n_vocab, ft_error *err);
/* All zeros are legal. */
void ft_penalizer_deinit(ft_penalizer *z);

/* The logits [n_vocab] to draw from: those that are given if s asks for nothing, else z's own until
 * the next call. All of the past's tokens are below n_vocab. No allocation. */
const float *ft_penalize(ft_penalizer *z, const ft_sampling *s, const ft_past *past,
                         const float *logits);

#endif
