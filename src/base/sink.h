/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a generation's text goes: from the edge through the HTTP API to a client. */
#ifndef FT_BASE_SINK_H
#define FT_BASE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chat.h"

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

/* Where a token comes from. F(NAME, "name"). */
#define FT_ORIGINS(F)                                          \
    F(TARGET, "target") /* the target's own, behind a draft */ \
    F(DRAFT, "draft")   /* drafted, and accepted */            \
    F(EARLY, "early")   /* the same, of an early draft */      \
    F(RUN, "run")       /* of a run, in which the server decodes alone */

/* Why a round had no draft. */
#define FT_UNDRAFTED(F)                                                         \
    F(NOT, "")                /* it had one */                                  \
    F(ASKED, "asked")         /* the request, or the edge's flags, want none */ \
    F(NO_MODEL, "no_model")   /* there is no draft model, nor lookups */        \
    F(NOT_FOUND, "not_found") /* no model, and nothing found that pays */       \
    F(READING, "reading")     /* the draft model has not read the prompt yet */ \
    F(NO_ROOM, "no_room")     /* its KV pool is full: later, maybe */           \
    F(OVER, "over")           /* its context is full, or it has failed */       \
    F(NO_TREES, "no_trees")   /* the server asks for runs */                    \
    F(MEASURING, "measuring") /* nothing is known of the server yet */          \
    F(NOT_WORTH, "not_worth") /* by the measured times, the server alone is faster */

#define F(value, name) FT_ORIGIN_##value,
typedef enum ft_origin { FT_ORIGINS(F) FT_ORIGIN_N } ft_origin;
#undef F
#define F(value, name) FT_UNDRAFTED_##value,
typedef enum ft_undrafted { FT_UNDRAFTED(F) FT_UNDRAFTED_N } ft_undrafted;
#undef F

/* So many bytes of a text have this origin. */
typedef struct ft_span {
    uint32_t bytes;
    ft_origin origin;
} ft_span;

/* A piece of text, UTF-8 or not. */
typedef struct ft_piece {
    const char *bytes; /* [n] */
    size_t n;
} ft_piece;

/* A verdict, and the text that it brings. */
typedef struct ft_told {
    uint32_t round; /* from 1; a run's verdicts have one number */
    ft_undrafted undrafted;
    bool early;                         /* the round's tree is a part of an early draft */
    bool fallback;                      /* the fallback target in this process has verified it */
    uint32_t drafted, accepted, tokens; /* tokens: of the text that follows */
    const ft_span *spans;               /* [n_spans] of the text that follows, in its order */
    size_t n_spans;
    /* What was drafted in the place of the first token that was not accepted, each as far as the
     * draft goes on. */
    const ft_piece *rejected; /* [n_rejected] */
    size_t n_rejected;
    int64_t at_us;                       /* since the generation began */
    int64_t draft_us;                    /* of drafting before it was sent */
    int64_t wait_us;                     /* from sending it to the verdict; < 0: not known */
    int64_t rtt_us;                      /* the network's part of that; < 0: not known */
    int64_t queue_us;                    /* of the server: until its pass began, */
    int64_t verify_us;                   /* and the pass */
    uint64_t sent_bytes, received_bytes; /* of this text's messages, so far */
} ft_told;

/* Called in the generation's thread. */
typedef struct ft_gen_sink {
    void *ctx;
    /* New text (complete UTF-8, may be empty) and the tokens that came with it, borrowed during the
     * call. False: stop. */
    bool (*on_text)(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens);
    /* Called often, in prefill and while waiting: true ends the generation (FT_CANCELLED). */
    bool (*cancelled)(void *ctx);
    /* Before the text: it begins within the model's thoughts, since the prompt has opened them
     * (<think>). NULL: not asked for. */
    void (*on_thinks)(void *ctx);
    /* Before the text: it may have calls of tools, and this reads it. The sink destroys it. NULL:
     * not asked for. */
    void (*on_reader)(void *ctx, const ft_chat_reader *take);
    /* What makes the text from now on (ft_msg_opened.target); at its beginning, and again if the
     * text goes on elsewhere. NULL: not asked for. */
    void (*on_target)(void *ctx, uint64_t target);
    /* While a verdict is awaited: the text that the draft expects to follow (complete UTF-8, not
     * empty). It is *provisional*: each call replaces the one before, and what on_text brings
     * replaces it, even if that is an empty text. NULL: not asked for. */
    void (*on_provisional)(void *ctx, const char *text, size_t n);
    /* A verdict came: called before on_text brings its text, and also if that is empty. Borrowed
     * during the call. NULL: not asked for. */
    void (*on_told)(void *ctx, const ft_told *told);
    /* The text has lost its server, or none has taken it yet, and looks for one; perhaps several
     * times. on_told ends it. NULL: not asked for. */
    void (*on_away)(void *ctx);
    /* The text ends with this one of the request's stop strings: called before on_text brings its
     * last text. NULL: not asked for. */
    void (*on_stop)(void *ctx, size_t stop);
} ft_gen_sink;

#endif
