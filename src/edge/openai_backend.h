/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenAI API's backend over an edge: template and tokenizer in front of ft_edge_generate, pieces
 * and counters behind it. Thread-safe.
 *
 * Without max_tokens a text goes on until it ends or the context is full, also in completions (where
 * OpenAI stops at 16). A request without seed gets a random one.
 */
#ifndef FT_EDGE_OPENAI_BACKEND_H
#define FT_EDGE_OPENAI_BACKEND_H

#include "edge/edge.h"
#include "http/openai.h"

typedef struct ft_openai ft_openai;

typedef struct ft_openai_opts {
    ft_edge *edge;         /* borrowed */
    const ft_vocab *vocab; /* borrowed */
    const char *model_id;  /* copied; NULL: the server's model name */
    bool no_speculation;   /* never draft */
} ft_openai_opts;

/* FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_openai_create(const ft_openai_opts *opts, ft_error *err,
                                          ft_openai **out);
/* No generation may be running. */
void ft_openai_destroy(ft_openai *openai);
/* What ft_http_create takes; borrows from openai. */
ft_http_backend ft_openai_backend(ft_openai *openai);

#endif
