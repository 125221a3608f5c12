/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON Schema as XGrammar takes it: its keywords, a walk over its parts, which of them it does
 * not hold where they stand, and the few things that are written anew so that it does. Pure; any
 * thread. Internal to the room.
 */
#ifndef FT_CONSTRAIN_SCHEMA_H
#define FT_CONSTRAIN_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a keyword needs beside it, to take effect. */
typedef enum ft_schema_scope {
    FT_SCHEMA_NOTE,   /* it asserts nothing */
    FT_SCHEMA_WHOLE,  /* it alone is taken: no other one may assert anything */
    FT_SCHEMA_VALUES, /* the same, but a type may stand beside it if its values have that type */
    FT_SCHEMA_TYPE,   /* `type` itself */
    FT_SCHEMA_TYPED,  /* taken if there is a type */
    FT_SCHEMA_SHAPE,  /* taken with a type, and means one without it */
    FT_SCHEMA_NEVER   /* not supported */
} ft_schema_scope;

/* NOTE if the keyword is unknown: it asserts nothing in JSON Schema either. */
ft_schema_scope ft_schema_scope_of(const char *keyword);

/* Calls `visit` once for each part of a schema, and for what a $ref in it leads to; the whole is
 * the first. A part that `visit` changes is walked as it is then. Nothing recurses. FT_NOMEM, or
 * what `visit` returned. */
FT_WARN_UNUSED ft_status ft_schema_walk(json_t *root,
                                        ft_status (*visit)(void *ctx, json_t *part, json_t *root),
                                        void *ctx);

/* Adds a keyword to names that a message lists, once. */
void ft_schema_name(ft_buf *names, const char *keyword);

/* Adds the keywords of one part that XGrammar does not hold beside the others there. */
void ft_schema_check_pairs(const json_t *part, ft_buf *names);

/* Writes anew what XGrammar would read wrongly: required members that `properties` does not list,
 * formats whose texts it does not escape, patterns of other letters. *changed: whether there was
 * something. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_schema_rewrite(json_t *root, bool *changed);

#ifdef __cplusplus
}
#endif
#endif
