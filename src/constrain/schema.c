// SPDX-License-Identifier: Apache-2.0
// The keywords of JSON Schema, and a walk over the parts of a schema with a stack of its own.
#include "constrain/schema.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a keyword's subschemas are. */
typedef enum holds { NO_SCHEMA, ONE, LIST, MAP } holds;

static const struct {
    const char *name;
    ft_schema_scope scope;
    holds holds;
} keywords[] = {
    {"type", FT_SCHEMA_TYPE, NO_SCHEMA},
    {"properties", FT_SCHEMA_SHAPE, MAP},
    {"additionalProperties", FT_SCHEMA_SHAPE, ONE},
    {"unevaluatedProperties", FT_SCHEMA_SHAPE, ONE},
    {"items", FT_SCHEMA_SHAPE, ONE},
    {"prefixItems", FT_SCHEMA_SHAPE, LIST},
    {"unevaluatedItems", FT_SCHEMA_SHAPE, ONE},
    {"required", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"patternProperties", FT_SCHEMA_TYPED, MAP},
    {"propertyNames", FT_SCHEMA_TYPED, ONE},
    {"minProperties", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"maxProperties", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"minItems", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"maxItems", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"minLength", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"maxLength", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"pattern", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"minimum", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"maximum", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"exclusiveMinimum", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"exclusiveMaximum", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"multipleOf", FT_SCHEMA_TYPED, NO_SCHEMA},
    {"format", FT_SCHEMA_NOTE, NO_SCHEMA},
    {"anyOf", FT_SCHEMA_WHOLE, LIST},
    {"oneOf", FT_SCHEMA_WHOLE, LIST},
    {"allOf", FT_SCHEMA_WHOLE, LIST},
    {"$ref", FT_SCHEMA_WHOLE, NO_SCHEMA},
    {"const", FT_SCHEMA_VALUES, NO_SCHEMA},
    {"enum", FT_SCHEMA_VALUES, NO_SCHEMA},
    {"$defs", FT_SCHEMA_NOTE, MAP},
    {"definitions", FT_SCHEMA_NOTE, MAP},
    {"not", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"if", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"then", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"else", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"dependentRequired", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"dependentSchemas", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"dependencies", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"uniqueItems", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"contains", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"minContains", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"maxContains", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"additionalItems", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"$dynamicRef", FT_SCHEMA_NEVER, NO_SCHEMA},
    {"$recursiveRef", FT_SCHEMA_NEVER, NO_SCHEMA},
};
#define N_KEYWORDS (sizeof keywords / sizeof *keywords)

/* The keyword's number; N_KEYWORDS: unknown. */
static size_t keyword_of(const char *name)
{
    size_t i = 0;
    while (i < N_KEYWORDS && strcmp(keywords[i].name, name) != 0)
        i++;
    return i;
}

ft_schema_scope ft_schema_scope_of(const char *keyword)
{
    const size_t k = keyword_of(keyword);
    return k < N_KEYWORDS ? keywords[k].scope : FT_SCHEMA_NOTE;
}

void ft_schema_name(ft_buf *names, const char *keyword)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", keyword);
    if (names->len < 250 && !strstr(ft_buf_str(names), quoted))
        ft_buf_printf(names, "%s%s", names->len ? ", " : "", quoted);
}

/* ---- the walk ---- */

/* Parts that are still to be visited, and the addresses of all that have been. */
typedef struct walk {
    json_t *left, *seen;
    bool failed;
} walk;

static void push(walk *w, json_t *part)
{
    char address[32];
    snprintf(address, sizeof address, "%p", (void *)part);
    if (!part || json_object_get(w->seen, address))
        return;
    w->failed |= json_object_set(w->seen, address, part) != 0; /* holds it: no other gets its */
    w->failed |= json_array_append(w->left, part) != 0;        /* address */
}

/* What a pointer within the schema leads to, as XGrammar follows it: names as they are written,
 * empty ones left out. NULL: nothing. */
static json_t *target_of(json_t *root, const char *ref)
{
    json_t *at = root;
    if (!ref || strncmp(ref, "#/", 2) != 0)
        return NULL;
    char *names = strdup(ref + 2), *rest = names, *name;
    while (at && (name = strsep(&rest, "/")))
        at = *name ? json_object_get(at, name) : at;
    free(names);
    return names ? at : NULL;
}

static void push_inner(walk *w, json_t *part, json_t *root)
{
    const char *key, *inner;
    json_t *v, *one;
    size_t i;
    json_object_foreach(part, key, v)
    {
        const size_t k = keyword_of(key);
        const holds h = k < N_KEYWORDS ? keywords[k].holds : NO_SCHEMA;
        if (h == ONE)
            push(w, v);
        if (strcmp(key, "$ref") == 0)
            push(w, target_of(root, json_string_value(v)));
        json_array_foreach(h == LIST ? v : NULL, i, one) push(w, one);
        json_object_foreach(h == MAP ? v : NULL, inner, one) push(w, one);
    }
}

ft_status ft_schema_walk(json_t *root, ft_status (*visit)(void *ctx, json_t *part, json_t *root),
                         void *ctx)
{
    walk w = {.left = json_array(), .seen = json_object()};
    ft_status status = w.left && w.seen ? FT_OK : FT_NOMEM;
    if (status == FT_OK)
        push(&w, root);
    while (status == FT_OK && !w.failed && json_array_size(w.left) > 0) {
        const size_t last = json_array_size(w.left) - 1;
        json_t *part = json_array_get(w.left, last); /* `seen` holds it, too */
        if (json_array_remove(w.left, last) != 0)
            status = FT_NOMEM;
        else
            status = visit(ctx, part, root);
        if (status == FT_OK)
            push_inner(&w, part, root);
    }
    json_decref(w.left);
    json_decref(w.seen);
    return w.failed ? FT_NOMEM : status;
}
