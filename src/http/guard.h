/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of Host, Origin, Authorization and Content-Type, against web pages (DNS rebinding, forged
 * requests) and strangers. Internal to the room.
 */
#ifndef FT_HTTP_GUARD_H
#define FT_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "http/openai.h"

typedef struct ft_http_guard {
    char **hosts; /* allowed values of Host: "localhost:8080", lower case */
    size_t n_hosts;
    char **origins; /* allowed values of Origin: "http://localhost:8080", lower case */
    size_t n_origins;
    char *api_key; /* NULL: none asked */
    ft_http_whose whose;
} ft_http_guard;

/* The allowlists for a server that listens on `port`. FT_INVALID for "*", "null", names with a path
 * or a scheme where none belongs, an empty key; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_guard_init(ft_http_guard *guard, const ft_http_opts *opts,
                                            int port, ft_error *err);
void ft_http_guard_deinit(ft_http_guard *guard);

/* Whether the value is allowed; letter case is ignored. NULL is never allowed. */
bool ft_http_guard_host(const ft_http_guard *guard, const char *host);
bool ft_http_guard_origin(const ft_http_guard *guard, const char *origin);
/* header: the value of Authorization, or NULL. Whose key it is goes to `name`, "" where keys have
 * no names. Time depends on the header's length alone. */
bool ft_http_guard_key(const ft_http_guard *guard, const char *header,
                       char name[FT_HTTP_NAME_SIZE]);

/* "application/json", with at most a charset parameter that says UTF-8. */
bool ft_http_is_json_type(const char *content_type);

/* Where uri is in absolute form ("http://host/path"), *path points to its path (or is "/") and
 * authority[size] holds its host and port; else *path is uri and authority is empty. False:
 * malformed. */
bool ft_http_split_uri(const char *uri, const char **path, char *authority, size_t size);

#endif
