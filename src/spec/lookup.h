/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft source without a model: tokens that followed where the text's last tokens stood before,
 * in the text itself or in a prediction of it. Where what followed differs, a node has several
 * children. A token without such a place has none, so trees may be empty.
 *
 * It says how likely a child is by how often such matches held in this text so far, drafted or not.
 * Its forwards take some microseconds. It goes with rules whose drafts carry no evidence, as it
 * knows no distributions.
 */
#ifndef FT_SPEC_LOOKUP_H
#define FT_SPEC_LOOKUP_H

#include "spec/draft_source.h"
#include "spec/ngrams.h"

typedef struct ft_lookup_opts {
    uint32_t n_ctx, n_vocab; /* as in ft_draft_source */
    uint32_t n_prompt;       /* of the text: the answer begins behind it */
    /* What the answer may look like; n_prediction = 0: nothing is known of it. Borrowed by
     * whoever keeps the options; a source copies it. */
    const int32_t *prediction; /* [n_prediction] */
    uint32_t n_prediction;
    /* Its matcher: tokens of the answer that may not follow are not found. Borrowed while sources
     * live; NULL: there is no constraint. */
    const ft_sampling *sampling;
} ft_lookup_opts;

/* An empty text. Sources with the same `group` (any pointer that outlives them) can share a
 * forward. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_lookup_source(const ft_lookup_opts *opts, const void *group,
                                          ft_error *err, ft_draft_source **out);

/* ---- how often matches held ---- */

#define FT_LOOKUP_LENGTHS 8 /* classes of matches by their length */

/* How often a kind of match held. All-zero: not known. */
typedef struct ft_lookup_held {
    float times, held;
} ft_lookup_held;

/* By [in the prediction][place among what was found][class of length]. */
typedef struct ft_lookup_rates {
    ft_lookup_held of[2][FT_NGRAMS_MOST][FT_LOOKUP_LENGTHS];
} ft_lookup_rates;

/* The chance that the match in this place among what was found holds, below 1. */
float ft_lookup_chance(const ft_lookup_rates *rates, const ft_ngrams_match *match, uint32_t place);
/* What followed was `token`. */
void ft_lookup_saw(ft_lookup_rates *rates, const ft_ngrams_match *found, uint32_t n, int32_t token);
/* What comes now may be of another kind: what was seen counts for a few tokens only. */
void ft_lookup_doubt(ft_lookup_rates *rates);

#endif
