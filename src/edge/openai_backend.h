/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of the OpenAI API over an edge: applies chat template and tokenizer, calls
 * ft_edge_generate, returns pieces of text, counts. Thread-safe.
 *
 * The backend may exist before its edge, for example while the server cannot be reached. Until
 * then requests and health checks get FT_UNAVAILABLE and the reason.
 *
 * Without max_tokens a text goes on until it ends or the context is full, in completions too
 * (where OpenAI stops at 16). So it does with more max_tokens than the context has room for. A
 * request without seed gets a random one.
 */
#ifndef FT_EDGE_OPENAI_BACKEND_H
#define FT_EDGE_OPENAI_BACKEND_H

#include "edge/edge.h"
#include "http/openai.h"

typedef struct ft_openai ft_openai;

typedef struct ft_openai_opts {
    ft_edge *edge;              /* borrowed; NULL: there is none yet */
    const ft_vocab *vocab;      /* borrowed */
    const char *chat_template;  /* instead of the model's own; NULL: that */
    const char *model_id;       /* copied; NULL: the server's model name */
    const char *const *aliases; /* [n_aliases] further names; copied */
    size_t n_aliases;
    bool no_speculation; /* never draft */
} ft_openai_opts;

/* As ft_template_create. */
FT_WARN_UNUSED ft_status ft_openai_create(const ft_openai_opts *opts, ft_error *err,
                                          ft_openai **out);
/* Before there is an edge: sets the reason, one line. */
void ft_openai_set_absent(ft_openai *openai, const char *why);
/* Sets the edge, once; it must outlive openai. */
void ft_openai_set_edge(ft_openai *openai, ft_edge *edge);
/* No generation may be running. */
void ft_openai_destroy(ft_openai *openai);
/* The backend for ft_http_create; borrows from openai. */
ft_http_backend ft_openai_backend(ft_openai *openai);

#endif
