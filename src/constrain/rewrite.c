// SPDX-License-Identifier: Apache-2.0
// Schemas that have been checked, and that XGrammar 0.2.8 reads wrongly as they are: it ignores
// required members that `properties` does not list, and some of its formats write characters that
// JSON wants escaped, and its automata take patterns of ASCII alone. Pure functions; any thread.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "constrain/schema.h"

typedef struct rewriting {
    char shared[32]; /* a member of the whole that it had not: schemas that several members have */
    bool changed;
} rewriting;

static bool says_object(const json_t *part)
{
    const json_t *type = json_object_get(part, "type");
    const char *one = json_string_value(type);
    bool object = !type && (json_object_get(part, "properties") ||
                            json_object_get(part, "additionalProperties") ||
                            json_object_get(part, "unevaluatedProperties"));
    object |= one && strcmp(one, "object") == 0;
    for (size_t i = 0; i < json_array_size(type); i++) {
        one = json_string_value(json_array_get(type, i));
        object |= one && strcmp(one, "object") == 0;
    }
    return object;
}

/* A reference to what `keyword` of the part has, which moves into the whole: copies would double
 * with each level. */
static json_t *share(rewriting *r, json_t *root, json_t *part, const char *keyword)
{
    json_t *schema = json_object_get(part, keyword), *all = json_object_get(root, r->shared);
    char place[24];
    if (!json_is_object(schema))
        return json_true();
    if (!all && json_object_set_new(root, r->shared, all = json_object()) != 0)
        return NULL;
    snprintf(place, sizeof place, "%zu", json_object_size(all));
    json_t *ref = json_sprintf("#/%s/%s", r->shared, place);
    json_t *to = json_pack("{s:o}", "$ref", ref);
    if (json_object_set(all, place, schema) != 0 || json_object_set(part, keyword, to) != 0) {
        json_decref(to);
        return NULL;
    }
    return to;
}

/* Required members that are not listed become members of the schema that others have. */
static ft_status list_required(rewriting *r, json_t *part, json_t *root)
{
    const json_t *required = json_object_get(part, "required");
    json_t *properties = json_object_get(part, "properties"), *schema = NULL;
    const char *keyword = json_object_get(part, "additionalProperties") ? "additionalProperties"
                                                                        : "unevaluatedProperties";
    bool failed = false;
    if (!says_object(part))
        return FT_OK;
    for (size_t i = 0; !failed && i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || json_object_get(properties, name))
            continue;
        if (!properties) {
            properties = json_object();
            failed |= json_object_set_new(part, "properties", properties) != 0;
        }
        if (!failed && !schema)
            schema = share(r, root, part, keyword);
        failed |= !schema || json_object_set(properties, name, schema) != 0;
        r->changed = true;
    }
    json_decref(schema);
    return failed ? FT_NOMEM : FT_OK;
}

/* What a format is instead; NULL: it stays. */
static const char *pattern_of(const char *format)
{
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
#define WORD  "[A-Za-z0-9_+-]+"
#define STEPS "(/([^/~]|~[01])*)*"
    static const char *const patterns[][2] = {
        {"email", "^" WORD "(\\." WORD ")*@" LABEL "(\\." LABEL ")+$"},
        {"json-pointer", "^" STEPS "$"},
        {"relative-json-pointer", "^(0|[1-9][0-9]*)(#|" STEPS ")$"},
    };
    for (size_t i = 0; format && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(format, patterns[i][0]) == 0)
            return patterns[i][1];
    return NULL;
}

static ft_status spell_format(rewriting *r, json_t *part)
{
    const char *pattern = pattern_of(json_string_value(json_object_get(part, "format")));
    if (!pattern)
        return FT_OK;
    r->changed = true;
    return json_object_set_new(part, "pattern", json_string(pattern)) == 0 &&
                   json_object_del(part, "format") == 0
               ? FT_OK
               : FT_NOMEM;
}

/* Appends a character of UTF-8 as \u{...}; returns its bytes. */
static size_t append_escaped(ft_buf *out, const char *at)
{
    const unsigned char first = (unsigned char)*at;
    const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = first & (0x7f >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    ft_buf_printf(out, "\\u{%x}", code);
    return n;
}

/* XGrammar's automata take patterns of ASCII alone. JSON's texts are UTF-8. */
static ft_status spell_pattern(rewriting *r, json_t *part)
{
    const char *at = json_string_value(json_object_get(part, "pattern"));
    ft_buf out = {0};
    bool foreign = false;
    while (at && *at) {
        const char *last = at;
        if (*at == '\\' && at[1])
            at++; /* in front of other letters it says nothing */
        if ((unsigned char)*at < 0x80) {
            ft_buf_append(&out, last, (size_t)(++at - last));
        } else {
            foreign = true;
            at += append_escaped(&out, at);
        }
    }
    r->changed |= foreign;
    if (!foreign) {
        ft_buf_deinit(&out);
        return FT_OK;
    }
    const bool failed =
        out.failed || json_object_set_new(part, "pattern", json_string(ft_buf_str(&out))) != 0;
    ft_buf_deinit(&out);
    return failed ? FT_NOMEM : FT_OK;
}

static ft_status rewrite(void *ctx, json_t *part, json_t *root)
{
    ft_status status = spell_format(ctx, part);
    if (status == FT_OK)
        status = spell_pattern(ctx, part);
    return status == FT_OK ? list_required(ctx, part, root) : status;
}

ft_status ft_schema_rewrite(json_t *root, bool *changed)
{
    rewriting r = {.shared = "shared"};
    for (int i = 0; json_object_get(root, r.shared); i++)
        snprintf(r.shared, sizeof r.shared, "shared%d", i);
    const ft_status status = ft_schema_walk(root, rewrite, &r);
    *changed = r.changed;
    return status;
}
