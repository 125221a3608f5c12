/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of Host, Origin, Authorization and Content-Type. They protect against web pages (DNS
 * rebinding, forged requests) and strangers. Internal to the room.
 */
#ifndef FT_HTTP_GUARD_H
#define FT_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "http/openai.h"

typedef struct ft_http_guard {
    ft_buf hosts;   /* allowed values of Host, such as "localhost:8080"; a NUL ends each */
    ft_buf origins; /* allowed values of Origin, such as "http://localhost:8080"; so too */
    char *api_key;  /* NULL: none is asked for */
    ft_http_whose whose;
} ft_http_guard;

/* Makes the lists for a server that listens on `port`. FT_INVALID: a name in opts is "*" or "null",
 * has a path or a scheme where none belongs, or the key is empty. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_guard_init(ft_http_guard *guard, const ft_http_opts *opts,
                                            int port, ft_error *err);
void ft_http_guard_deinit(ft_http_guard *guard);

/* Whether the value is allowed; letter case is ignored. NULL is never allowed. */
bool ft_http_guard_host(const ft_http_guard *guard, const char *host);
bool ft_http_guard_origin(const ft_http_guard *guard, const char *origin);
/* The values of Authorization and X-Api-Key, or NULL; the latter counts if the former is NULL.
 * Writes the name of the key into `name`; "" if keys have no names. The time it takes depends only
 * on the header's length. */
bool ft_http_guard_key(const ft_http_guard *guard, const char *authorization, const char *api_key,
                       char name[FT_HTTP_NAME_SIZE]);

/* "application/json", with at most a charset parameter that says UTF-8. */
bool ft_http_is_json_type(const char *content_type);

/* Finds the path of a URI. In absolute form ("http://host/path"), authority[size] gets its host and
 * port, and *path points to its path, or is "/". Else *path is uri and authority is empty. False:
 * the URI is malformed. */
bool ft_http_split_uri(const char *uri, const char **path, char *authority, size_t size);

#endif
