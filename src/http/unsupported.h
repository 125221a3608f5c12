/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of requests that would change the answer, and that this server cannot honour. Internal to
 * the room. Pure.
 */
#ifndef FT_HTTP_UNSUPPORTED_H
#define FT_HTTP_UNSUPPORTED_H

#include <jansson.h>
#include <stdbool.h>

#include "http/fail.h"

typedef struct ft_http_restricted {
    const char *name;     /* ends in '*': all that begin so */
    const char *harmless; /* a JSON list of the values that are accepted beside null */
    const char *only;     /* the same in words */
} ft_http_restricted;

/* FT_INVALID: root, an object, has one of these fields with another value; *fail names it.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_refuse_restricted(json_t *root, const ft_http_restricted *list,
                                                   size_t n, ft_http_fail *fail);
/* FT_INVALID: root, an object, has such a field with a value that changes something; *fail names
 * it. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_refuse_unsupported(json_t *root, ft_http_fail *fail);
/* Whether v is an empty list, object or string. */
bool ft_http_is_empty(json_t *v);

#endif
