// SPDX-License-Identifier: Apache-2.0
// Allowlists of Host and Origin, the API key, the content type. The lists are full strings made
// once, so that a check is a comparison and nothing of a request is ever parsed into parts that
// could be misread. Immutable after init: any thread.
#include "http/guard.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/secret.h"

static bool in_list(char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; text && i < n; i++)
        if (strcasecmp(list[i], text) == 0)
            return true;
    return false;
}

bool ft_http_guard_host(const ft_http_guard *guard, const char *host)
{
    return in_list(guard->hosts, guard->n_hosts, host);
}

bool ft_http_guard_origin(const ft_http_guard *guard, const char *origin)
{
    return in_list(guard->origins, guard->n_origins, origin);
}

bool ft_http_guard_key(const ft_http_guard *guard, const char *header, char name[FT_HTTP_NAME_SIZE])
{
    name[0] = 0;
    if (!guard->api_key && !guard->whose.find)
        return true;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return false;
    header += 7;
    while (*header == ' ')
        header++;
    return guard->whose.find ? guard->whose.find(guard->whose.ctx, header, name)
                             : ft_secret_equal_str(guard->api_key, header);
}

bool ft_http_is_json_type(const char *content_type)
{
    static const char type[] = "application/json";
    if (!content_type || strncasecmp(content_type, type, sizeof type - 1) != 0)
        return false;
    const char *p = content_type + sizeof type - 1;
    p += strspn(p, " \t");
    if (*p == 0)
        return true;
    if (*p++ != ';')
        return false;
    p += strspn(p, " \t");
    if (*p == 0)
        return true;
    if (strncasecmp(p, "charset=", 8) != 0)
        return false;
    p += 8;
    bool quoted = *p == '"';
    p += quoted;
    if (strncasecmp(p, "utf-8", 5) != 0 || (quoted && p[5] != '"'))
        return false;
    p += 5 + quoted;
    return p[strspn(p, " \t")] == 0;
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

/* Appends a lower-case copy of prefix + name + suffix. */
static ft_status add(char ***list, size_t *n, const char *prefix, const char *name,
                     const char *suffix)
{
    ft_buf text = {0};
    char **longer = realloc(*list, (*n + 1) * sizeof **list);
    if (!longer)
        return FT_NOMEM;
    *list = longer;
    ft_buf_puts(&text, prefix);
    ft_buf_puts(&text, name);
    ft_buf_puts(&text, suffix);
    if (text.failed || !text.data) {
        ft_buf_deinit(&text);
        return FT_NOMEM;
    }
    for (char *c = text.data; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    longer[(*n)++] = text.data;
    return FT_OK;
}

/* One of our own names: allowed with our port, without one where ours is the scheme's default, both
 * as Host and as Origin. */
static ft_status add_own(ft_http_guard *guard, const char *name, int port, bool tls)
{
    const char *scheme = tls ? "https://" : "http://";
    bool is_default = port == (tls ? 443 : 80);
    char suffix[16];
    snprintf(suffix, sizeof suffix, ":%d", port);
    ft_status status = add(&guard->hosts, &guard->n_hosts, "", name, suffix);
    if (status == FT_OK)
        status = add(&guard->origins, &guard->n_origins, scheme, name, suffix);
    if (status == FT_OK && is_default)
        status = add(&guard->hosts, &guard->n_hosts, "", name, "");
    if (status == FT_OK && is_default)
        status = add(&guard->origins, &guard->n_origins, scheme, name, "");
    return status;
}

static bool has_port(const char *name)
{
    const char *after = name[0] == '[' ? strchr(name, ']') : name;
    return after && strchr(after, ':');
}

static ft_status add_allowed_host(ft_http_guard *guard, const char *name, int port, ft_error *err)
{
    if (!name || name[0] == 0 || strpbrk(name, "*/@, \t") ||
        (name[0] != '[' && strchr(name, ':') != strrchr(name, ':')))
        return ft_error_set(err, FT_INVALID,
                            "http: allowed host '%s' is no host: write NAME or NAME:PORT as "
                            "clients put it into Host ([ADDRESS]:PORT for IPv6); there is no "
                            "wildcard",
                            name ? name : "");
    char suffix[16];
    snprintf(suffix, sizeof suffix, ":%d", port);
    ft_status status = add(&guard->hosts, &guard->n_hosts, "", name, "");
    if (status == FT_OK && !has_port(name))
        status = add(&guard->hosts, &guard->n_hosts, "", name, suffix);
    return status;
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
    return add(&guard->origins, &guard->n_origins, "", origin, "");
}

/* The name under which clients reach the address we bind, unless it is a wildcard. */
static ft_status add_bound(ft_http_guard *guard, const char *host, int port, bool tls)
{
    char name[256];
    if (!host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0)
        return FT_OK;
    snprintf(name, sizeof name, strchr(host, ':') ? "[%s]" : "%s", host);
    return ft_http_guard_host(guard, name) ? FT_OK : add_own(guard, name, port, tls);
}

ft_status ft_http_guard_init(ft_http_guard *guard, const ft_http_opts *opts, int port,
                             ft_error *err)
{
    bool tls = opts->tls_cert != NULL;
    *guard = (ft_http_guard){.whose = opts->whose};
    ft_status status = FT_OK;
    if (opts->api_key && opts->whose.find)
        return ft_error_set(err, FT_INVALID, "http: one API key, or several with names, not both");
    if (opts->api_key && opts->api_key[0] == 0)
        return ft_error_set(err, FT_INVALID, "http: the API key is empty");
    if (opts->api_key && !(guard->api_key = strdup(opts->api_key)))
        status = FT_NOMEM;
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; status == FT_OK && i < 3; i++)
        status = add_own(guard, own[i], port, tls);
    if (status == FT_OK)
        status = add_bound(guard, opts->host, port, tls);
    for (size_t i = 0; status == FT_OK && i < opts->n_allow_hosts; i++)
        status = add_allowed_host(guard, opts->allow_hosts[i], port, err);
    for (size_t i = 0; status == FT_OK && i < opts->n_allow_origins; i++)
        status = add_allowed_origin(guard, opts->allow_origins[i], err);
    if (status == FT_NOMEM)
        ft_error_set(err, FT_NOMEM, "http: out of memory");
    if (status != FT_OK)
        ft_http_guard_deinit(guard);
    return status;
}

void ft_http_guard_deinit(ft_http_guard *guard)
{
    for (size_t i = 0; i < guard->n_hosts; i++)
        free(guard->hosts[i]);
    for (size_t i = 0; i < guard->n_origins; i++)
        free(guard->origins[i]);
    free(guard->hosts);
    free(guard->origins);
    free(guard->api_key);
    *guard = (ft_http_guard){0};
}
