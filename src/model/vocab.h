/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's vocabulary, tokenizer and chat template, through libllama (vocabulary only). Immutable
 * once loaded; any thread may use it.
 */
#ifndef FT_MODEL_VOCAB_H
#define FT_MODEL_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/chat.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ft_vocab ft_vocab;
struct ft_model; /* model.h */

/* Growable token list; owned by its holder. All-zero is empty. */
typedef struct ft_tokens {
    int32_t *id; /* [n] */
    size_t n, cap;
} ft_tokens;
void ft_tokens_deinit(ft_tokens *tokens);
FT_WARN_UNUSED ft_status ft_tokens_append(ft_tokens *tokens, const int32_t *id, size_t n);

/* The file is checked before libllama sees it. */
FT_WARN_UNUSED ft_status ft_vocab_load(const char *path, ft_error *err, ft_vocab **out);
void ft_vocab_destroy(ft_vocab *vocab);

/* True if the file carries a chat template. */
bool ft_vocab_has_chat(const ft_vocab *vocab);

/* It, as long as the vocabulary; NULL: there is none. */
const char *ft_vocab_chat_template(const ft_vocab *vocab);

/* Number of tokens. */
int32_t ft_vocab_size(const ft_vocab *vocab);
/* Beginning-of-sequence token, or -1. */
int32_t ft_vocab_bos(const ft_vocab *vocab);
/* End-of-sequence token, or -1. */
int32_t ft_vocab_eos(const ft_vocab *vocab);
/* Bytes of the longest token: a text of more than n times as many has more than n tokens. */
size_t ft_vocab_longest_bytes(const ft_vocab *vocab);
bool ft_vocab_is_eog(const ft_vocab *vocab, int32_t token);
/* Equal for files with the same tokens (bytes and kinds), the same order and the same end-of-text
 * tokens. */
uint64_t ft_vocab_fingerprint(const ft_vocab *vocab);
/* Whether a model's file writes its vocabulary in the same bytes as the file that this was made of,
 * as most drafts' files do. If so, the fingerprints are equal, and the model's vocabulary need not
 * be made, which takes a tenth of a second. Neither is NULL; any thread. */
bool ft_vocab_is_of(const ft_vocab *vocab, const struct ft_model *model);

/* When to give up a long text. Looked at between its pieces, some milliseconds apart. */
typedef struct ft_tokenize_limits {
    bool (*cancelled)(void *ctx); /* true: FT_CANCELLED */
    void *ctx;
    size_t max_tok; /* the tokens are so many, and text is left: FT_TOO_LARGE */
} ft_tokenize_limits;

/* Appends the tokens of a prompt: BOS, where the model wants it, and those of the text. Invalid
 * UTF-8 counts as U+FFFD. Text that spells a control token stays text. limits: NULL: none. A text
 * of a SentencePiece vocabulary, or of one with tokens that hold the end of a word and the next
 * space, is one piece. */
FT_WARN_UNUSED ft_status ft_vocab_tokenize(const ft_vocab *vocab, const char *text, size_t n,
                                           const ft_tokenize_limits *limits, ft_error *err,
                                           ft_tokens *out);

/* As ft_vocab_tokenize, without BOS. */
FT_WARN_UNUSED ft_status ft_vocab_tokenize_text(const ft_vocab *vocab, const char *text, size_t n,
                                                const ft_tokenize_limits *limits, ft_error *err,
                                                ft_tokens *out);

/* Appends the bytes of a token; they can be a part of a UTF-8 character. special: true: special
 * tokens are spelled out; false: they have no bytes. Out-of-range ids append nothing. */
FT_WARN_UNUSED ft_status ft_vocab_piece(const ft_vocab *vocab, int32_t token, bool special,
                                        ft_buf *out);

/* Special tokens: control and unknown ones, which text can spell but must not become. */
size_t ft_vocab_n_special(const ft_vocab *vocab);
/* The text of special token i, as long as the vocabulary, and its id. */
const char *ft_vocab_special(const ft_vocab *vocab, size_t i, int32_t *token);
/* Whether the text begins with a special token, or is the beginning of one. */
bool ft_vocab_spells_special(const ft_vocab *vocab, const char *text, size_t n);

/* A part of a text. */
typedef struct ft_stretch {
    size_t begin, end;
} ft_stretch;

/* A rendered conversation. */
typedef struct ft_rendered {
    const char *text;
    size_t n;
    const ft_stretch *foreign; /* [n_foreign] what the template did not write; in order, apart */
    size_t n_foreign;
} ft_rendered;

/* Appends the tokens of a rendered conversation; BOS comes first if the model wants it and the text
 * does not begin with it. Special tokens count where no byte of them is foreign. limits: as
 * ft_vocab_tokenize. */
FT_WARN_UNUSED ft_status ft_vocab_tokenize_rendered(const ft_vocab *vocab,
                                                    const ft_rendered *rendered,
                                                    const ft_tokenize_limits *limits, ft_error *err,
                                                    ft_tokens *out);

/* Renders the conversation with the model's own template, ready for the assistant's answer, as
 * tokens; BOS comes first if the model wants it. Special tokens spelled in message text stay text;
 * otherwise the tokens are those of the whole rendered text. Role "developer" means "system".
 * limits: as ft_vocab_tokenize.
 *
 * libllama renders. It recognizes the template by marks in it and does not run its program, so
 * additions that a template makes by itself are left out. For example, SmolLM2's template puts a
 * default system message ("You are a helpful AI assistant named SmolLM, ...") before a conversation
 * without one. A caller who wants it passes it as a message.
 *
 * FT_INVALID: no message, or a bad role. FT_UNSUPPORTED: the file has no template, libllama does
 * not know it, or it changes message text in other ways than trimming. */
FT_WARN_UNUSED ft_status ft_vocab_chat(const ft_vocab *vocab, const ft_chat_message *messages,
                                       size_t n, const ft_tokenize_limits *limits, ft_error *err,
                                       ft_tokens *out);

#endif
