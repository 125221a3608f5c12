// SPDX-License-Identifier: Apache-2.0
// From the API's flags to a listening server: key, OpenAI backend, HTTP. The main thread creates
// and destroys; everything between is the HTTP server's threads'. Does not make the edge behind it.
#include "cmd/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmd/endpoint.h"
#include "edge/openai_backend.h"

struct ft_api {
    char *key; /* of api_key_file */
    ft_openai *openai;
    ft_http *http;
};

static const ft_flag api_rows[] = {
    {"--alias", "-a", FT_FLAG(ft_api_flags, alias), "NAME",
     "model name of the API; default: the server's"},
    {"--api-key", NULL, FT_FLAG(ft_api_flags, api_key), "SECRET", "key that apps must present"},
    {"--api-key-file", NULL, FT_FLAG(ft_api_flags, api_key_file), "FILE", "the same, from a file"},
    {"--allow-host", NULL, FT_FLAG(ft_api_flags, allow_hosts), "HOST:PORT",
     "a Host header to accept besides loopback's (repeatable)"},
    {"--allow-origin", NULL, FT_FLAG(ft_api_flags, allow_origins), "URL",
     "a web page's origin to accept (repeatable)"},
    {"--https-cert", NULL, FT_FLAG(ft_api_flags, https_cert), "FILE",
     "certificate (PEM) of the API: https"},
    {"--https-key", NULL, FT_FLAG(ft_api_flags, https_key), "FILE", "its key"},
};
const ft_flag_group ft_flags_api = FT_FLAG_ROWS(api_rows);

bool ft_api_flags_given(const ft_api_flags *flags)
{
    return flags->alias || flags->api_key || flags->api_key_file || flags->https_cert ||
           flags->https_key || flags->allow_hosts.n > 0 || flags->allow_origins.n > 0;
}

ft_status ft_api_flags_check(const ft_api_flags *flags, const char *who, const char *host_flag,
                             const char *host, bool insecure, ft_error *err)
{
    if (flags->api_key && flags->api_key_file)
        return ft_error_set(err, FT_INVALID, "%s: the API's key comes by flag or by file, not both",
                            who);
    if (!flags->https_cert != !flags->https_key)
        return ft_error_set(err, FT_INVALID, "%s: --https-cert and --https-key go together", who);
    if (!flags->api_key && !flags->api_key_file && !insecure && !ft_cmd_is_loopback(host))
        return ft_error_set(err, FT_INVALID,
                            "%s: %s %s lets others in: pass --api-key-file, or --insecure", who,
                            host_flag, host);
    return FT_OK;
}

static bool whose(void *ctx, const char *token, char name[FT_HTTP_NAME_SIZE])
{
    ft_key key;
    bool known = ft_keyring_find(ctx, token, &key);
    if (known)
        snprintf(name, FT_HTTP_NAME_SIZE, "%s", key.name);
    return known;
}

static ft_status start(ft_api *api, const ft_api_opts *opts, ft_error *err)
{
    const ft_api_flags *f = opts->flags;
    const ft_openai_opts openai = {.edge = opts->edge,
                                   .vocab = opts->vocab,
                                   .model_id = f->alias,
                                   .no_speculation = opts->no_speculation};
    ft_status status = FT_OK;
    if (f->api_key_file)
        status = ft_cmd_read_secret(f->api_key_file, err, &api->key);
    if (status == FT_OK)
        status = ft_openai_create(&openai, err, &api->openai);
    if (status != FT_OK)
        return status;
    const ft_http_opts http = {.host = opts->host,
                               .port = opts->port,
                               .api_key = api->key ? api->key : f->api_key,
                               .whose = {.ctx = opts->keys, .find = opts->keys ? whose : NULL},
                               .allow_hosts = f->allow_hosts.item,
                               .n_allow_hosts = f->allow_hosts.n,
                               .allow_origins = f->allow_origins.item,
                               .n_allow_origins = f->allow_origins.n,
                               .tls_cert = f->https_cert,
                               .tls_key = f->https_key,
                               .max_connections = opts->max_connections,
                               .backend = ft_openai_backend(api->openai)};
    return ft_http_create(&http, err, &api->http);
}

ft_status ft_api_create(const ft_api_opts *opts, ft_error *err, ft_api **out)
{
    ft_api *api = calloc(1, sizeof *api);
    *out = NULL;
    if (!api)
        return ft_error_set(err, FT_NOMEM, "out of memory for the API");
    ft_status status = start(api, opts, err);
    if (status != FT_OK)
        ft_api_destroy(api);
    else
        *out = api;
    return status;
}

int ft_api_port(const ft_api *api)
{
    return ft_http_port(api->http);
}

void ft_api_set_absent(ft_api *api, const char *why)
{
    ft_openai_set_absent(api->openai, why);
}

void ft_api_set_edge(ft_api *api, ft_edge *edge)
{
    ft_openai_set_edge(api->openai, edge);
}

void ft_api_drain(ft_api *api, int64_t timeout_us)
{
    if (api)
        ft_http_drain(api->http, timeout_us);
}

void ft_api_destroy(ft_api *api)
{
    if (!api)
        return;
    ft_http_destroy(api->http);
    ft_openai_destroy(api->openai);
    free(api->key);
    free(api);
}
