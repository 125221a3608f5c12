/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a generation's text goes: from the edge through the HTTP API to a client. */
#ifndef FT_BASE_SINK_H
#define FT_BASE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_TOP_LOGPROBS_MAX 20 /* alternatives of a token at most, as OpenAI has it */

/* A token's log-probability and those of its likeliest alternatives. */
typedef struct ft_token_logprob {
    float logprob; /* minus infinity travels as -9999 */
    uint32_t n_top;
    struct {
        int32_t token;
        float logprob;
    } top[FT_TOP_LOGPROBS_MAX];
} ft_token_logprob;

typedef struct ft_gen_token {
    int32_t id;
    bool has_logprob;
    ft_token_logprob logprob;
} ft_gen_token;

/* Called in the generation's thread. */
typedef struct ft_gen_sink {
    void *ctx;
    /* New text (complete UTF-8, may be empty) and the tokens that came with it, borrowed during the
     * call. False: stop. */
    bool (*on_text)(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens);
    /* Called often, in prefill and while waiting: true ends the generation (FT_CANCELLED). */
    bool (*cancelled)(void *ctx);
    /* What makes the text from now on (ft_msg_opened.target); at its beginning, and again if the
     * text goes on elsewhere. NULL: not asked for. */
    void (*on_target)(void *ctx, uint64_t target);
    /* While a verdict is awaited: the text that the draft expects to follow (complete UTF-8, not
     * empty). It is *provisional*: each call replaces the one before, and what on_text brings
     * replaces it, even if that is an empty text. NULL: not asked for. */
    void (*on_provisional)(void *ctx, const char *text, size_t n);
} ft_gen_sink;

#endif
