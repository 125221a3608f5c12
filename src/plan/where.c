// SPDX-License-Identifier: Apache-2.0
// Finds a value in a JSON text. The text is known to be right, so nothing is checked again, but
// that it does not end. Pure.
#include "plan/where.h"

#include <stdbool.h>
#include <string.h>

static const char *skip_blank(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* Behind a string that begins here. */
static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* Behind a value that begins here. */
static const char *skip_value(const char *p)
{
    size_t depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            depth -= depth > 0;
            p++;
        } else if (depth > 0) {
            p += *p != 0;
        } else {
            return p + strcspn(p, ",]} \t\r\n"); /* a number or a word */
        }
    } while (*p && depth > 0);
    return p;
}

/* The value of a key or the item of a number; NULL: there is none. */
static const char *enter(const char *p, const ft_plan_step *step)
{
    if (*p != (step->key ? '{' : '['))
        return NULL;
    p = skip_blank(p + 1);
    for (size_t i = 0; *p && *p != '}' && *p != ']'; i++) {
        bool found = !step->key && i == step->index;
        if (step->key) {
            const char *name = p + 1;
            const size_t n = strlen(step->key);
            p = skip_string(p);
            found = (size_t)(p - name) == n + 1 && memcmp(name, step->key, n) == 0;
            p = skip_blank(p);
            p = skip_blank(p + (*p == ':'));
        }
        if (found)
            return p;
        p = skip_blank(skip_value(p));
        p = skip_blank(p + (*p == ','));
    }
    return NULL;
}

size_t ft_plan_line(const char *text, const ft_plan_step *steps, size_t n)
{
    const char *at = skip_blank(text);
    size_t line = 1;
    for (size_t i = 0; i < n; i++) {
        const char *next = enter(at, &steps[i]);
        if (!next)
            break;
        at = next;
    }
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return line;
}
