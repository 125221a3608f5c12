/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to token ids and back, for clients that count: /v1/tokenize and /v1/detokenize, as llama.cpp
 * and vLLM have them; and /props, which says what llama.cpp's clients look for. Internal to the
 * room.
 */
#ifndef FT_HTTP_TOKENS_H
#define FT_HTTP_TOKENS_H

#include <jansson.h>

#include "http/openai.h"
#include "http/request.h"

/* What /v1/tokenize is asked for: a text or a chat. */
typedef struct ft_http_tokenize {
    ft_http_parsed parsed; /* of a chat */
    json_t *root;          /* of a text */
    ft_http_request request;
    bool bos; /* with the beginning-of-sequence token, where the model has one */
} ft_http_tokenize;

/* FT_INVALID: 400, 404, 413, and *out is empty. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_tokenize_parse(const char *body, size_t n,
                                                const ft_http_model *model, ft_http_fail *fail,
                                                ft_http_tokenize *out);
void ft_http_tokenize_deinit(ft_http_tokenize *t);

/* Answer such a request: an object in *out. FT_INVALID: *fail says why. */
FT_WARN_UNUSED ft_status ft_http_tokenize_answer(const ft_http_backend *backend,
                                                 const ft_http_model *model, const char *body,
                                                 size_t n, ft_http_fail *fail, json_t **out);
FT_WARN_UNUSED ft_status ft_http_detokenize_answer(const ft_http_backend *backend,
                                                   const ft_http_model *model, const char *body,
                                                   size_t n, ft_http_fail *fail, json_t **out);
/* NULL: out of memory. */
json_t *ft_http_props(const ft_http_model *model);

#endif
