/* SPDX-License-Identifier: Apache-2.0
 * The inside of a vocabulary, shared by vocab.c and chat.c. */
#ifndef FT_MODEL_VOCAB_IMPL_H
#define FT_MODEL_VOCAB_IMPL_H

#include "llama.h"
#include "model/vocab.h"

/* A token that text can spell but must not become: a control or unknown token. */
typedef struct ft_special {
    const char *text; /* borrowed from libllama */
    size_t n;
    int32_t token;
} ft_special;

struct ft_vocab {
    struct llama_model *model; /* vocabulary only */
    const struct llama_vocab *vocab;
    const char *chat_template; /* borrowed from model; NULL if it has none */
    int32_t n_tokens, bos;
    bool add_bos;
    uint64_t fingerprint;
    ft_special *special; /* [n_special], longest text first */
    size_t n_special;
    bool special_first[256]; /* first bytes of special tokens */
};

/* Returns the longest special token that text[0..n) begins with; NULL: none. */
const ft_special *ft_vocab_special_at(const ft_vocab *vocab, const char *text, size_t n);

#endif
