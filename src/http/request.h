/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the JSON body of a completion request into a checked ft_http_request. Internal to the room;
 * a fuzzer calls it, too.
 */
#ifndef FT_HTTP_REQUEST_H
#define FT_HTTP_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/body.h"
#include "http/fail.h"
#include "http/openai.h"

typedef struct ft_http_dialect ft_http_dialect; /* http/dialect.h */

#define FT_HTTP_TEXTS_MAX      16 /* of a request: n for each of its prompts */
#define FT_HTTP_STOPS_MAX      16
#define FT_HTTP_STOP_BYTES_MAX 4096 /* so much text may wait until it is known not to be one */

typedef struct ft_http_prompt {
    const char *text;      /* NULL: tokens */
    const int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
} ft_http_prompt;

/* Must not be moved or copied: the request points into it. */
typedef struct ft_http_parsed {
    /* Borrows from the fields below. Prompt and seed are those of the first text. */
    ft_http_request request;
    uint32_t n_texts; /* n_prompts * per_prompt */
    uint32_t per_prompt;
    ft_http_prompt prompts[FT_HTTP_TEXTS_MAX]; /* a chat has one that is empty */
    uint32_t n_prompts;
    const char *model; /* the name it asks for; else the first; borrowed */
    bool stream;
    bool include_usage;
    bool include_draft; /* extension: events say where their text comes from */
    ft_penalties penalties;
    ft_buf constraint;              /* its text */
    const ft_http_dialect *dialect; /* NULL: the request is none of another API */
    json_t *asked;                  /* such a request as it came; else NULL */
    json_t *root;
    ft_chat_message *messages; /* [n_messages] */
    ft_chat_call *calls;       /* of all messages */
    ft_chat_tool *tools;
    char *template_args; /* as text */
    int32_t *tokens;
    const char *stops[FT_HTTP_STOPS_MAX];
} ft_http_parsed;

/* Parses body[0..n) as a request for /v1/chat/completions (chat) or /v1/completions. On failure
 * *fail says what is wrong, and *out is empty. FT_INVALID: 400, also for a text of more bytes than
 * the model's context can hold, or strings that have FT_HTTP_OTHER_BYTES more than twice that; 404
 * if it names another model; 413 if it has too many values. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_parse(const char *body, size_t n, bool chat,
                                       const ft_http_model *model, ft_http_fail *fail,
                                       ft_http_parsed *out);
/* The same for a body that was parsed already. Takes root, also on failure. */
FT_WARN_UNUSED ft_status ft_http_parse_root(json_t *take_root, bool chat,
                                            const ft_http_model *model, ft_http_fail *fail,
                                            ft_http_parsed *out);
/* The request for text i < n_texts: its prompt, and the seed plus i. */
ft_http_request ft_http_parsed_text(const ft_http_parsed *parsed, uint32_t i);
/* The model's own copy of this name; NULL: it is not one of its names. */
const char *ft_http_model_find(const ft_http_model *model, const char *name);
void ft_http_parsed_deinit(ft_http_parsed *parsed);

#endif
