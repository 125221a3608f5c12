/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up positions: texts over a few tokens, with easy and hard stretches. Their distributions are
 * known, so that what is replayed on them can be compared with rounds that draw drafts. */
#ifndef FT_TEST_POSITIONS_H
#define FT_TEST_POSITIONS_H

#include "base/rng.h"
#include "learn/positions.h"

#define MADE_TOKENS 24 /* of the distributions; n_vocab says 49152, for the sizes of messages */
#define MADE_L      3  /* 8, 240 and 720 */

/* The models at one position. */
typedef struct made_place {
    double p[MADE_TOKENS], q[MADE_TOKENS];
    uint32_t count[MADE_L][MADE_TOKENS];
} made_place;

/* A position of an easy stretch (ease near 1: both models are sure) or of a hard one (near 0). */
void made_place_draw(ft_rng *rng, double ease, made_place *out);
/* Index of a draw from n weights, which need not sum to 1. */
uint32_t made_draw(ft_rng *rng, const double *weight, uint32_t n);

/* n_texts texts of n positions for each of the temperatures 0.3 and 1; the lower has more easy
 * stretches. The test fails if there is no memory. */
ft_positions made_positions(uint64_t seed, uint32_t n_texts, uint32_t n);

#endif
