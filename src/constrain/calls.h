/* SPDX-License-Identifier: Apache-2.0
 *
 * FT_CONSTRAINT_CALL: a model must call one of several tools. Its data are JSON, an object with
 *   "calls": a list of {"begin": string, "schema": a JSON Schema, "end": string}. A call is
 *     `begin`, then JSON that fits `schema`, then `end`, all of one entry.
 *   "mark": a string, optional. Without it the text is one call. With it the text is any, but what
 *     follows a mark is a call.
 *   "many": with a mark: whether more may follow the first call.
 * So templates that write calls differently need no code here. Pure; any thread. Internal to the
 * room.
 */
#ifndef FT_CONSTRAIN_CALLS_H
#define FT_CONSTRAIN_CALLS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/constraint.h"
#include "base/status.h"

typedef struct ft_call_form {
    const char *begin, *end;
    json_t *schema;
} ft_call_form;

/* What it points to is borrowed from `root`. */
typedef struct ft_call_forms {
    json_t *root;
    const char *mark; /* NULL: none */
    bool many;
    ft_call_form *form; /* [n], n > 0 */
    size_t n;
} ft_call_forms;

/* *out was empty; whoever got it deinits it. FT_INVALID: it has another form; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_call_forms_read(const ft_constraint *c, ft_error *err,
                                            ft_call_forms *out);
void ft_call_forms_deinit(ft_call_forms *forms);

#endif
