/* SPDX-License-Identifier: Apache-2.0
 *
 * When the target is asked: EdgeLLM's self-adaptive fallback (section III-C). A draft grows while
 * its confidence T_c is at least a threshold, alpha. T_c is the chance of the tree's likeliest
 * branch. Verdicts move alpha: a draft that is right may be longer the next time.
 *
 * The paper multiplies what the draft model says of each token. Here a branch's chance is
 * exp(ft_tree.cum_logp): the drafter's estimate that the target draws this branch under the shared
 * noise, with what the drafter has learned of its own errors. Above temperature 0 the two differ.
 *
 * Pure: no clock, no thread. The state is plain data: a new text starts from a copy of what others
 * learnt. Text does not depend on it.
 */
#ifndef FT_SPEC_FALLBACK_H
#define FT_SPEC_FALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/tree.h"

/* Alpha is kept between these, so in (0, 1). With a lower one no draft ends within 256 tokens that
 * are each likelier than 0.95. With a higher one nearly no token would be sure enough. */
#define FT_FALLBACK_LEAST 1e-6f
#define FT_FALLBACK_MOST  0.99f

typedef struct ft_fallback {
    float alpha;
    bool fixed; /* verdicts do not move it */
} ft_fallback;

/* alpha: fixed, between the two above; 0: it begins at 0.01 and verdicts move it. */
ft_fallback ft_fallback_begin(float alpha);

/* T_c of the tree; 1 if it is empty, as nothing is in doubt. */
float ft_fallback_confidence(const ft_tree *tree);
/* Whether a draft of this confidence goes to the target now. */
bool ft_fallback_now(const ft_fallback *fallback, float confidence);

/* A verdict on the tree accepted path[n_path]. An empty tree says nothing. */
void ft_fallback_saw(ft_fallback *fallback, const ft_tree *tree, const uint32_t *path,
                     uint32_t n_path);

#endif
