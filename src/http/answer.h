/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in OpenAI's shapes: chat completions and completions, streamed (server-sent events) or
 * whole. http/items.h writes those of other APIs. Internal to the room. Each answer belongs to one
 * thread.
 */
#ifndef FT_HTTP_ANSWER_H
#define FT_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/calls.h"
#include "http/fail.h"
#include "http/items.h"
#include "http/openai.h"
#include "http/request.h"
#include "http/think.h"

typedef struct ft_http_answer {
    const ft_http_backend *backend; /* borrowed */
    const ft_http_parsed *parsed;   /* borrowed */
    char id[48];
    int64_t created_s; /* since 1970 */
    uint64_t target;   /* what makes the text now; 0: not known */
    uint32_t index;    /* of the present text */
    bool parts;        /* thoughts become reasoning_content */
    ft_http_think think;
    ft_chat_reader reader; /* of a text that may have calls; else its functions are NULL */
    ft_http_calls calls;
    ft_buf thought, said; /* of the present piece; whole: of the text so far */
    bool begun;           /* stream: its first event, which names the role, was written */
    ft_buf piece;         /* the bytes of one token */
    /* What is not written yet, as JSON: a chat's list of tokens, or the four lists of completions.
     * Each is text at once, because jansson's values take ten times as much memory. */
    ft_buf logprobs[4];
    size_t offset_char;  /* completions: characters begun before the next token */
    ft_buf told;         /* with include_draft: `foretoken` of the next event */
    const char *stop;    /* the stop string that ended the text; NULL: none did */
    ft_http_items items; /* of a request of another API: instead of events and choices */
} ft_http_answer;

/* parts: the model of a chat thinks between marks. Its thoughts become reasoning_content, unless
 * events say where each byte comes from (include_draft): they count the text as it is. FT_IO: the
 * kernel gave no random bytes for the id. */
FT_WARN_UNUSED ft_status ft_http_answer_init(ft_http_answer *a, const ft_http_backend *backend,
                                             const ft_http_parsed *parsed, bool parts,
                                             int64_t now_s);
void ft_http_answer_deinit(ft_http_answer *a);

/* The text that begins now is thought, until the mark. */
void ft_http_answer_thinks(ft_http_answer *a);

/* Takes what reads the text that begins now. */
void ft_http_answer_reads(ft_http_answer *a, const ft_chat_reader *take);

/* Adds text (UTF-8) and its tokens. A streamed answer appends an event to *out, a whole one keeps
 * the text. */
FT_WARN_UNUSED ft_status ft_http_answer_add(ft_http_answer *a, const char *text, size_t n,
                                            const ft_gen_token *tokens, size_t n_tokens,
                                            ft_buf *out);

/* With include_draft: what the next event says of its text. */
FT_WARN_UNUSED ft_status ft_http_answer_told(ft_http_answer *a, const ft_told *told);
/* With include_draft: appends an event without text that says that the text looks for a server. */
FT_WARN_UNUSED ft_status ft_http_answer_away(ft_http_answer *a, ft_buf *out);

/* A text has ended, the first, the second...: appends its last event, or its choice. last: of the
 * last text, the sums of all; else NULL. */
FT_WARN_UNUSED ft_status ft_http_answer_end(ft_http_answer *a, bool length,
                                            const ft_http_result *last, ft_buf *out);
/* All texts have ended: appends the rest: usage, `data: [DONE]`. */
FT_WARN_UNUSED ft_status ft_http_answer_finish(ft_http_answer *a, const ft_http_result *sum,
                                               ft_buf *out);

/* A stream failed after it had begun: appends an event with the error, and `data: [DONE]`. */
FT_WARN_UNUSED ft_status ft_http_answer_fail(ft_http_answer *a, const ft_http_fail *fail,
                                             ft_buf *out);

#endif
