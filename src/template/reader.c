// SPDX-License-Identifier: Apache-2.0
// Reads what a model says. The parser reads the whole text each time, so it is asked when the text
// has grown by a 64th: all readings together take the time of some hundred. A part that was handed
// out stays: the parser may change its mind about the last few bytes, and then they come later.
// What follows the part that the parser can read is content.
#include "template/reader.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 64 /* places where the readable beginning of a text may end */

typedef struct reader {
    ft_common_parser *parser;
    ft_buf text;
    size_t next;               /* the parser is asked when there is so much text */
    ft_buf rest;               /* the content of a text that cannot be read to its end */
    size_t content, reasoning; /* bytes that were handed out */
    size_t n_begun, arguments; /* calls; bytes of the last one's arguments */
    ft_chat_part *parts;       /* [n_parts] */
    size_t n_parts, cap;
} reader;

static void destroy(void *ctx)
{
    reader *r = ctx;
    ft_common_parser_destroy(r->parser);
    ft_buf_deinit(&r->text);
    ft_buf_deinit(&r->rest);
    free(r->parts);
    free(r);
}

static ft_status add(reader *r, ft_chat_part part)
{
    if (r->n_parts == r->cap) {
        const size_t cap = r->cap ? 2 * r->cap : 8;
        ft_chat_part *grown = realloc(r->parts, cap * sizeof *grown);
        if (!grown)
            return FT_NOMEM;
        r->parts = grown;
        r->cap = cap;
    }
    r->parts[r->n_parts++] = part;
    return FT_OK;
}

/* Adds what is new of a text, of which *done bytes were handed out. */
static ft_status add_text(reader *r, ft_chat_part part, size_t *done)
{
    if (part.n <= *done)
        return FT_OK;
    part.text += *done;
    part.n -= *done;
    *done += part.n;
    return add(r, part);
}

/* Adds call i, the last that has begun or a new one. Name and id are known when its arguments
 * begin. */
static ft_status add_call(reader *r, size_t i, bool complete)
{
    const ft_chat_call call = ft_common_said_call(r->parser, i);
    const size_t n = strlen(call.arguments);
    ft_status status = FT_OK;
    if (!call.name[0] || (n == 0 && !complete))
        return FT_OK;
    if (i == r->n_begun) {
        r->n_begun++;
        r->arguments = 0;
        status = add(r, (ft_chat_part){.kind = FT_CHAT_PART_CALL,
                                       .call = i,
                                       .id = call.id[0] ? call.id : NULL,
                                       .text = call.name,
                                       .n = strlen(call.name)});
    }
    const ft_chat_part arguments = {
        .kind = FT_CHAT_PART_ARGUMENTS, .call = i, .text = call.arguments, .n = n};
    return status == FT_OK ? add_text(r, arguments, &r->arguments) : status;
}

static ft_status add_said(reader *r, const ft_common_said *said, bool last)
{
    const ft_chat_part reasoning = {
        .kind = FT_CHAT_PART_REASONING, .text = said->reasoning, .n = said->n_reasoning};
    const ft_chat_part content = {
        .kind = FT_CHAT_PART_CONTENT, .text = said->content, .n = said->n_content};
    ft_status status = add_text(r, reasoning, &r->reasoning);
    if (status == FT_OK)
        status = add_text(r, content, &r->content);
    for (size_t i = r->n_begun > 0 ? r->n_begun - 1 : 0; status == FT_OK && i < said->n_calls; i++)
        if (i <= r->n_begun)
            status = add_call(r, i, last || i + 1 < said->n_calls);
    return status;
}

/* Where what the parser can read ends: the shortest beginning of the text with as many calls and
 * thoughts as the longest one that it reads. So a tag behind a call may come as content, and
 * nothing is lost. It ends before a tag or a line. FT_INVALID: none has the calls that have begun.
 * *said is of that beginning. */
static ft_status parse_beginning(reader *r, ft_common_said *said, size_t *n)
{
    const char *text = ft_buf_str(&r->text);
    size_t n_calls = r->n_begun, n_reasoning = 0, at = r->text.len;
    bool found = false;
    for (int tries = 0; at > 0 && tries < TRIES;) {
        at--;
        if (at > 0 && text[at] != '<' && text[at] != '\n')
            continue;
        tries++;
        const ft_status status = ft_common_parse(r->parser, text, at, false, said);
        if (status == FT_NOMEM)
            return status;
        if (status != FT_OK)
            continue;
        if (said->n_calls < n_calls || (found && said->n_reasoning < n_reasoning))
            break;
        found = true;
        n_calls = said->n_calls;
        n_reasoning = said->n_reasoning;
        *n = at;
    }
    return found ? ft_common_parse(r->parser, text, *n, false, said) : FT_INVALID;
}

/* The whole text, which the parser cannot read. */
static ft_status add_unread(reader *r)
{
    ft_common_said said;
    size_t n;
    ft_status status = parse_beginning(r, &said, &n);
    if (status == FT_INVALID) {
        status = ft_common_parse(r->parser, ft_buf_str(&r->text), r->text.len, true, &said);
        return status == FT_OK ? add_said(r, &said, true) : status == FT_INVALID ? FT_OK : status;
    }
    if (status == FT_OK)
        status = ft_buf_append(&r->rest, said.content, said.n_content);
    if (status == FT_OK)
        status = ft_buf_append(&r->rest, ft_buf_str(&r->text) + n, r->text.len - n);
    said.content = ft_buf_str(&r->rest);
    said.n_content = r->rest.len;
    return status == FT_OK ? add_said(r, &said, true) : status;
}

static ft_status read_text(void *ctx, const char *text, size_t n, bool last,
                           const ft_chat_part **parts, size_t *n_parts)
{
    reader *r = ctx;
    ft_common_said said;
    r->n_parts = 0;
    ft_status status = ft_buf_append(&r->text, text, n);
    if (status == FT_OK && (last || r->text.len >= r->next)) {
        r->next = r->text.len + r->text.len / 64 + 1;
        status = ft_common_parse(r->parser, ft_buf_str(&r->text), r->text.len, !last, &said);
        if (status == FT_OK)
            status = add_said(r, &said, last);
        else if (status == FT_INVALID)
            status = last ? add_unread(r) : FT_OK;
    }
    *parts = r->parts;
    *n_parts = r->n_parts;
    return status;
}

ft_status ft_reader_create(ft_common_parser *take, ft_chat_reader *out)
{
    reader *r = calloc(1, sizeof *r);
    *out = (ft_chat_reader){r, read_text, destroy};
    if (!r) {
        ft_common_parser_destroy(take);
        return FT_NOMEM;
    }
    r->parser = take;
    return FT_OK;
}
