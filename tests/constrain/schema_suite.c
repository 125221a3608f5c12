// SPDX-License-Identifier: Apache-2.0
// For tools/check-schema-suite: which texts a schema takes. Each line of the input is JSON,
// {"schema": a schema, "texts": [strings]}; the answer is a line {"refused": message} or
// {"takes": [booleans]}.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/constraint.h"

/* A token for each byte, and one that ends a text. */
enum { END = 256, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char byte = (char)token;
    return token < END ? ft_buf_append(out, &byte, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static bool takes(ft_grammar *grammar, const char *text)
{
    ft_matcher *m;
    ft_error err = {0};
    bool whole = true;
    if (ft_matcher_create(grammar, &err, &m) != FT_OK)
        return false;
    int32_t *tokens = calloc(strlen(text) + 1, sizeof *tokens);
    uint32_t n = 0;
    for (; tokens && text[n]; n++)
        tokens[n] = (unsigned char)text[n];
    whole = tokens && ft_matcher_follow(m, tokens, n, NULL, 0) && ft_matcher_allows(m, END);
    free(tokens);
    ft_matcher_destroy(m);
    return whole;
}

static json_t *answer(const ft_constrain_vocab *vocab, const json_t *asked)
{
    char *schema = json_dumps(json_object_get(asked, "schema"), JSON_ENCODE_ANY | JSON_COMPACT);
    const json_t *texts = json_object_get(asked, "texts");
    const ft_constraint c = {FT_CONSTRAINT_JSON_SCHEMA, schema, schema ? strlen(schema) : 0};
    ft_grammar *grammar;
    ft_error err = {0};
    const ft_status status = ft_grammar_compile(vocab, &c, NULL, &err, &grammar);
    free(schema);
    if (status != FT_OK)
        return json_pack("{s:s}", "refused", err.message);
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++)
        json_array_append_new(
            list, json_boolean(takes(grammar, json_string_value(json_array_get(texts, i)))));
    ft_grammar_unref(grammar);
    return json_pack("{s:o}", "takes", list);
}

int main(void)
{
    const ft_constrain_tokens tokens = {.n = VOCAB, .piece = piece, .ends = ends};
    ft_constrain_vocab *vocab;
    ft_error err = {0};
    char *line = NULL;
    size_t room = 0;
    if (ft_constrain_vocab_create(&tokens, &err, &vocab) != FT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    while (getline(&line, &room, stdin) > 0) {
        json_t *asked = json_loads(line, 0, NULL), *said = answer(vocab, asked);
        char *text = json_dumps(said, JSON_COMPACT);
        puts(text ? text : "{\"refused\":\"out of memory\"}");
        free(text);
        json_decref(said);
        json_decref(asked);
    }
    free(line);
    ft_constrain_vocab_destroy(vocab);
    return 0;
}
