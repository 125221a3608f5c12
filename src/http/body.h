/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON object in a request's body. Internal to the room.
 */
#ifndef FT_HTTP_BODY_H
#define FT_HTTP_BODY_H

#include <jansson.h>
#include <stddef.h>

#include "http/fail.h"

/* A parsed value takes more memory than its text: an empty object 220 bytes instead of 3. */
#define FT_HTTP_OBJECTS_MAX 16384
#define FT_HTTP_VALUES_MAX  (1 << 18) /* of all kinds: a prompt of token ids has many */
/* A body has so many bytes beside its text and its prediction: names of fields, stop strings. */
#define FT_HTTP_OTHER_BYTES ((size_t)64 << 10)

/* The values of texts that are JSON. */
typedef struct ft_http_sizes {
    size_t objects, values; /* values: of all kinds */
} ft_http_sizes;

/* Adds those of a string in a body that will be parsed, too, before it is. param: its path.
 * FT_INVALID: 413, as together they are too many. */
FT_WARN_UNUSED ft_status ft_http_body_add(const char *text, size_t n, const char *param,
                                          ft_http_sizes *sum, ft_http_fail *fail);

/* Parses body[0..n). text: the field that holds most of it. FT_INVALID: 400, also for strings that
 * have FT_HTTP_OTHER_BYTES more than twice most_bytes, those of the longest text; 413 if it has too
 * many values. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_body_read(const char *body, size_t n, const char *text,
                                           size_t most_bytes, ft_http_fail *fail, json_t **out);

#endif
