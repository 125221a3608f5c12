/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns verdicts into text: checks that a verdict answers the outstanding draft, appends its
 * tokens, turns them into complete characters without stop strings, and passes them to the sink
 * with their log-probabilities. An end-of-text token is part of the text, but is not passed on.
 */
#ifndef FT_EDGE_OUTPUT_H
#define FT_EDGE_OUTPUT_H

#include "base/sink.h"
#include "base/text.h"
#include "edge/told.h"
#include "model/vocab.h"
#include "wire/messages.h"

/* What the next verdict must answer. */
typedef struct ft_awaited {
    const ft_msg_draft *draft;
    uint32_t run_left; /* tokens of a run still to come; 0: the draft has nodes */
    uint32_t length;   /* of the text */
    int32_t n_vocab;
    bool early;    /* an early draft is out, and a part of it follows this verdict */
    bool logprobs; /* log-probabilities were asked for */
} ft_awaited;

/* FT_CORRUPT: the verdict does not answer the outstanding draft. */
FT_WARN_UNUSED ft_status ft_output_check(const ft_awaited *awaited, const ft_msg_verdict *verdict,
                                         ft_error *err);

typedef struct ft_output_opts {
    const ft_vocab *vocab; /* all borrowed */
    const ft_gen_sink *sink;
    ft_tokens *text;     /* verdicts' tokens are appended */
    uint32_t max_tokens; /* 0: until the context is full */
    const char *const *stops;
    size_t n_stops;
    const int32_t *spelled; /* [n_spelled] special tokens that are passed on as text */
    size_t n_spelled;
} ft_output_opts;

typedef struct ft_output {
    ft_output_opts how;
    uint32_t generated; /* tokens, an end-of-generation token not counted */
    ft_text_stream stream;
    ft_buf piece, shown;
    ft_gen_token *tokens; /* [FT_WIRE_NEXT_MAX] */
    ft_teller teller;     /* for a sink that asks for it */
} ft_output;

/* FT_NOMEM owes nothing. */
FT_WARN_UNUSED ft_status ft_output_init(ft_output *o, const ft_output_opts *opts, ft_error *err);
void ft_output_deinit(ft_output *o);

/* Appends the tokens of a checked verdict on `draft`; *finish is NONE while the text goes on. If
 * the sink has on_told, the caller has filled in teller.told: what is not about the text. */
FT_WARN_UNUSED ft_status ft_output_add(ft_output *o, const ft_msg_draft *draft,
                                       const ft_msg_verdict *verdict, ft_error *err,
                                       ft_finish *finish);

/* Tells a sink that asks for it the provisional text: what is held back and these tokens,
 * up to an end token or a stop string. */
void ft_output_provisional(ft_output *o, const int32_t *token, uint32_t n);

#endif
