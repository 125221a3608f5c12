// SPDX-License-Identifier: Apache-2.0
// Checks what libllama assumes about a tokenizer. libllama asserts that token texts differ, and its
// SentencePiece tokenizer throws through its C interface if a byte has no token. Stateless; any
// thread.
#include "model/tokenizer_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* The longest token text in common vocabularies has some hundred bytes; libllama's time and
     * memory for a text that is no byte-level BPE grow with its square. */
    MAX_TOKEN_BYTES = 1024
};

typedef struct token_ref {
    const char
        *text; /* "" stands for libllama's own name for an empty token, which has its index */
    size_t index;
} token_ref;

static int compare_refs(const void *a, const void *b)
{
    return strcmp(((const token_ref *)a)->text, ((const token_ref *)b)->text);
}

static bool has_token(const token_ref *sorted, size_t n, const char *text)
{
    token_ref key = {.text = text};
    return bsearch(&key, sorted, n, sizeof *sorted, compare_refs) != NULL;
}

/* SentencePiece spells a byte that no token covers as <0xHH>, or as the byte itself. */
static ft_status check_bytes(const ft_gguf *gguf, const token_ref *sorted, size_t n, ft_error *err)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char hex[8], self[2] = {(char)byte, 0};
        snprintf(hex, sizeof hex, "<0x%02X>", byte);
        if (!has_token(sorted, n, hex) && !(byte && has_token(sorted, n, self)))
            return ft_error_set(err, FT_UNSUPPORTED,
                                "%s: its vocabulary has no token for the byte 0x%02x", gguf->path,
                                byte);
    }
    return FT_OK;
}

static ft_status check_tokens(const ft_gguf *gguf, bool need_bytes, ft_error *err, size_t *n_tokens)
{
    ft_gguf_arr array;
    ft_status st =
        ft_gguf_array(gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, true, err, &array);
    if (st != FT_OK)
        return st;
    size_t n = *n_tokens = array.n;
    if (n == 0 || n > INT32_MAX)
        return ft_error_set(err, FT_CORRUPT, "%s: its vocabulary has %zu tokens", gguf->path, n);
    token_ref *refs = malloc(n * sizeof *refs);
    if (!refs)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory for its vocabulary", gguf->path);
    for (size_t i = 0; i < n && st == FT_OK; i++) {
        refs[i] = (token_ref){gguf_get_arr_str(gguf->ctx, array.id, i), i};
        if (strlen(refs[i].text) > MAX_TOKEN_BYTES)
            st = ft_error_set(err, FT_UNSUPPORTED, "%s: token %zu has %zu bytes, more than %d",
                              gguf->path, i, strlen(refs[i].text), MAX_TOKEN_BYTES);
        else if (strncmp(refs[i].text, "[EMPTY_", 7) == 0)
            st = ft_error_set(err, FT_UNSUPPORTED,
                              "%s: token %zu is spelled '%.40s', as libllama "
                              "names empty tokens",
                              gguf->path, i, refs[i].text);
    }
    if (st == FT_OK)
        qsort(refs, n, sizeof *refs, compare_refs);
    for (size_t i = 1; i < n && st == FT_OK; i++)
        if (refs[i].text[0] && strcmp(refs[i - 1].text, refs[i].text) == 0)
            st = ft_error_set(err, FT_CORRUPT, "%s: tokens %zu and %zu have the same text",
                              gguf->path, refs[i - 1].index, refs[i].index);
    if (st == FT_OK && need_bytes)
        st = check_bytes(gguf, refs, n, err);
    free(refs);
    return st;
}

/* An optional array with one value for each token. */
static ft_status check_per_token(const ft_gguf *gguf, const char *key, enum gguf_type type,
                                 size_t n_tokens, ft_error *err)
{
    ft_gguf_arr array;
    ft_status st = ft_gguf_array(gguf, key, type, false, err, &array);
    if (st == FT_OK && array.id >= 0 && array.n != n_tokens)
        return ft_error_set(err, FT_CORRUPT, "%s: GGUF key '%s' has %zu values for %zu tokens",
                            gguf->path, key, array.n, n_tokens);
    return st;
}

ft_status ft_tokenizer_check(const ft_gguf *gguf, ft_error *err)
{
    const char *model = "", *template = NULL;
    size_t n_tokens = 0;
    ft_gguf_arr merges;
    ft_status st = ft_gguf_str(gguf, "tokenizer.ggml.model", true, err, &model);
    if (st != FT_OK)
        return st;
    bool bpe = strcmp(model, "gpt2") == 0;
    if (!bpe && strcmp(model, "llama") != 0)
        return ft_error_set(err, FT_UNSUPPORTED,
                            "%s: tokenizer '%.40s' is not supported: only gpt2 and llama",
                            gguf->path, model);
    st = check_tokens(gguf, !bpe, err, &n_tokens);
    if (st == FT_OK)
        st = check_per_token(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, n_tokens, err);
    if (st == FT_OK)
        st = check_per_token(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, n_tokens, err);
    if (st == FT_OK)
        st = ft_gguf_array(gguf, "tokenizer.ggml.merges", GGUF_TYPE_STRING, bpe, err, &merges);
    if (st == FT_OK)
        st = ft_gguf_str(gguf, "tokenizer.chat_template", false, err, &template);
    return st;
}
