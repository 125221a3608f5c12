/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a generation's output goes. */
#ifndef FT_EDGE_SINK_H
#define FT_EDGE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/messages.h"

typedef struct ft_gen_token {
    int32_t id;
    bool has_logprob;
    ft_token_logprob logprob;
} ft_gen_token;

/* Where a generation's output goes; called in the generating thread. Return false to stop. */
typedef struct ft_gen_sink {
    void *ctx;
    /* New text (complete UTF-8, may be empty) and the tokens that came with it. */
    bool (*on_text)(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens);
    /* Called often, in prefill and while waiting: true ends the generation (FT_CANCELLED). */
    bool (*cancelled)(void *ctx);
} ft_gen_sink;

#endif
