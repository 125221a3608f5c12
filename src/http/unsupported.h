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

/* FT_INVALID: root, an object, has such a field with a value that changes something; *fail names
 * it. */
FT_WARN_UNUSED ft_status ft_http_refuse_unsupported(json_t *root, ft_http_fail *fail);
/* Whether v is an empty list, object or string. */
bool ft_http_is_empty(json_t *v);

#endif
