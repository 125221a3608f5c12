/* SPDX-License-Identifier: Apache-2.0
 *
 * Constrained decoding: which tokens may follow, so that a text fits a constraint. XGrammar does
 * the work (xgrammar.cc); this header is all that the rest of the project sees of it. No exception
 * gets past it. Without XGrammar (CMake's FT_XGRAMMAR) nothing can be made, and
 * ft_constrain_available says so.
 */
#ifndef FT_CONSTRAIN_CONSTRAINT_H
#define FT_CONSTRAIN_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/constraint.h"
#include "base/status.h"

/* Objects in objects, or brackets in brackets. Parsers recurse so deep. */
#define FT_CONSTRAINT_MAX_DEPTH 64
/* What a grammar's states take, before each of them looks at all tokens. Compiling takes up to 3 s
 * then on one slow core; with twice as much, twice as long. A usual schema takes 3 to 30 KB. */
#define FT_CONSTRAINT_MAX_GRAMMAR_BYTES (256u * 1024)
/* Calls of tools may take so much for each tool, but not for more tools than this: 40 usual ones
 * take 1.2 MB and compile in 0.3 s, 100 in 1.2 s. With half, an agent's tools may be too many. */
#define FT_CONSTRAINT_MAX_CALL_GRAMMARS 16

/* Whether this build has XGrammar. */
bool ft_constrain_available(void);

/* ---- compiling ---- */

/* The tokens of a model. Immutable; any thread. The first compilation makes what XGrammar needs of
 * them, and takes some 30 ms longer. */
typedef struct ft_constrain_vocab ft_constrain_vocab;
/* A compiled constraint. Immutable; any thread. Reference-counted. */
typedef struct ft_grammar ft_grammar;

typedef struct ft_constrain_tokens {
    uint32_t n;
    /* Appends a token's bytes; none: the token is never allowed. */
    ft_status (*piece)(const void *ctx, int32_t token, ft_buf *out);
    /* Whether the token ends a text: allowed where the text may end. */
    bool (*ends)(const void *ctx, int32_t token);
    /* Tokens without bytes that a call has (constrain/calls.h), where it spells them: the text and
     * the id of number i. */
    const char *(*mark)(const void *ctx, size_t i, int32_t *token);
    size_t n_marks;
    const void *ctx;
} ft_constrain_tokens;

/* Copies the tokens. FT_UNSUPPORTED: this build has no XGrammar; FT_INVALID: no token ends a text;
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_constrain_vocab_create(const ft_constrain_tokens *tokens, ft_error *err,
                                                   ft_constrain_vocab **out);
/* NULL is legal. Grammars of it may outlive it. */
void ft_constrain_vocab_destroy(ft_constrain_vocab *vocab);

/* What can be said of a constraint without compiling it: size, depth, and for a schema that it is
 * JSON and has no keyword that is not supported (docs/HTTP.md lists the others). Pure. FT_INVALID
 * says what is wrong, or names the keywords; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_constraint_check(const ft_constraint *c, ft_error *err);

/* Which schemas of a call are written as {"type":"object"}. */
typedef enum ft_loosen {
    FT_LOOSEN_NONE,
    FT_LOOSEN_REFUSED, /* those that ft_constraint_check refuses; all, if the data are too large */
    FT_LOOSEN_ALL,
    FT_LOOSENS
} ft_loosen;

/* Appends the data of a call (FT_CONSTRAINT_CALL) without what its schemas say to people alone,
 * such as descriptions, and loosened so. FT_INVALID: they have another form; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_constraint_loosen(const ft_constraint *c, ft_loosen which, ft_buf *out);

/* Whether a compilation is to stop now; asked each millisecond, on its thread. */
typedef struct ft_compile_stop {
    bool (*now)(void *ctx);
    void *ctx;
} ft_compile_stop;

/* Checks and compiles. May take seconds, and needs a deep stack (FT_COMPILE_STACK_BYTES). stop:
 * NULL: it goes on to its end. Errors as ft_constraint_check; FT_ABORTED: it was stopped. */
FT_WARN_UNUSED ft_status ft_grammar_compile(const ft_constrain_vocab *vocab, const ft_constraint *c,
                                            const ft_compile_stop *stop, ft_error *err,
                                            ft_grammar **out);
#define FT_COMPILE_STACK_BYTES ((size_t)64 << 20)
/* One more reference. */
ft_grammar *ft_grammar_ref(ft_grammar *grammar);
/* One fewer. NULL is legal. */
void ft_grammar_unref(ft_grammar *grammar);
/* Whether there is more than one reference: exact for who has the only one. */
bool ft_grammar_is_shared(const ft_grammar *grammar);
/* The memory that it takes, about. */
size_t ft_grammar_bytes(const ft_grammar *grammar);

/* ---- matching ---- */

/* Stands behind tokens of a text, all of which the grammar allows. One thread at a time. A matcher
 * without a grammar follows no tokens and allows none. */
typedef struct ft_matcher ft_matcher;

/* Stands at the beginning. Holds a reference. grammar: NULL: ft_matcher_begin sets it. Errors as
 * ft_matcher_status. */
FT_WARN_UNUSED ft_status ft_matcher_create(ft_grammar *grammar, ft_error *err, ft_matcher **out);
/* Gives a grammar to a matcher that has none. On an error it still has none. */
FT_WARN_UNUSED ft_status ft_matcher_begin(ft_matcher *matcher, ft_grammar *grammar, ft_error *err);
/* NULL is legal. */
void ft_matcher_destroy(ft_matcher *matcher);

/* Moves behind the tokens a [n_a], b [n_b], from wherever it stands. What one token may take does
 * not depend on how many come at once. False: the grammar does not allow one of them, and the
 * matcher stands before that one. */
bool ft_matcher_follow(ft_matcher *matcher, const int32_t *a, uint32_t n_a, const int32_t *b,
                       uint32_t n_b);
/* Whether the token may follow. */
bool ft_matcher_allows(ft_matcher *matcher, int32_t token);
/* All tokens that may follow: bit t % 32 of word t / 32. NULL: none may, as
 * nothing that the vocabulary has fits. Valid until the next call. */
const uint32_t *ft_matcher_mask(ft_matcher *matcher);
/* The same for drafts, where it takes little work. False: it takes more, or the matcher failed;
 * then nothing is known. The matcher stands where it stood, and is used on. */
bool ft_matcher_guess(ft_matcher *matcher, const uint32_t **mask);
/* The one token that may follow; -1: several may, or none, or ft_matcher_guess is false. */
int32_t ft_matcher_only(ft_matcher *matcher);
/* Appends the bytes with which every text goes on that fits; nothing: there are several ways, or
 * the text may end here. Tokens may spell them in several ways, and go beyond them. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_matcher_forced(ft_matcher *matcher, ft_buf *out);
/* What it is made of; borrowed; NULL: it has none yet. */
ft_grammar *ft_matcher_grammar(const ft_matcher *matcher);
/* A token that ends a text: what is left to draw where no token may follow. Wants a grammar. */
int32_t ft_matcher_end(const ft_matcher *matcher);
/* Not FT_OK: a call failed, and what it and later ones said is not to be used. FT_NOMEM;
 * FT_INVALID: to look at all that the text may mean takes too much work, on every machine. */
ft_status ft_matcher_status(const ft_matcher *matcher, ft_error *err);

#endif
