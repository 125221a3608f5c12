/* SPDX-License-Identifier: Apache-2.0
 *
 * What a constraint forces next, as a token (forced.h). Several tokens may spell forced bytes, and
 * the target decides which: what it took before these bytes the last time is the best guess, then
 * the tokenizer's way. How often such guesses came is counted.
 */
#ifndef FT_SPEC_SPELLING_H
#define FT_SPEC_SPELLING_H

#include <stdatomic.h>

#include "base/buf.h"
#include "model/vocab.h"
#include "spec/penalties.h"
#include "spec/sampling.h"

/* What came where bytes were forced, of several texts. All-zero: nothing was seen. Any thread. */
#define FT_SPELLINGS 4096
typedef struct ft_spellings {
    atomic_uint_fast64_t slot[FT_SPELLINGS];
} ft_spellings;

typedef enum ft_spelling_kind {
    FT_SPELLING_NONE,  /* nothing is forced */
    FT_SPELLING_INNER, /* the tokenizer's, within the forced bytes... */
    FT_SPELLING_LAST,  /* ...or which they end with: a longer one may go beyond them */
    FT_SPELLING_SEEN,  /* came the last time */
    FT_SPELLING_AGAIN, /* the last two times */
    FT_SPELLING_ONLY,  /* the constraint leaves no other */
    FT_SPELLING_KINDS
} ft_spelling_kind;

typedef struct ft_spelling {
    ft_spelling_kind kind;
    int32_t token;
    uint64_t bytes; /* a hash of what is forced; 0: nothing is */
} ft_spelling;

typedef struct ft_speller {
    const ft_vocab *vocab;
    const ft_sampling *sampling; /* with a matcher */
    ft_spellings *seen;          /* NULL: nothing is known of other texts, nor kept */
    uint64_t tenant;             /* what others see of `seen` is not theirs */
    ft_buf bytes;
    ft_tokens tokens;
    struct {
        float times, held;
    } rate[FT_SPELLING_KINDS];
} ft_speller;

/* Frees what it holds; the table of other texts stays. */
void ft_speller_deinit(ft_speller *speller);
/* What may follow the past, if the answer has begun. Moves the matcher. */
ft_spelling ft_speller_next(ft_speller *speller, const ft_past *past);
/* The chance that it comes; 0 for FT_SPELLING_NONE. */
float ft_speller_chance(const ft_speller *speller, ft_spelling s);
/* `token` came where s was said. */
void ft_speller_came(ft_speller *speller, ft_spelling s, int32_t token);

#endif
