// SPDX-License-Identifier: Apache-2.0
// Reads what a model says. The parser reads the whole text each time, so it is asked when the text
// has grown by a 64th: all readings together take the time of some hundred. A part that was handed
// out stays: the parser may change its mind about the last few bytes, and then they come later.
// What follows the part that the parser can read is content.
#include "template/reader.h"

#include <stdlib.h>
#include <string.h>

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

/* Whether the parser can read the first n bytes. */
static ft_status try_beginning(reader *r, size_t n, ft_common_said *said, bool *readable)
{
    const ft_status status = ft_common_parse(r->parser, ft_buf_str(&r->text), n, false, said);
    *readable = status == FT_OK;
    return status == FT_INVALID ? FT_OK : status;
}

/* Bytes of the arguments of the last call that was read. */
static size_t n_arguments(const reader *r, const ft_common_said *said)
{
    return said->n_calls > 0 ? strlen(ft_common_said_call(r->parser, said->n_calls - 1).arguments)
                             : 0;
}

/* Where a text may be divided: at its start and before tags and lines. [*n] offsets, which the
 * caller frees. NULL: no memory. */
static size_t *list_places(const ft_buf *text, size_t *n)
{
    const char *bytes = ft_buf_str(text);
    size_t count = 1;
    for (size_t i = 1; i < text->len; i++)
        count += bytes[i] == '<' || bytes[i] == '\n';
    size_t *places = malloc(count * sizeof *places);
    *n = 0;
    if (places)
        places[(*n)++] = 0;
    for (size_t i = 1; places && i < text->len; i++)
        if (bytes[i] == '<' || bytes[i] == '\n')
            places[(*n)++] = i;
    return places;
}

/* Where what the parser can read ends: the shortest beginning of the text that says as much, in
 * calls and thoughts, as the longest one that it can read. So a tag behind a call may come as
 * content, and nothing is lost. A text that cannot be read stays so when it grows, and what it says
 * grows with it: both places are found by halving. FT_INVALID: none has the calls that have begun.
 * *said is of that beginning. */
static ft_status parse_beginning(reader *r, ft_common_said *said, size_t *n)
{
    size_t n_places, low = 0, high, longest;
    size_t *places = list_places(&r->text, &n_places);
    ft_status status = places ? FT_OK : FT_NOMEM;
    bool readable;
    for (high = n_places; status == FT_OK && high - low > 1;) {
        const size_t middle = low + (high - low) / 2;
        status = try_beginning(r, places[middle], said, &readable);
        if (readable)
            low = middle;
        else
            high = middle;
    }
    longest = low;
    if (status == FT_OK)
        status = ft_common_parse(r->parser, ft_buf_str(&r->text), places[longest], false, said);
    if (status == FT_OK && said->n_calls < r->n_begun)
        status = FT_INVALID;
    const ft_common_said most = *said;
    const size_t arguments = status == FT_OK ? n_arguments(r, said) : 0;
    for (low = 0, high = longest; status == FT_OK && low < high;) {
        const size_t middle = low + (high - low) / 2;
        status = try_beginning(r, places[middle], said, &readable);
        if (readable && said->n_calls == most.n_calls && said->n_reasoning == most.n_reasoning &&
            n_arguments(r, said) == arguments)
            high = middle;
        else
            low = middle + 1;
    }
    if (status == FT_OK) {
        *n = places[high];
        status = ft_common_parse(r->parser, ft_buf_str(&r->text), *n, false, said);
    }
    free(places);
    return status;
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
