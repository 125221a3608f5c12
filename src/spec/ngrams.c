// SPDX-License-Identifier: Apache-2.0
// Hash chains, as compressors of the LZ77 family have them: for each length of n-grams a table of
// the last place behind an n-gram of this hash, and for each place the place before it. A chain's
// head is its latest place, so removing the latest places restores the table.
//
// Invariants:
//   1. `token` is the prediction, then the text; no n-gram and no match crosses the border;
//   2. a place p is in the chain of the n-gram that ends before p, and token[p] is what follows;
//   3. chains go from late places to early ones.
// Does not decide how likely a match is to go on (lookup.c).
#include "spec/ngrams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define FIRST_CAP 1024
#define NONE      UINT32_MAX
#define HEADS     2 /* heads a token: chains of different n-grams rarely meet */

enum { LONG, SHORT, LENGTHS };
static const uint32_t n_of[LENGTHS] = {FT_NGRAMS_LONG, FT_NGRAMS_SHORT};

struct ft_ngrams {
    int32_t *token;            /* [cap] */
    uint32_t *before[LENGTHS]; /* [cap] */
    uint32_t *head[LENGTHS];   /* [HEADS * cap] */
    uint32_t cap;              /* a power of two */
    uint32_t border;           /* tokens of the prediction */
    uint32_t n;                /* tokens in all */
};

/* Of the n tokens before `end`, which are given last one first or, with step 1, first one first. */
static uint32_t hash(const int32_t *last, uint32_t n, int step)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++, last += step)
        h = (h ^ (uint32_t)*last) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

static uint32_t slot(const ft_ngrams *x, uint32_t h)
{
    return h & (HEADS * x->cap - 1);
}

/* Where the part of `token` begins that place p is in. */
static uint32_t begin_of(const ft_ngrams *x, uint32_t p)
{
    return p < x->border ? 0 : x->border;
}

static bool has_ngram(const ft_ngrams *x, uint32_t p, uint32_t n)
{
    return p - begin_of(x, p) >= n;
}

/* The slot of the n-gram before place p. */
static uint32_t slot_before(const ft_ngrams *x, uint32_t p, uint32_t n)
{
    return slot(x, hash(x->token + p - 1, n, -1));
}

static void link_place(ft_ngrams *x, uint32_t p)
{
    for (int k = 0; k < LENGTHS; k++) {
        if (!has_ngram(x, p, n_of[k]))
            continue;
        uint32_t *head = &x->head[k][slot_before(x, p, n_of[k])];
        x->before[k][p] = *head;
        *head = p;
    }
}

static void unlink_place(ft_ngrams *x, uint32_t p)
{
    for (int k = 0; k < LENGTHS; k++)
        if (has_ngram(x, p, n_of[k]))
            x->head[k][slot_before(x, p, n_of[k])] = x->before[k][p];
}

static void free_parts(ft_ngrams *x)
{
    free(x->token);
    for (int k = 0; k < LENGTHS; k++) {
        free(x->before[k]);
        free(x->head[k]);
    }
}

/* Makes room for n tokens in all. On failure nothing has changed. */
static ft_status reserve(ft_ngrams *x, uint64_t n, ft_error *err)
{
    uint64_t cap = x->cap ? x->cap : FIRST_CAP;
    if (n <= x->cap)
        return FT_OK;
    while (cap < n)
        cap *= 2;
    if (cap > INT32_MAX / HEADS)
        return ft_error_set(err, FT_TOO_LARGE, "lookup: a text of %llu tokens",
                            (unsigned long long)n);
    ft_ngrams grown = *x;
    bool failed = !(grown.token = malloc(cap * sizeof *grown.token));
    for (int k = 0; k < LENGTHS; k++) {
        failed |= !(grown.before[k] = malloc(cap * sizeof *grown.before[k]));
        failed |= !(grown.head[k] = malloc(HEADS * cap * sizeof *grown.head[k]));
    }
    if (failed) {
        free_parts(&grown);
        return ft_error_set(err, FT_NOMEM, "lookup: out of memory for %llu tokens",
                            (unsigned long long)cap);
    }
    grown.cap = (uint32_t)cap;
    if (x->n > 0)
        memcpy(grown.token, x->token, x->n * sizeof *x->token);
    for (int k = 0; k < LENGTHS; k++)
        memset(grown.head[k], 0xff, HEADS * cap * sizeof *grown.head[k]); /* NONE */
    free_parts(x);
    *x = grown;
    for (uint32_t p = 0; p < x->n; p++)
        link_place(x, p);
    return FT_OK;
}

static void add(ft_ngrams *x, const int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x->token[x->n] = tokens[i];
        link_place(x, x->n++);
    }
}

ft_status ft_ngrams_create(const int32_t *prediction, uint32_t n, ft_error *err, ft_ngrams **out)
{
    ft_ngrams *x = calloc(1, sizeof *x);
    *out = NULL;
    if (!x)
        return ft_error_set(err, FT_NOMEM, "lookup: out of memory");
    x->border = n;
    ft_status status = reserve(x, (uint64_t)n + 1, err);
    if (status != FT_OK) {
        free(x);
        return status;
    }
    add(x, prediction, n);
    *out = x;
    return FT_OK;
}

void ft_ngrams_destroy(ft_ngrams *x)
{
    if (!x)
        return;
    free_parts(x);
    free(x);
}

ft_status ft_ngrams_append(ft_ngrams *x, const int32_t *tokens, uint32_t n, ft_error *err)
{
    ft_status status = reserve(x, (uint64_t)x->n + n, err);
    if (status == FT_OK)
        add(x, tokens, n);
    return status;
}

void ft_ngrams_truncate(ft_ngrams *x, uint32_t n)
{
    assert(n <= ft_ngrams_length(x));
    while (x->n > x->border + n)
        unlink_place(x, --x->n);
}

uint32_t ft_ngrams_length(const ft_ngrams *x)
{
    return x->n - x->border;
}

int32_t ft_ngrams_token(const ft_ngrams *x, uint32_t at)
{
    assert(at < ft_ngrams_length(x));
    return x->token[x->border + at];
}

int32_t ft_ngrams_predicted(const ft_ngrams *x, uint32_t at)
{
    assert(at < x->border);
    return x->token[at];
}

const int32_t *ft_ngrams_text(const ft_ngrams *ngrams)
{
    return ngrams->token + ngrams->border;
}

/* ---- searching ---- */

/* How many of last[n] stand before place p. */
static uint32_t match_at(const ft_ngrams *x, uint32_t p, const int32_t *last, uint32_t n)
{
    const uint32_t most = ft_min_u32(n, p - begin_of(x, p));
    uint32_t length = 0;
    while (length < most && x->token[p - 1 - length] == last[length])
        length++;
    return length;
}

/* Adds a place to what was found, in order. */
static uint32_t add_found(ft_ngrams_match *found, uint32_t n, const ft_ngrams_match *match)
{
    uint32_t at = 0;
    while (at < n && found[at].token != match->token)
        at++;
    ft_ngrams_match it = *match;
    if (at < n) { /* known */
        found[at].seen++;
        if (found[at].length >= match->length)
            return n;
        it.seen = found[at].seen;
    } else if (n < FT_NGRAMS_MOST) {
        n++;
    } else if (found[--at].length >= match->length) {
        return n;
    }
    for (; at > 0 && found[at - 1].length < it.length; at--)
        found[at] = found[at - 1];
    found[at] = it;
    return n;
}

uint32_t ft_ngrams_find(const ft_ngrams *x, const int32_t *last, uint32_t n,
                        ft_ngrams_match found[FT_NGRAMS_MOST])
{
    uint32_t n_found = 0;
    n = ft_min_u32(n, FT_NGRAMS_MATCH);
    for (int k = 0; k < LENGTHS; k++) {
        if (n < n_of[k])
            continue;
        uint32_t p = x->head[k][slot(x, hash(last, n_of[k], 1))];
        for (uint32_t i = 0; p != NONE && i < FT_NGRAMS_WALK; i++, p = x->before[k][p]) {
            const ft_ngrams_match match = {.token = x->token[p],
                                           .length = match_at(x, p, last, n),
                                           .seen = 1,
                                           .predicted = p < x->border,
                                           .at = p - begin_of(x, p)};
            /* Another n-gram of this hash; one that the long n-grams have found already. */
            if (match.length < n_of[k] || (k == SHORT && match.length >= FT_NGRAMS_LONG))
                continue;
            n_found = add_found(found, n_found, &match);
        }
    }
    return n_found;
}
