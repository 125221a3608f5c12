/* SPDX-License-Identifier: Apache-2.0
 * The inside of a vocabulary, shared by vocab.c, chat.c and rendered.c. */
#ifndef FT_MODEL_VOCAB_IMPL_H
#define FT_MODEL_VOCAB_IMPL_H

#include "llama.h"
#include "model/gguf_file.h"
#include "model/vocab.h"

/* A token that text can spell but must not become: a control or unknown token. */
typedef struct ft_special {
    const char *text; /* borrowed from libllama */
    size_t n;
    int32_t token;
    bool strips_left, strips_right; /* takes away the white space there */
} ft_special;

struct ft_vocab {
    struct llama_model *model; /* vocabulary only */
    const struct llama_vocab *vocab;
    const char *chat_template; /* borrowed from model; NULL if it has none */
    int32_t n_tokens, bos;
    bool add_bos;
    uint64_t fingerprint;
    uint64_t written; /* of the file's keys that it is made of */
    size_t longest_bytes;
    bool cut_at_spaces;  /* a cut at a space behind something else changes no token */
    ft_special *special; /* [n_special], in the order of their bytes */
    size_t n_special;
    size_t special_from[257]; /* where those with a first byte begin */
};

/* Makes the vocabulary of an open file, whose hyperparameters were checked; the caller destroys
 * *out. libllama gets the metadata that the checks saw, and reads no file. Returns gguf->st. */
FT_WARN_UNUSED ft_status ft_vocab_read(ft_gguf *gguf, ft_vocab **out);

/* Hash of the bytes in which an open file writes its vocabulary. Returns gguf->st. */
FT_WARN_UNUSED ft_status ft_vocab_written(ft_gguf *gguf, uint64_t *out);

/* Returns the longest special token that text[0..n) begins with; NULL: none. *open: the whole text
 * is the beginning of a longer one. */
const ft_special *ft_vocab_special_at(const ft_vocab *vocab, const char *text, size_t n,
                                      bool *open);

#endif
