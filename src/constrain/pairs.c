// SPDX-License-Identifier: Apache-2.0
// What XGrammar 0.2.8 does not hold although each keyword alone is supported: it ignores one of
// two that stand side by side, or counts a key twice. Such a keyword is named, and its schema
// refused. Pure functions; any thread.
#include <limits.h>
#include <string.h>

#include "constrain/schema.h"

/* Rules that members with a bound of their number take; each takes XGrammar 100 us. */
#define MEMBER_RULES_MAX 10000

/* ---- strings ---- */

/* Formats that XGrammar writes: then it ignores what else is said of the string. */
static bool is_written(const char *format)
{
    static const char *const written[] = {"email",
                                          "date",
                                          "time",
                                          "date-time",
                                          "duration",
                                          "ipv4",
                                          "ipv6",
                                          "hostname",
                                          "uuid",
                                          "uri",
                                          "uri-reference",
                                          "uri-template",
                                          "json-pointer",
                                          "relative-"
                                          "json-pointer"};
    for (size_t i = 0; format && i < sizeof written / sizeof *written; i++)
        if (strcmp(format, written[i]) == 0)
            return true;
    return false;
}

static void check_string(const json_t *part, ft_buf *names)
{
    static const char *const lengths[] = {"minLength", "maxLength"};
    const json_t *format = json_object_get(part, "format");
    const bool written = is_written(json_string_value(format));
    const bool pattern = json_object_get(part, "pattern");
    if (format && !json_is_string(format))
        ft_schema_name(names, "format");
    if (written && pattern)
        ft_schema_name(names, "pattern");
    for (size_t i = 0; i < 2; i++) {
        const json_t *length = json_object_get(part, lengths[i]);
        const bool bounds = length && !(i == 0 && json_integer_value(length) == 0);
        if (length && (json_integer_value(length) < 0 || (bounds && (written || pattern))))
            ft_schema_name(names, lengths[i]);
    }
}

/* ---- objects ---- */

/* What is said of members that `properties` does not list. */
typedef struct others {
    const char *keyword; /* NULL: none */
    bool open, closed;   /* there may be such members; the keyword forbids them */
} others;

static others others_of(const json_t *part)
{
    static const char *const keywords[] = {"additionalProperties", "unevaluatedProperties"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(part, keywords[i]);
        if (v)
            return (others){keywords[i], !json_is_false(v), json_is_false(v)};
    }
    return (others){0};
}

static bool is_a_string(const json_t *schema)
{
    const json_t *values = json_object_get(schema, "enum"), *type = json_object_get(schema, "type");
    const json_t *value = json_object_get(schema, "const");
    bool all = !value || json_is_string(value);
    for (size_t i = 0; i < json_array_size(values); i++)
        all = all && json_is_string(json_array_get(values, i));
    return all &&
           (!type || (json_is_string(type) && strcmp(json_string_value(type), "string") == 0));
}

/* A key must be a string, so nothing may lead elsewhere. */
static bool names_are_strings(const json_t *schema)
{
    static const char *const known[] = {"type",   "enum",      "const",    "pattern",
                                        "format", "minLength", "maxLength"};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)schema, key, v)
    {
        bool is_known = ft_schema_scope_of(key) == FT_SCHEMA_NOTE;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        if (!is_known)
            return false;
    }
    return json_is_object(schema) && is_a_string(schema);
}

/* A key of several patterns must fit the schemas of all of them. */
static bool are_equal(const json_t *patterns)
{
    const char *key;
    json_t *v, *first = NULL;
    json_object_foreach((json_t *)patterns, key, v)
    {
        first = first ? first : v;
        if (!json_equal(first, v))
            return false;
    }
    return true;
}

/* Whether further keys may be told from it: those of other letters may be spelled like it. */
static bool is_plain(const char *key)
{
    for (; *key; key++)
        if ((unsigned char)*key < 0x20 || (unsigned char)*key > 0x7e || *key == '"' || *key == '\\')
            return false;
    return true;
}

static bool are_plain(const json_t *properties, const json_t *required)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)properties, key, v)
    {
        if (!is_plain(key))
            return false;
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name && !is_plain(name))
            return false;
    }
    return true;
}

/* How many members are required; without memory to tell, fewer. */
static json_int_t count_required(const json_t *required, const json_t *properties, bool *outside)
{
    json_t *distinct = json_object();
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        *outside |= !name || !json_object_get(properties, name);
        if (name)
            (void)!json_object_set(distinct, name, json_true());
    }
    const json_int_t n = (json_int_t)json_object_size(distinct);
    json_decref(distinct);
    return n;
}

/* Members of a bounded number: XGrammar makes a rule for each of them and each number. */
static void check_number(const json_t *part, json_int_t n_required, bool free_keys, ft_buf *names)
{
    const json_t *min = json_object_get(part, "minProperties");
    const json_t *max = json_object_get(part, "maxProperties");
    const json_int_t least = json_integer_value(min), most = json_integer_value(max);
    const json_int_t n = (json_int_t)json_object_size(json_object_get(part, "properties"));
    const json_int_t numbers = max && most < n ? most : n;
    if (least < 0 || least > INT_MAX || (free_keys && least > n_required + 1) ||
        (least > 0 && !max && n * n / 2 > MEMBER_RULES_MAX))
        ft_schema_name(names, "minProperties"); /* a free key may come twice, and is one then */
    if (most < 0 || most > INT_MAX || (max && n * numbers > MEMBER_RULES_MAX))
        ft_schema_name(names, "maxProperties");
}

static void check_members(const json_t *part, ft_buf *names)
{
    const json_t *properties = json_object_get(part, "properties");
    const json_t *patterns = json_object_get(part, "patternProperties");
    const json_t *keys = json_object_get(part, "propertyNames");
    const json_t *required = json_object_get(part, "required");
    const bool some = json_object_size(properties) > 0, shaped = json_object_size(patterns) > 0;
    const others other = others_of(part);
    bool outside = false;
    const json_int_t n_required = count_required(required, properties, &outside);
    if (keys && (some || shaped || other.closed || !names_are_strings(keys)))
        ft_schema_name(names, "propertyNames");
    if (shaped && (some || !are_equal(patterns)))
        ft_schema_name(names, "patternProperties");
    if (outside && (keys || shaped || other.closed))
        ft_schema_name(names, "required");
    if (other.open && !are_plain(properties, required))
        ft_schema_name(names, other.keyword);
    check_number(part, n_required, other.open || shaped || keys, names);
}

void ft_schema_check_pairs(const json_t *part, ft_buf *names)
{
    check_string(part, names);
    check_members(part, names);
}
