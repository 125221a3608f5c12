/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's chat template: from a conversation to the tokens of a prompt. The template's own
 * program runs (Jinja, by llama.cpp's `common`), with tools and with the variables that a request
 * sets. A build without `common`, or a template that `common` cannot read, falls back to libllama's
 * table of known templates (ft_vocab_chat); the log says so, and tools are refused.
 *
 * What people and tools wrote never becomes a special token (marks.h).
 */
#ifndef FT_TEMPLATE_TEMPLATE_H
#define FT_TEMPLATE_TEMPLATE_H

#include "base/buf.h"
#include "base/chat.h"
#include "model/vocab.h"

/* Immutable; any thread. */
typedef struct ft_template ft_template;

#define FT_TEMPLATE_MESSAGES_MAX 4096

/* Borrows vocab. source: a template, copied, instead of the model's own, and then a wrong one is
 * FT_INVALID; NULL: the model's own. A model without one has a template that refuses everything.
 * FT_UNSUPPORTED: a source, and this build has no `common`. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_template_create(const ft_vocab *vocab, const char *source,
                                            ft_error *err, ft_template **out);
void ft_template_destroy(ft_template *tmpl);

/* Its text, as long as the template; NULL: there is none. */
const char *ft_template_source(const ft_template *tmpl);

/* A prompt. All-zero is empty; whoever got it deinits it. */
typedef struct ft_template_prompt {
    ft_tokens tokens;
    bool thinks; /* the template itself has begun the answer, with <think> */
    /* With tools that the model may call; else its functions are NULL. Who takes it sets it to
     * zeros. */
    ft_chat_reader reader;
    ft_tokens spelled; /* special tokens that the reader must see as text */
    ft_buf call; /* the data of FT_CONSTRAINT_CALL; empty: calls cannot be constrained, or none is
                    wanted */
} ft_template_prompt;
void ft_template_prompt_deinit(ft_template_prompt *prompt);

/* Renders, ready for the assistant's answer; *out was empty. limits: as ft_vocab_tokenize.
 * FT_INVALID: the conversation is wrong, or the template refuses it; the message has its words.
 * FT_UNSUPPORTED: there is no template, or it cannot do this. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_template_apply(const ft_template *tmpl, const ft_chat *chat,
                                           const ft_tokenize_limits *limits, ft_error *err,
                                           ft_template_prompt *out);
/* The same for messages alone. */
FT_WARN_UNUSED ft_status ft_template_chat(const ft_template *tmpl, const ft_chat_message *messages,
                                          size_t n, const ft_tokenize_limits *limits, ft_error *err,
                                          ft_tokens *out);
/* The prompt of a conversation with one message, of the user, by the model's own template. Makes
 * the template each time, so it is for few prompts. */
FT_WARN_UNUSED ft_status ft_template_ask(const ft_vocab *vocab, const char *text, ft_error *err,
                                         ft_tokens *out);

#endif
