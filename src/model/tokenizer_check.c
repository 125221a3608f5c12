// SPDX-License-Identifier: Apache-2.0
// Checks what libllama assumes about a tokenizer. libllama asserts that token texts differ, and its
// SentencePiece tokenizer throws through its C interface if a byte has no token. Stateless; any
// thread.
#include "model/tokenizer_check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* The longest token text in common vocabularies has some hundred bytes; libllama's time and
     * memory for a text that is no byte-level BPE grow with its square. */
    MAX_TOKEN_BYTES = 1024,
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS
};

typedef struct token_ref {
    const char
        *text;      /* "" stands for libllama's own name for an empty token, which has its index */
    uint64_t first; /* its first bytes as a number: most texts differ in these */
    size_t index;
} token_ref;

static token_ref ref_of(const char *text, size_t index)
{
    token_ref ref = {.text = text, .index = index};
    for (size_t i = 0, ended = 0; i < sizeof ref.first; i++) {
        ended = ended || !text[i];
        ref.first = ref.first << 8 | (ended ? 0 : (uint8_t)text[i]);
    }
    return ref;
}

/* In the order of strcmp. */
static int compare_refs(const void *a, const void *b)
{
    const token_ref *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : strcmp(x->text, y->text);
}

/* Sorts by the first bytes, from the last digit to the first: most texts are in place then. */
static void sort_by_first(token_ref *refs, token_ref *spare, size_t n)
{
    token_ref *from = refs, *to = spare;
    _Static_assert(64 / DIGIT_BITS % 2 == 0, "an even number of moves ends where it began");
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        size_t place[DIGITS + 1] = {0};
        for (size_t i = 0; i < n; i++)
            place[(from[i].first >> shift) % DIGITS + 1]++;
        for (size_t digit = 0; digit < DIGITS; digit++)
            place[digit + 1] += place[digit];
        for (size_t i = 0; i < n; i++)
            to[place[(from[i].first >> shift) % DIGITS]++] = from[i];
        token_ref *moved = to;
        to = from;
        from = moved;
    }
}

/* In the order of compare_refs. With qsort alone a vocabulary takes 2.5 to 3 times as long. */
static void sort_refs(token_ref *refs, token_ref *spare, size_t n)
{
    sort_by_first(refs, spare, n);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && refs[to].first == refs[from].first; to++)
            ;
        if (to - from > 1)
            qsort(refs + from, to - from, sizeof *refs, compare_refs);
    }
}

static bool has_token(const token_ref *sorted, size_t n, const char *text)
{
    const token_ref key = ref_of(text, 0);
    return bsearch(&key, sorted, n, sizeof *sorted, compare_refs) != NULL;
}

/* SentencePiece spells a byte that no token covers as <0xHH>, or as the byte itself. */
static void check_bytes(ft_gguf *gguf, const token_ref *sorted, size_t n)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char hex[8], self[2] = {(char)byte, 0};
        snprintf(hex, sizeof hex, "<0x%02X>", byte);
        if (!has_token(sorted, n, hex) && !(byte && has_token(sorted, n, self)))
            ft_gguf_refuse(gguf, FT_UNSUPPORTED, "its vocabulary has no token for the byte 0x%02x",
                           byte);
    }
}

/* refs: [2 n], the first half filled, and then sorted. */
static void check_texts(ft_gguf *gguf, token_ref *refs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(refs[i].text);
        if (bytes > MAX_TOKEN_BYTES)
            ft_gguf_refuse(gguf, FT_UNSUPPORTED, "token %zu has %zu bytes, more than %d", i, bytes,
                           MAX_TOKEN_BYTES);
        if (strncmp(refs[i].text, "[EMPTY_", 7) == 0)
            ft_gguf_refuse(gguf, FT_UNSUPPORTED,
                           "token %zu is spelled '%.40s', as libllama names empty tokens", i,
                           refs[i].text);
    }
    if (gguf->st == FT_OK)
        sort_refs(refs, refs + n, n);
    for (size_t i = 1; i < n && gguf->st == FT_OK; i++)
        if (refs[i].text[0] && strcmp(refs[i - 1].text, refs[i].text) == 0)
            ft_gguf_refuse(gguf, FT_CORRUPT, "tokens %zu and %zu have the same text",
                           refs[i - 1].index, refs[i].index);
}

/* Returns the number of tokens. */
static size_t check_tokens(ft_gguf *gguf, bool need_bytes)
{
    ft_gguf_arr array = ft_gguf_array(gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, true);
    size_t n = array.n;
    if (n == 0 || n > INT32_MAX) {
        ft_gguf_refuse(gguf, FT_CORRUPT, "its vocabulary has %zu tokens", n);
        return 0;
    }
    token_ref *refs = calloc(n, 2 * sizeof *refs);
    if (!refs) {
        ft_gguf_refuse(gguf, FT_NOMEM, "out of memory for its vocabulary");
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        refs[i] = ref_of(gguf_get_arr_str(gguf->ctx, array.id, i), i);
    check_texts(gguf, refs, n);
    if (need_bytes && gguf->st == FT_OK)
        check_bytes(gguf, refs, n);
    free(refs);
    return n;
}

/* An optional array with one value for each token. */
static void check_per_token(ft_gguf *gguf, const char *key, enum gguf_type type, size_t n_tokens)
{
    ft_gguf_arr array = ft_gguf_array(gguf, key, type, false);
    if (array.id >= 0 && array.n != n_tokens)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' has %zu values for %zu tokens", key,
                       array.n, n_tokens);
}

ft_status ft_tokenizer_check(ft_gguf *gguf)
{
    const char *model = "", *template = NULL;
    ft_gguf_str(gguf, "tokenizer.ggml.model", true, &model);
    bool bpe = strcmp(model, "gpt2") == 0;
    if (!bpe && strcmp(model, "llama") != 0)
        ft_gguf_refuse(gguf, FT_UNSUPPORTED,
                       "tokenizer '%.40s' is not supported: only gpt2 and llama", model);
    size_t n_tokens = check_tokens(gguf, !bpe);
    check_per_token(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, n_tokens);
    check_per_token(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, n_tokens);
    (void)ft_gguf_array(gguf, "tokenizer.ggml.merges", GGUF_TYPE_STRING, bpe);
    ft_gguf_str(gguf, "tokenizer.chat_template", false, &template);
    return gguf->st;
}
