// SPDX-License-Identifier: Apache-2.0
// Each field becomes a kind and its text. Schemas are objects in a body; they are written out
// again, their keys in the same order, in which the answer will have them. No state.
#include "http/constraint.h"

#include <string.h>

typedef struct reader {
    ft_http_fail *fail;
    ft_buf *text;
    ft_constraint *out;
    const char **field; /* of the one that said something; NULL: none has */
} reader;

static ft_status wrong(reader *r, const char *name, const char *expected)
{
    return ft_http_fail_set(r->fail, 400, "invalid_value", name, "'%s' must be %s.", name,
                            expected);
}

/* The constraint, of `text` as it is now. */
static ft_status set(reader *r, const char *field, const char *name, ft_constraint_kind kind)
{
    if (*r->field)
        return ft_http_fail_set(r->fail, 400, "invalid_value", name,
                                "'%s' and '%s' both say what the answer must be: give one.", name,
                                *r->field);
    if (r->text->failed) {
        ft_http_fail_set(r->fail, 503, "unavailable", NULL, "out of memory");
        return FT_NOMEM;
    }
    if (r->text->len > FT_CONSTRAINT_MAX_BYTES)
        return wrong(r, name, "at most 65536 bytes");
    *r->field = field;
    *r->out = (ft_constraint){.kind = kind, .data = r->text->data, .n = r->text->len};
    return FT_OK;
}

static ft_status add_text(reader *r, const char *field, const char *name, json_t *v,
                          ft_constraint_kind kind)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return wrong(r, name, "a string that is not empty");
    if (!*r->field)
        ft_buf_append(r->text, json_string_value(v), json_string_length(v));
    return set(r, field, name, kind);
}

static int write_to(const char *data, size_t n, void *text)
{
    return ft_buf_append(text, data, n) == FT_OK ? 0 : -1;
}

/* A schema: an object, true or false; or, as vLLM has it, a string that holds one. */
static ft_status add_schema(reader *r, const char *field, const char *name, json_t *v)
{
    if (json_is_string(v))
        return add_text(r, field, name, v, FT_CONSTRAINT_JSON_SCHEMA);
    if (!json_is_object(v) && !json_is_boolean(v))
        return wrong(r, name, "a JSON Schema");
    if (!*r->field && json_dump_callback(v, write_to, r->text, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        r->text->failed = true; /* jansson may lack memory, too */
    return set(r, field, name, FT_CONSTRAINT_JSON_SCHEMA);
}

static ft_status read_format(reader *r, json_t *v)
{
    static const char name[] = "response_format";
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *schema = json_object_get(json_object_get(v, "json_schema"), "schema");
    if (type && strcmp(type, "text") == 0)
        return FT_OK;
    if (type && strcmp(type, "json_object") == 0)
        return set(r, name, name, FT_CONSTRAINT_JSON_OBJECT);
    if (!type || strcmp(type, "json_schema") != 0)
        return wrong(r, "response_format.type", "'text', 'json_object' or 'json_schema'");
    return add_schema(r, name, "response_format.json_schema.schema", schema);
}

/* One of several texts: a grammar of them. */
static ft_status add_choice(reader *r, const char *field, const char *name, json_t *list)
{
    json_t *v;
    size_t i;
    if (json_array_size(list) == 0)
        return wrong(r, name, "a list of strings");
    json_array_foreach(list, i, v)
    {
        const char *at = json_string_value(v);
        if (!at || !*at)
            return wrong(r, name, "a list of strings that are not empty");
        if (*r->field)
            continue;
        ft_buf_puts(r->text, i == 0 ? "root ::= \"" : " | \"");
        for (; *at; at++) {
            if (*at == '"' || *at == '\\')
                ft_buf_printf(r->text, "\\%c", *at);
            else if ((unsigned char)*at < 0x20)
                ft_buf_printf(r->text, "\\x%02x", (unsigned)*at);
            else
                ft_buf_append(r->text, at, 1);
        }
        ft_buf_puts(r->text, "\"");
    }
    return set(r, field, name, FT_CONSTRAINT_GRAMMAR);
}

static ft_status read_structured(reader *r, json_t *object)
{
    static const char field[] = "structured_outputs";
    const char *key;
    json_t *v;
    ft_status status = FT_OK;
    if (!json_is_object(object))
        return wrong(r, field, "an object");
    json_object_foreach(object, key, v)
    {
        if (status != FT_OK || json_is_null(v) || json_is_false(v))
            continue;
        if (strcmp(key, "json") == 0)
            status = add_schema(r, field, "structured_outputs.json", v);
        else if (strcmp(key, "json_object") == 0)
            status = set(r, field, "structured_outputs.json_object", FT_CONSTRAINT_JSON_OBJECT);
        else if (strcmp(key, "regex") == 0)
            status = add_text(r, field, "structured_outputs.regex", v, FT_CONSTRAINT_REGEX);
        else if (strcmp(key, "grammar") == 0)
            status = add_text(r, field, "structured_outputs.grammar", v, FT_CONSTRAINT_GRAMMAR);
        else if (strcmp(key, "choice") == 0)
            status = add_choice(r, field, "structured_outputs.choice", v);
        else
            status = ft_http_fail_set(r->fail, 400, "unsupported_parameter", field,
                                      "'structured_outputs.%.64s' is unsupported by this server: "
                                      "json, json_object, regex, grammar and choice are.",
                                      key);
    }
    return status;
}

static json_t *field_of(json_t *root, const char *name)
{
    json_t *v = json_object_get(root, name);
    const bool empty = json_is_string(v) && json_string_length(v) == 0;
    return json_is_null(v) || empty ? NULL : v;
}

ft_status ft_http_read_constraint(json_t *root, ft_http_fail *fail, ft_buf *text,
                                  ft_constraint *out, const char **field)
{
    reader r = {.fail = fail, .text = text, .out = out, .field = field};
    json_t *v;
    ft_status status = FT_OK;
    *out = (ft_constraint){0};
    *field = NULL;
    if ((v = field_of(root, "response_format")))
        status = read_format(&r, v);
    if (status == FT_OK && (v = field_of(root, "structured_outputs")))
        status = read_structured(&r, v);
    if (status == FT_OK && (v = field_of(root, "json_schema")))
        status = add_schema(&r, "json_schema", "json_schema", v);
    if (status == FT_OK && (v = field_of(root, "grammar")))
        status = add_text(&r, "grammar", "grammar", v, FT_CONSTRAINT_GRAMMAR);
    if (status == FT_OK && (v = field_of(root, "regex")))
        status = add_text(&r, "regex", "regex", v, FT_CONSTRAINT_REGEX);
    return status;
}
