/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON, and small JSON files that people write or edit. Any thread. */
#ifndef FT_BASE_JSON_FILE_H
#define FT_BASE_JSON_FILE_H

#include <jansson.h>

#include "base/status.h"

#define FT_JSON_FILE_MAX 65536 /* bytes */

/* Reads a text as JSON; an object must not have a key twice. The caller decrefs *out, which is NULL
 * after an error. FT_INVALID: *at says where and why; FT_NOMEM. (jansson's own functions that read
 * may leave out parts of a text if memory runs out.) */
FT_WARN_UNUSED ft_status ft_json_read(const char *text, size_t n, json_error_t *at, json_t **out);
/* The same; FT_INVALID names the line and the error. */
FT_WARN_UNUSED ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out);
/* Parses a file. FT_IO, FT_TOO_LARGE (FT_JSON_FILE_MAX bytes or more), or as ft_json_parse;
 * messages name the path. */
FT_WARN_UNUSED ft_status ft_json_load(const char *path, ft_error *err, json_t **out);
/* The same for files of less than `most` bytes. Also FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_json_load_most(const char *path, size_t most, ft_error *err,
                                           json_t **out);

#endif
