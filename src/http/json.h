/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON out: two helpers over jansson. Internal to the room.
 */
#ifndef FT_HTTP_JSON_H
#define FT_HTTP_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL: out of memory. */
json_t *ft_http_json_text(const char *data, size_t n);

/* Takes root, appends it in compact form. FT_NOMEM, also where root is NULL (it could not be
 * made). */
ft_status ft_http_json_append(json_t *root, ft_buf *out);

#endif
