/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client may ask an answer's text to be: JSON, JSON of a schema, a text of a grammar. Plain
 * data, from the HTTP API to the server that draws. constrain/constraint.h compiles it.
 */
#ifndef FT_BASE_CONSTRAINT_H
#define FT_BASE_CONSTRAINT_H

#include <stddef.h>

/* The values are those of the wire. */
typedef enum ft_constraint_kind {
    FT_CONSTRAINT_NONE,
    FT_CONSTRAINT_JSON_OBJECT, /* any JSON object; no bytes */
    FT_CONSTRAINT_JSON_SCHEMA,
    FT_CONSTRAINT_GRAMMAR, /* EBNF; the rule `root` */
    FT_CONSTRAINT_REGEX,   /* matches the whole text */
    FT_CONSTRAINT_CALL,    /* a call of one of several tools (constrain/calls.h) */
    FT_CONSTRAINT_KINDS
} ft_constraint_kind;

/* A schema of a large API is below 20 KiB. Twice as much lets a hostile one compile for twice as
 * long. */
#define FT_CONSTRAINT_MAX_BYTES (64 * 1024)

typedef struct ft_constraint {
    ft_constraint_kind kind;
    const char *data; /* [n] UTF-8 */
    size_t n;         /* at most FT_CONSTRAINT_MAX_BYTES */
} ft_constraint;

#endif
