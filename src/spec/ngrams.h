/* SPDX-License-Identifier: Apache-2.0
 *
 * An index of a text's own n-grams: where its last tokens stood before, and which token followed
 * there. It grows and shrinks at its end. Beside the text it may have a prediction: tokens that
 * somebody expects in the text, and that are searched like its past.
 *
 * A token more takes constant time, amortised. A search compares FT_NGRAMS_WALK places for each of
 * two lengths of n-grams at most, however long the text is. Memory: up to 40 bytes a token.
 *
 * Owned by one thread at a time.
 */
#ifndef FT_SPEC_NGRAMS_H
#define FT_SPEC_NGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_NGRAMS_LONG  5  /* tokens of the long n-grams, which find the best matches first */
#define FT_NGRAMS_SHORT 2  /* tokens of the short ones: a match has at least so many */
#define FT_NGRAMS_MATCH 32 /* tokens of a match that are counted at most */
#define FT_NGRAMS_MOST  4  /* different tokens that a search returns at most */
#define FT_NGRAMS_WALK  16 /* places that it looks at, for each length of n-grams */

typedef struct ft_ngrams ft_ngrams;

/* A token that followed where the last tokens stood before. */
typedef struct ft_ngrams_match {
    int32_t token;
    uint32_t length; /* tokens of the longest match that it followed, at most FT_NGRAMS_MATCH */
    uint32_t seen;   /* places where it followed, of those that were looked at */
    bool predicted;  /* the longest match is in the prediction */
    uint32_t at;     /* where it stands behind that match, in the text or in the prediction */
} ft_ngrams_match;

/* An empty text, with this prediction [n] (copied; n = 0: none). FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_ngrams_create(const int32_t *prediction, uint32_t n, ft_error *err,
                                          ft_ngrams **out);
/* NULL is legal. */
void ft_ngrams_destroy(ft_ngrams *ngrams);

/* Adds tokens [n] to the text's end. FT_NOMEM, FT_TOO_LARGE: nothing was added. */
FT_WARN_UNUSED ft_status ft_ngrams_append(ft_ngrams *ngrams, const int32_t *tokens, uint32_t n,
                                          ft_error *err);
/* Removes all but the text's first n tokens. */
void ft_ngrams_truncate(ft_ngrams *ngrams, uint32_t n);
/* Tokens of the text. */
uint32_t ft_ngrams_length(const ft_ngrams *ngrams);
/* Token `at` of the text; of the prediction. */
int32_t ft_ngrams_token(const ft_ngrams *ngrams, uint32_t at);
int32_t ft_ngrams_predicted(const ft_ngrams *ngrams, uint32_t at);
/* The text, until the next append. */
const int32_t *ft_ngrams_text(const ft_ngrams *ngrams);

/* What followed where last[n] stood before, last[0] being the last token: different tokens, those
 * behind the longest matches first, of equal ones the latest place. last[] may go beyond the text's
 * end: a text with a draft behind it. Returns how many. */
uint32_t ft_ngrams_find(const ft_ngrams *ngrams, const int32_t *last, uint32_t n,
                        ft_ngrams_match found[FT_NGRAMS_MOST]);

#endif
