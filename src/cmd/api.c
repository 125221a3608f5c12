// SPDX-License-Identifier: Apache-2.0
// From the API's flags to a listening server: key, OpenAI backend, HTTP. The main thread starts and
// stops; the HTTP server's threads do the rest. Does not make the edge behind it.
#include "cmd/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/endpoint.h"

static const char *const reasoning_choices[] = {
    [FT_HTTP_REASONING_AUTO] = "auto", [FT_HTTP_REASONING_NONE] = "none", NULL};

static const ft_flag api_rows[] = {
    {"--alias", "-a", FT_FLAG(ft_api_flags, alias), "NAME",
     "name of the model in the API, default: the server's; repeated: further names"},
    {"--api-key", NULL, FT_FLAG(ft_api_flags, http.api_key), "SECRET",
     "key that apps must present"},
    {"--api-key-file", NULL, FT_FLAG(ft_api_flags, api_key_file), "FILE", "the same, from a file"},
    {"--allow-host", NULL, FT_FLAG(ft_api_flags, allow_hosts), "HOST:PORT",
     "a Host header to accept besides those of loopback addresses"},
    {"--allow-origin", NULL, FT_FLAG(ft_api_flags, allow_origins), "URL",
     "origin of web pages that may use the API"},
    {"--chat-template", NULL, FT_FLAG(ft_api_flags, chat_template_file), "FILE",
     "a chat template (Jinja) instead of the model's own"},
    {"--reasoning", NULL, FT_FLAG_ENUM(ft_api_flags, http.reasoning, reasoning_choices), "HOW",
     "thoughts between <think> marks: auto (apart, as reasoning_content), none (left in content)"},
    {"--no-page", NULL, FT_FLAG(ft_api_flags, http.no_page), NULL,
     "no pages for people: no chat at /, and of serve --metrics no /dashboard"},
    {"--https-cert", NULL, FT_FLAG(ft_api_flags, http.tls_cert), "FILE",
     "certificate of the API (PEM): serve https; SIGHUP reads it again"},
    {"--https-key", NULL, FT_FLAG(ft_api_flags, http.tls_key), "FILE", "its private key (PEM)"},
};
const ft_flag_group ft_flags_api = FT_FLAG_ROWS(api_rows);

static const ft_flag client_rows[] = {
    {"--per-client-share", NULL, FT_FLAG(ft_api_flags, http.client_share), "PERCENT",
     "of connections that one client may have; 0: 25, but 100 (all) on a loopback address", 0, 100},
    {"--trusted-proxy", NULL, FT_FLAG(ft_api_flags, trusted_proxies), "CIDR",
     "networks of proxies whose X-Forwarded-For tells the client's address"},
};
const ft_flag_group ft_flags_api_clients = FT_FLAG_ROWS(client_rows);

bool ft_api_flags_given(const ft_api_flags *flags)
{
    return flags->alias.n > 0 || flags->http.api_key || flags->api_key_file ||
           flags->chat_template_file || flags->http.tls_cert || flags->http.tls_key ||
           flags->allow_hosts.n > 0 || flags->allow_origins.n > 0;
}

static ft_status read_clients(ft_api_flags *flags, const char *who, ft_error *err)
{
    ft_status status = FT_OK;
    char name[64];
    snprintf(name, sizeof name, "%s: --trusted-proxy", who);
    for (size_t i = 0; status == FT_OK && i < flags->trusted_proxies.n; i++)
        status = ft_networks_parse(name, flags->trusted_proxies.item[i], err, &flags->proxies);
    if (flags->http.client_share == 0) /* the programs of one machine are one client */
        flags->http.client_share = ft_cmd_is_loopback(flags->http.host) ? 100 : 25;
    return status;
}

ft_status ft_api_flags_check(ft_api_flags *flags, const char *who, const char *host_flag,
                             bool insecure, ft_error *err)
{
    const ft_http_opts *http = &flags->http;
    if (http->api_key && flags->api_key_file)
        return ft_error_set(err, FT_INVALID, "%s: the API's key comes by flag or by file, not both",
                            who);
    if (ft_cmd_check_secret(http->api_key, "the API's key", err) != FT_OK)
        return FT_INVALID;
    if (!http->tls_cert != !http->tls_key)
        return ft_error_set(err, FT_INVALID, "%s: --https-cert and --https-key go together", who);
    if (!http->api_key && !flags->api_key_file && !insecure && !ft_cmd_is_loopback(http->host))
        return ft_error_set(err, FT_INVALID,
                            "%s: %s %s lets others in: pass --api-key-file, or --insecure", who,
                            host_flag, http->host);
    return read_clients(flags, who, err);
}

static bool whose(void *ctx, const char *token, char name[FT_HTTP_NAME_SIZE])
{
    ft_key key;
    bool known = ft_keyring_find(ctx, token, &key);
    if (known)
        snprintf(name, FT_HTTP_NAME_SIZE, "%s", key.name);
    return known;
}

static ft_status read_template(const char *path, ft_error *err, char **out)
{
    size_t n;
    const ft_status status = ft_file_read(path, (size_t)1 << 20, err, out, &n);
    return status == FT_OK && n != strlen(*out)
               ? ft_error_set(err, FT_INVALID, "%s: a chat template is text", path)
               : status;
}

ft_status ft_api_start(ft_api *api, const ft_api_flags *flags, ft_openai_opts openai,
                       ft_keyring *keys, ft_error *err)
{
    ft_http_opts http = flags->http;
    ft_status status = FT_OK;
    if (flags->alias.n > 0) {
        openai.model_id = flags->alias.item[0];
        openai.aliases = flags->alias.item + 1;
        openai.n_aliases = flags->alias.n - 1;
    }
    if (flags->api_key_file) {
        status = ft_cmd_read_secret(flags->api_key_file, err, &api->key);
        http.api_key = api->key;
        if (status == FT_OK)
            status = ft_cmd_check_secret(http.api_key, "the API's key", err);
    }
    char *source = NULL;
    if (status == FT_OK && flags->chat_template_file)
        status = read_template(flags->chat_template_file, err, &source);
    openai.chat_template = source;
    if (status == FT_OK)
        status = ft_openai_create(&openai, err, &api->openai);
    free(source);
    if (status != FT_OK)
        return status;
    if (keys)
        http.whose = (ft_http_whose){.ctx = keys, .find = whose};
    http.allow_hosts = flags->allow_hosts.item;
    http.n_allow_hosts = flags->allow_hosts.n;
    http.allow_origins = flags->allow_origins.item;
    http.n_allow_origins = flags->allow_origins.n;
    if (!http.proxies)
        http.proxies = &flags->proxies;
    http.backend = ft_openai_backend(api->openai);
    return ft_http_create(&http, err, &api->http);
}

void ft_api_reload(const ft_api *api, const ft_api_flags *flags)
{
    ft_error err = {0};
    if (!api->http || !flags->http.tls_cert)
        return;
    if (ft_http_reload_tls(api->http, &err) == FT_OK)
        FT_LOGI("http", "certificate reloaded");
    else
        FT_LOGE("http", "certificate not reloaded, the one before holds: %s", err.message);
}

void ft_api_stop(ft_api *api)
{
    ft_http_destroy(api->http);
    ft_openai_destroy(api->openai);
    free(api->key);
}
