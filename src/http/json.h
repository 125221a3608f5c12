/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON: helpers over jansson. Internal to the room.
 */
#ifndef FT_HTTP_JSON_H
#define FT_HTTP_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* A JSON string of any bytes. Bytes that are not UTF-8 become U+FFFD. NULL: out of memory. */
json_t *ft_http_json_text(const char *data, size_t n);

/* Takes a value of any kind and appends it in compact form. FT_NOMEM, and out->failed is set; also
 * if root is NULL, as jansson returns it if memory is short. */
ft_status ft_http_json_append(json_t *root, ft_buf *out);
/* The same for an object or list, without its brackets: more members can follow. */
ft_status ft_http_json_embed(json_t *root, ft_buf *out);

#endif
