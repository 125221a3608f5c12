// SPDX-License-Identifier: Apache-2.0
// What is wrong with a constraint, before anything compiles it. XGrammar reads a schema leniently:
// it ignores keywords that it does not know, and those that stand beside an anyOf or a $ref. Then a
// text could break the schema that was asked for, so such a schema is refused here, and its
// keywords are named. Pure functions; any thread.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "constrain/calls.h"
#include "constrain/constraint.h"
#include "constrain/schema.h"

typedef struct bracket_scan {
    const char *open, *close;
    bool quoted;  /* "..." holds no brackets */
    bool classes; /* nor does [...] */
} bracket_scan;

static const bracket_scan scans[FT_CONSTRAINT_KINDS] = {
    [FT_CONSTRAINT_JSON_SCHEMA] = {"[{", "]}", true, false},
    [FT_CONSTRAINT_GRAMMAR] = {"(", ")", true, true},
    [FT_CONSTRAINT_REGEX] = {"(", ")", false, true},
    [FT_CONSTRAINT_CALL] = {"[{", "]}", true, false},
};

/* The deepest nesting of brackets. */
static uint32_t depth_of(const ft_constraint *c)
{
    const bracket_scan *scan = &scans[c->kind];
    uint32_t depth = 0, most = 0;
    char until = 0; /* in quotes or a class: what ends it */
    for (size_t i = 0; i < c->n; i++) {
        const char at = c->data[i];
        if (at == '\\')
            i++;
        else if (until)
            until = at == until ? 0 : until;
        else if (scan->quoted && at == '"')
            until = '"';
        else if (scan->classes && at == '[')
            until = ']';
        else if (strchr(scan->open, at) && at)
            depth++;
        else if (strchr(scan->close, at) && at && depth > 0)
            depth--;
        most = depth > most ? depth : most;
    }
    return most;
}

/* ---- schemas ---- */

static bool has_type(const json_t *v, const char *type)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    default:
        return strcmp(type, "boolean") == 0;
    }
}

/* Whether the value has the schema's type, or one of its types. */
static bool fits(const json_t *v, const json_t *type)
{
    bool some = json_is_string(type) && has_type(v, json_string_value(type));
    for (size_t i = 0; i < json_array_size(type) && !some; i++) {
        const char *one = json_string_value(json_array_get(type, i));
        some = one && has_type(v, one);
    }
    return some;
}

/* Whether the values of a const or enum all fit the type that stands beside it. */
static bool values_fit(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *one = json_object_get(schema, "const");
    const json_t *some = json_object_get(schema, "enum");
    if (one)
        return fits(one, type);
    for (size_t i = 0; i < json_array_size(some); i++)
        if (!fits(json_array_get(some, i), type))
            return false;
    return true;
}

static bool is_off(const char *keyword, const json_t *v)
{
    return strcmp(keyword, "uniqueItems") == 0 && json_is_false(v);
}

/* What may be said of a part by keywords, each of which XGrammar takes where it stands. */
static void check_keyword(const json_t *part, const char *key, const char *whole, bool values,
                          bool typed, ft_buf *names)
{
    const ft_schema_scope s = ft_schema_scope_of(key);
    const bool beside = values && !whole && values_fit(part);
    const bool alone = (!whole || strcmp(key, whole) == 0) &&
                       (!values || s == FT_SCHEMA_VALUES || (s == FT_SCHEMA_TYPE && beside));
    if (s != FT_SCHEMA_NOTE && !is_off(key, json_object_get(part, key)) &&
        (s == FT_SCHEMA_NEVER || !alone || (s == FT_SCHEMA_TYPED && !typed)))
        ft_schema_name(names, key);
}

/* Pointers that mean another place than XGrammar looks at. */
static void check_reference(const json_t *part, bool is_root, ft_buf *names)
{
    const char *ref = json_string_value(json_object_get(part, "$ref"));
    if (ref && strpbrk(ref, "~%"))
        ft_schema_name(names, "$ref");
    if (!is_root && json_is_string(json_object_get(part, "$id")))
        ft_schema_name(names, "$id");
}

/* One part, without the parts in it. */
static ft_status check_part(void *ctx, json_t *part, json_t *root)
{
    ft_buf *names = ctx;
    const char *key;
    json_t *v;
    const char *whole = NULL;
    bool values = false, typed = false;
    json_object_foreach(part, key, v)
    {
        const ft_schema_scope s = ft_schema_scope_of(key);
        typed = typed || s == FT_SCHEMA_TYPE || s == FT_SCHEMA_SHAPE;
        whole = s == FT_SCHEMA_WHOLE && !whole ? key : whole;
        values = values || s == FT_SCHEMA_VALUES;
    }
    json_object_foreach(part, key, v) check_keyword(part, key, whole, values, typed, names);
    if (json_object_get(part, "const") && json_object_get(part, "enum"))
        ft_schema_name(names, "enum");
    check_reference(part, part == root, names);
    ft_schema_check_pairs(part, names);
    return names->failed ? FT_NOMEM : FT_OK;
}

static ft_status check_keywords(json_t *schema, ft_error *err)
{
    ft_buf names = {0};
    ft_status status = ft_schema_walk(schema, check_part, &names);
    if (status != FT_OK)
        ft_error_set(err, status, "constraint: out of memory");
    else if (names.len)
        status = ft_error_set(err, FT_INVALID,
                              "the schema has keywords that are not supported where they stand: %s",
                              ft_buf_str(&names));
    ft_buf_deinit(&names);
    return status;
}

static ft_status check_json(const ft_constraint *c, ft_error *err)
{
    json_error_t where;
    json_t *root = json_loadb(c->data, c->n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return ft_error_set(err, FT_INVALID, "the schema is no JSON: %s at byte %d", where.text,
                            where.position);
    const ft_status status = check_keywords(root, err);
    json_decref(root);
    return status;
}

static ft_status check_calls(const ft_constraint *c, ft_error *err)
{
    ft_call_forms forms;
    ft_status status = ft_call_forms_read(c, err, &forms);
    if (status != FT_OK)
        return status;
    for (size_t i = 0; status == FT_OK && i < forms.n; i++)
        status = check_keywords(forms.form[i].schema, err);
    ft_call_forms_deinit(&forms);
    return status;
}

ft_status ft_constraint_check(const ft_constraint *c, ft_error *err)
{
    if (c->kind <= FT_CONSTRAINT_NONE || c->kind >= FT_CONSTRAINT_KINDS)
        return ft_error_set(err, FT_INVALID, "constraint: unknown kind %d", (int)c->kind);
    if (c->kind == FT_CONSTRAINT_JSON_OBJECT)
        return FT_OK;
    if (c->n == 0)
        return ft_error_set(err, FT_INVALID, "constraint: it is empty");
    if (c->n > FT_CONSTRAINT_MAX_BYTES)
        return ft_error_set(err, FT_INVALID, "constraint: %zu bytes, at most %d", c->n,
                            FT_CONSTRAINT_MAX_BYTES);
    if (memchr(c->data, 0, c->n))
        return ft_error_set(err, FT_INVALID, "constraint: it has a zero byte");
    const uint32_t depth = depth_of(c);
    if (depth > FT_CONSTRAINT_MAX_DEPTH)
        return ft_error_set(err, FT_INVALID, "constraint: nested %u deep, at most %d", depth,
                            FT_CONSTRAINT_MAX_DEPTH);
    return c->kind == FT_CONSTRAINT_JSON_SCHEMA ? check_json(c, err)
           : c->kind == FT_CONSTRAINT_CALL      ? check_calls(c, err)
                                                : FT_OK;
}

/* Whether the schema may stay as it is. */
static ft_status check_form(const ft_call_form *form, bool *fits)
{
    ft_error why;
    char *text = json_dumps(form->schema, JSON_COMPACT | JSON_ENCODE_ANY);
    const ft_constraint c = {FT_CONSTRAINT_JSON_SCHEMA, text, text ? strlen(text) : 0};
    const ft_status status = text ? ft_constraint_check(&c, &why) : FT_NOMEM;
    *fits = status == FT_OK;
    free(text);
    return status == FT_NOMEM ? status : FT_OK;
}

/* One part of a schema loses the keywords that say something to people alone. */
static ft_status drop_notes(void *ctx, json_t *part, json_t *root)
{
    static const char *const notes[] = {"title",   "description", "$comment", "examples",
                                        "default", "deprecated",  "readOnly", "writeOnly"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        (void)json_object_del(part, notes[i]);
    return FT_OK;
}

static ft_status loosen_form(const ft_call_form *form, ft_loosen which, json_t *entry)
{
    bool fits = which == FT_LOOSEN_NONE;
    ft_status status = which == FT_LOOSEN_REFUSED ? check_form(form, &fits) : FT_OK;
    if (status != FT_OK || fits)
        return status;
    return json_object_set_new(entry, "schema", json_pack("{s:s}", "type", "object")) == 0
               ? FT_OK
               : FT_NOMEM;
}

static ft_status loosen_forms(const ft_call_forms *forms, ft_loosen which)
{
    const json_t *list = json_object_get(forms->root, "calls");
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < forms->n; i++)
        status = ft_schema_walk(forms->form[i].schema, drop_notes, NULL);
    if (which == FT_LOOSEN_REFUSED &&
        json_dumpb(forms->root, NULL, 0, JSON_COMPACT) > FT_CONSTRAINT_MAX_BYTES)
        which = FT_LOOSEN_ALL;
    for (size_t i = 0; status == FT_OK && i < forms->n; i++)
        status = loosen_form(&forms->form[i], which, json_array_get(list, i));
    return status;
}

ft_status ft_constraint_loosen(const ft_constraint *c, ft_loosen which, ft_buf *out)
{
    ft_call_forms forms;
    ft_status status = ft_call_forms_read(c, NULL, &forms);
    if (status != FT_OK)
        return status;
    status = loosen_forms(&forms, which);
    char *text = status == FT_OK ? json_dumps(forms.root, JSON_COMPACT) : NULL;
    if (status == FT_OK)
        status = text ? ft_buf_append(out, text, strlen(text)) : FT_NOMEM;
    free(text);
    ft_call_forms_deinit(&forms);
    return status;
}
