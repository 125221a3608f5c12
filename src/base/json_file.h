/* SPDX-License-Identifier: Apache-2.0
 *
 * Small JSON files that people write or edit. */
#ifndef FT_BASE_JSON_FILE_H
#define FT_BASE_JSON_FILE_H

#include <jansson.h>

#include "base/status.h"

#define FT_JSON_FILE_MAX 65536 /* bytes */

/* A text as JSON, no key twice in an object; the caller decrefs. FT_INVALID says in which line what is
 * wrong, and leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out);
/* A file's. FT_IO, FT_TOO_LARGE (FT_JSON_FILE_MAX bytes or more), or as parse; messages name the path. */
FT_WARN_UNUSED ft_status ft_json_load(const char *path, ft_error *err, json_t **out);
/* The same for files of less than `most` bytes. Also FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_json_load_most(const char *path, size_t most, ft_error *err,
                                           json_t **out);

#endif
