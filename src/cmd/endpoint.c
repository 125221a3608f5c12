// SPDX-License-Identifier: Apache-2.0
// Secrets from files, port files, addresses, loopback names. No state.
#include "cmd/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/keys.h"

#define SECRET_MAX 4096

ft_status ft_cmd_check_secret(const char *secret, const char *who, ft_error *err)
{
    if (!secret || strlen(secret) >= FT_KEY_TOKEN_MIN)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "%s: a secret of %zu bytes can be guessed: it must have %d at least, as "
                        "`openssl rand -hex 16` makes them",
                        who, strlen(secret), FT_KEY_TOKEN_MIN);
}

ft_status ft_cmd_read_secret(const char *path, ft_error *err, char **out)
{
    char line[SECRET_MAX + 2] = "";
    FILE *f = fopen(path, "r");
    *out = NULL;
    if (!f)
        return ft_error_set(err, FT_IO, "cannot read %s: %s", path, strerror(errno));
    bool got = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    size_t n = strcspn(line, "\r\n");
    if (!got || n == 0 || n > SECRET_MAX)
        return ft_error_set(err, FT_INVALID, "%s: its first line must be a secret of 1 to %d bytes",
                            path, SECRET_MAX);
    line[n] = 0;
    *out = strdup(line);
    return *out ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
}

ft_status ft_cmd_write_port(const char *path, int port, ft_error *err)
{
    char temporary[4096];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        return ft_error_set(err, FT_INVALID, "the port file's path is too long");
    FILE *f = fopen(temporary, "w");
    bool ok = f && fprintf(f, "%d\n", port) > 0;
    if (f && fclose(f) != 0)
        ok = false;
    if (ok && rename(temporary, path) == 0)
        return FT_OK;
    return ft_error_set(err, FT_IO, "cannot write %s: %s", path, strerror(errno));
}

bool ft_cmd_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "[::1]") == 0 || strncmp(host, "127.", 4) == 0;
}

ft_status ft_cmd_parse_endpoint(const char *text, const char *what, ft_error *err, char host[256],
                                int *port)
{
    const char *colon = strrchr(text, ':');
    const char *number = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n >= 2 && text[0] == '[' && text[n - 1] == ']';
    char *end = NULL;
    errno = 0;
    long value = strtol(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || errno || value > 65535 || n >= 256 ||
        (colon && n == 0) || (!bracketed && memchr(text, ':', n)))
        return ft_error_set(err, FT_INVALID,
                            "%s: '%.100s' is no HOST:PORT: write, for example, 127.0.0.1:9411 or "
                            "[::1]:9411",
                            what, text);
    if (n == 0)
        snprintf(host, 256, "127.0.0.1");
    else if (bracketed)
        snprintf(host, 256, "%.*s", (int)n - 2, text + 1);
    else
        snprintf(host, 256, "%.*s", (int)n, text);
    *port = (int)value;
    return FT_OK;
}
