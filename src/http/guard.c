// SPDX-License-Identifier: Apache-2.0
// Checks of Host, Origin, API key and content type. The lists of allowed values are made once. A
// check compares whole strings; a request is never parsed into parts, which could be misread.
// Constant after init: any thread.
#include "http/guard.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/secret.h"

static bool in_list(const ft_buf *list, const char *text)
{
    for (const char *at = list->data; text && at < list->data + list->len; at += strlen(at) + 1)
        if (strcasecmp(at, text) == 0)
            return true;
    return false;
}

bool ft_http_guard_host(const ft_http_guard *guard, const char *host)
{
    return in_list(&guard->hosts, host);
}

bool ft_http_guard_origin(const ft_http_guard *guard, const char *origin)
{
    return in_list(&guard->origins, origin);
}

static const char *bearer(const char *authorization)
{
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

bool ft_http_guard_key(const ft_http_guard *guard, const char *authorization, const char *api_key,
                       char name[FT_HTTP_NAME_SIZE])
{
    name[0] = 0;
    if (!guard->api_key && !guard->whose.find)
        return true;
    const char *key = authorization ? bearer(authorization) : api_key;
    if (!key)
        return false;
    return guard->whose.find ? guard->whose.find(guard->whose.ctx, key, name)
                             : ft_secret_equal_str(guard->api_key, key);
}

bool ft_http_is_json_type(const char *content_type)
{
    static const char pattern[] =
        "^application/json[ \t]*(;[ \t]*(charset=(utf-8|\"utf-8\")[ \t]*)?)?$";
    regex_t regex;
    if (!content_type || regcomp(&regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB) != 0)
        return false;
    const bool fits = regexec(&regex, content_type, 0, NULL, 0) == 0;
    regfree(&regex);
    return fits;
}

bool ft_http_split_uri(const char *uri, const char **path, char *authority, size_t size)
{
    size_t skip = 0;
    authority[0] = 0;
    *path = uri;
    if (strncasecmp(uri, "http://", 7) == 0)
        skip = 7;
    else if (strncasecmp(uri, "https://", 8) == 0)
        skip = 8;
    if (skip == 0)
        return uri[0] == '/' || strcmp(uri, "*") == 0;
    size_t n = strcspn(uri + skip, "/");
    if (n == 0 || n >= size || memchr(uri + skip, '@', n))
        return false;
    memcpy(authority, uri + skip, n);
    authority[n] = 0;
    *path = uri[skip + n] ? uri + skip + n : "/";
    return true;
}

/* One of our own names: allowed with our port, without one where ours is the scheme's default, both
 * as Host and as Origin. */
static void add_own(ft_http_guard *guard, const char *name, int port, bool tls)
{
    const char *scheme = tls ? "https" : "http";
    ft_buf_printf(&guard->hosts, "%s:%d%c", name, port, 0);
    ft_buf_printf(&guard->origins, "%s://%s:%d%c", scheme, name, port, 0);
    if (port == (tls ? 443 : 80)) {
        ft_buf_printf(&guard->hosts, "%s%c", name, 0);
        ft_buf_printf(&guard->origins, "%s://%s%c", scheme, name, 0);
    }
}

static bool has_port(const char *name)
{
    const char *after = name[0] == '[' ? strchr(name, ']') : name;
    return after && strchr(after, ':');
}

/* A page that came from this name has its origin: our own, /, does. */
static ft_status add_allowed_host(ft_http_guard *guard, const char *name, int port, bool tls,
                                  ft_error *err)
{
    const char *scheme = tls ? "https" : "http";
    if (!name || name[0] == 0 || strpbrk(name, "*/@, \t") ||
        (name[0] != '[' && strchr(name, ':') != strrchr(name, ':')))
        return ft_error_set(err, FT_INVALID,
                            "http: allowed host '%s' is no host: write NAME or NAME:PORT as "
                            "clients put it into Host ([ADDRESS]:PORT for IPv6); there is no "
                            "wildcard",
                            name ? name : "");
    ft_buf_printf(&guard->hosts, "%s%c", name, 0);
    ft_buf_printf(&guard->origins, "%s://%s%c", scheme, name, 0);
    if (!has_port(name)) {
        ft_buf_printf(&guard->hosts, "%s:%d%c", name, port, 0);
        ft_buf_printf(&guard->origins, "%s://%s:%d%c", scheme, name, port, 0);
    }
    return FT_OK;
}

static ft_status add_allowed_origin(ft_http_guard *guard, const char *origin, ft_error *err)
{
    const char *rest = origin ? strstr(origin, "://") : NULL;
    if (!rest || rest == origin || rest[3] == 0 || strpbrk(rest + 3, "*/@, \t"))
        return ft_error_set(err, FT_INVALID,
                            "http: allowed origin '%s' is no origin: write SCHEME://HOST[:PORT] "
                            "without a path, as browsers send it; there is no wildcard, and "
                            "'null' is never allowed",
                            origin ? origin : "");
    ft_buf_printf(&guard->origins, "%s%c", origin, 0);
    return FT_OK;
}

/* The name under which clients reach the address we bind, unless it is a wildcard. */
static void add_bound(ft_http_guard *guard, const char *host, int port, bool tls)
{
    char name[256];
    if (!host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0)
        return;
    snprintf(name, sizeof name, strchr(host, ':') ? "[%s]" : "%s", host);
    if (!ft_http_guard_host(guard, name))
        add_own(guard, name, port, tls);
}

ft_status ft_http_guard_init(ft_http_guard *guard, const ft_http_opts *opts, int port,
                             ft_error *err)
{
    const bool tls = opts->tls_cert != NULL;
    *guard = (ft_http_guard){.whose = opts->whose};
    ft_status status = FT_OK;
    if (opts->api_key && opts->whose.find)
        return ft_error_set(err, FT_INVALID, "http: one API key, or several with names, not both");
    if (opts->api_key && opts->api_key[0] == 0)
        return ft_error_set(err, FT_INVALID, "http: the API key is empty");
    if (opts->api_key)
        guard->api_key = strdup(opts->api_key);
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < 3; i++)
        add_own(guard, own[i], port, tls);
    add_bound(guard, opts->host, port, tls);
    for (size_t i = 0; status == FT_OK && i < opts->n_allow_hosts; i++)
        status = add_allowed_host(guard, opts->allow_hosts[i], port, tls, err);
    for (size_t i = 0; status == FT_OK && i < opts->n_allow_origins; i++)
        status = add_allowed_origin(guard, opts->allow_origins[i], err);
    if (guard->hosts.failed || guard->origins.failed || !guard->api_key != !opts->api_key)
        status = ft_error_set(err, FT_NOMEM, "http: out of memory");
    if (status != FT_OK)
        ft_http_guard_deinit(guard);
    return status;
}

void ft_http_guard_deinit(ft_http_guard *guard)
{
    ft_buf_deinit(&guard->hosts);
    ft_buf_deinit(&guard->origins);
    free(guard->api_key);
    *guard = (ft_http_guard){0};
}
