// SPDX-License-Identifier: Apache-2.0
// spelling.h. A slot of ft_spellings has a hash of forced bytes, the token that came, and how often
// in a row: one number, so that threads need no lock. Two kinds of bytes that share a slot replace
// each other; a guess decides no text. Allocates in the tokenizer, and when its buffers grow.
#include "spec/spelling.h"

#include "base/num.h"
#include "base/secret.h"
#include "spec/constrained.h"

/* Of forced bytes so many are looked at, for one token. With half, long words are split wrongly;
 * with twice as many, the tokenizer takes twice as long, some 20 us. */
#define LOOK_BYTES 24
/* Guesses that the first estimate counts for; and how much of what was seen is kept at the next. A
 * target has its own way to spell, so few are enough. */
#define PRIOR_TIMES 2.0f
#define FADE        0.97f

/* How often they come, before anything was seen. */
static const float expected[FT_SPELLING_KINDS] = {[FT_SPELLING_INNER] = 0.9f,
                                                  [FT_SPELLING_LAST] = 0.85f,
                                                  [FT_SPELLING_SEEN] = 0.85f,
                                                  [FT_SPELLING_AGAIN] = 0.95f,
                                                  [FT_SPELLING_ONLY] = 1};

/* A slot: the hash's upper bits, then these. */
#define TOKEN_BITS 24
#define TIMES_BITS 8
#define LOW_BITS   (TOKEN_BITS + TIMES_BITS)
#define TIMES_MOST ((1u << TIMES_BITS) - 1)

void ft_speller_deinit(ft_speller *speller)
{
    ft_buf_deinit(&speller->bytes);
    ft_tokens_deinit(&speller->tokens);
}

/* Never 0. */
static uint64_t hash_of(const ft_speller *sp, size_t n)
{
    const uint64_t begin = ft_fnv64(FT_FNV64_INIT, &sp->tenant, sizeof sp->tenant);
    const uint64_t hash = ft_fnv64(begin, ft_buf_str(&sp->bytes), n);
    return hash ? hash : 1;
}

static atomic_uint_fast64_t *slot_of(ft_spellings *seen, uint64_t hash)
{
    return &seen->slot[hash % FT_SPELLINGS];
}

static bool is_of(uint64_t slot, uint64_t hash)
{
    return slot != 0 && slot >> LOW_BITS == hash >> LOW_BITS;
}

/* What came before these bytes. False: nothing did, or it may not follow. */
static bool recall(const ft_speller *sp, uint64_t hash, ft_spelling *out)
{
    if (!sp->seen)
        return false;
    const uint64_t slot = atomic_load_explicit(slot_of(sp->seen, hash), memory_order_relaxed);
    const int32_t token = (int32_t)(slot >> TIMES_BITS & ((1u << TOKEN_BITS) - 1));
    if (!is_of(slot, hash) || !ft_matcher_allows(sp->sampling->matcher, token))
        return false;
    *out =
        (ft_spelling){(slot & TIMES_MOST) > 1 ? FT_SPELLING_AGAIN : FT_SPELLING_SEEN, token, hash};
    return true;
}

/* The tokenizer's way. */
static ft_spelling spell(ft_speller *sp, size_t n, uint64_t hash)
{
    ft_spelling out = {.bytes = hash};
    sp->tokens.n = 0;
    if (ft_vocab_tokenize_text(sp->vocab, ft_buf_str(&sp->bytes), n, NULL, NULL, &sp->tokens) !=
            FT_OK ||
        sp->tokens.n == 0 || !ft_matcher_allows(sp->sampling->matcher, sp->tokens.id[0]))
        return out; /* no memory, or bytes that are no characters */
    out.token = sp->tokens.id[0];
    out.kind = sp->tokens.n == 1 && n == sp->bytes.len ? FT_SPELLING_LAST : FT_SPELLING_INNER;
    return out;
}

ft_spelling ft_speller_next(ft_speller *speller, const ft_past *past)
{
    ft_speller *sp = speller;
    ft_matcher *m = sp->sampling->matcher;
    ft_spelling out = {0};
    if (past->n_text + past->n_path < sp->sampling->answer_at ||
        !ft_constrained_follow(sp->sampling, past))
        return out;
    ft_buf_clear(&sp->bytes);
    if (ft_matcher_forced(m, &sp->bytes) != FT_OK ||
        (sp->bytes.len == 0 && !ft_matcher_allows(m, ft_matcher_end(m))))
        return out;
    const int32_t only = ft_matcher_only(m);
    if (only >= 0)
        return (ft_spelling){.kind = FT_SPELLING_ONLY, .token = only};
    if (sp->bytes.len == 0)
        return out;
    const size_t n = sp->bytes.len < LOOK_BYTES ? sp->bytes.len : LOOK_BYTES;
    const uint64_t hash = hash_of(sp, n);
    return recall(sp, hash, &out) ? out : spell(sp, n, hash);
}

float ft_speller_chance(const ft_speller *speller, ft_spelling s)
{
    if (s.kind == FT_SPELLING_NONE || s.kind == FT_SPELLING_ONLY)
        return expected[s.kind];
    return (PRIOR_TIMES * expected[s.kind] + speller->rate[s.kind].held) /
           (PRIOR_TIMES + speller->rate[s.kind].times);
}

void ft_speller_came(ft_speller *speller, ft_spelling s, int32_t token)
{
    ft_speller *sp = speller;
    sp->rate[s.kind].times = FADE * sp->rate[s.kind].times + 1;
    sp->rate[s.kind].held = FADE * sp->rate[s.kind].held + (s.token == token);
    if (s.bytes == 0 || !sp->seen || token < 0 || token >= 1 << TOKEN_BITS)
        return;
    atomic_uint_fast64_t *slot = slot_of(sp->seen, s.bytes);
    const uint64_t was = atomic_load_explicit(slot, memory_order_relaxed);
    const uint64_t same = (s.bytes >> LOW_BITS << LOW_BITS) | (uint64_t)token << TIMES_BITS;
    const uint64_t times = (was & ~(uint64_t)TIMES_MOST) == same ? was & TIMES_MOST : 0;
    atomic_store_explicit(slot, same | (times < TIMES_MOST ? times + 1 : times),
                          memory_order_relaxed);
}
