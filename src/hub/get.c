// SPDX-License-Identifier: Apache-2.0
// HTTP by libcurl. A transfer belongs to one thread. Bodies of answers that are no success are not
// read. libcurl's own use of proxies (https_proxy) stays, but for https alone.
#include "hub/get.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

#define REDIRECTS_MAX     5 /* the hub's own take two */
#define CONNECT_S         20L
#define STALL_S           60L /* without a byte */
#define HEADER_VALUE_SIZE 128

/* One step of the way. */
typedef struct step {
    const ft_get *get;
    CURL *curl;
    char content_range[HEADER_VALUE_SIZE], retry_after[HEADER_VALUE_SIZE];
    bool begun;
    ft_status status; /* of begin and data */
    ft_error *err;
} step;

/* Where a URL leads. */
typedef struct origin {
    char *scheme, *host, *port;
} origin;

static void origin_deinit(origin *o)
{
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
}

/* False: no URL with http or https, or it has a user's name. The caller deinits *out. */
static bool origin_init(const char *text, origin *out)
{
    CURLU *url = curl_url();
    *out = (origin){0};
    const bool good =
        url && curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_SCHEME, &out->scheme, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &out->host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &out->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        (strcmp(out->scheme, "https") == 0 || strcmp(out->scheme, "http") == 0);
    curl_url_cleanup(url);
    return good;
}

static bool same_origin(const origin *a, const origin *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

/* libcurl itself takes "localhost" as 127.0.0.1 and ::1, without asking a name server. */
static bool is_loopback(const char *host)
{
    unsigned a, b, c;
    int n = 0;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (sscanf(host, "127.%3u.%3u.%3u%n", &a, &b, &c, &n) == 3 && host[n] == 0);
}

/* *to_endpoint: the token may go there. before: the URL that led here, NULL: none. */
static ft_status check_url(const ft_get *get, const char *url, const char *before,
                           bool *to_endpoint, ft_error *err)
{
    origin here, last = {0}, home;
    ft_status status = FT_OK;
    const bool good = origin_init(url, &here), known = origin_init(get->endpoint, &home);
    const bool secure = before && origin_init(before, &last) && strcmp(last.scheme, "https") == 0;
    if (!good)
        status = ft_error_set(err, FT_INVALID, "%.200s is no URL with https", url);
    else if (strcmp(here.scheme, "http") == 0 && !is_loopback(here.host))
        status = ft_error_set(err, FT_INVALID,
                              "%.200s: http is taken from this machine alone: use https", url);
    else if (strcmp(here.scheme, "http") == 0 && secure)
        status = ft_error_set(err, FT_INVALID, "redirected from https to http: %.200s", url);
    *to_endpoint = good && known && same_origin(&here, &home);
    origin_deinit(&here);
    origin_deinit(&last);
    origin_deinit(&home);
    return status;
}

/* Copies a header's value if the line is that header. */
static void take_header(const char *line, size_t n, const char *name, char out[HEADER_VALUE_SIZE])
{
    const size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) != 0)
        return;
    line += length;
    n -= length;
    while (n > 0 && isspace((unsigned char)*line))
        line++, n--;
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        n--;
    snprintf(out, HEADER_VALUE_SIZE, "%.*s", (int)(n < HEADER_VALUE_SIZE ? n : 0), line);
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    step *s = ctx;
    take_header(line, n, "content-range:", s->content_range);
    take_header(line, n, "retry-after:", s->retry_after);
    return n * size;
}

static long code_of(const step *s)
{
    long code = 0;
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    step *s = ctx;
    const long code = code_of(s);
    if (code != 200 && code != 206)
        return 0; /* ends the transfer */
    if (!s->begun)
        s->status = s->get->begin(s->get->ctx, code == 206 ? s->content_range : "", s->err);
    s->begun = true;
    if (s->status == FT_OK)
        s->status = s->get->data(s->get->ctx, data, n * size, s->err);
    return s->status == FT_OK ? n * size : 0;
}

static ft_status refuse_code(const step *s, const char *url, long code, bool token)
{
    unsigned long wait_s;
    switch (code) {
    case 401:
    case 403:
        return ft_error_set(s->err, FT_UNAUTHENTICATED,
                            "HTTP %ld: the repository is private, asks for consent, or does not "
                            "exist: %s",
                            code,
                            token ? "HF_TOKEN does not give access to it"
                                  : "set HF_TOKEN to a token that may read it");
    case 404:
        return ft_error_set(s->err, FT_NOT_FOUND, "HTTP 404 from %.250s", url);
    case 429:
        wait_s = strtoul(s->retry_after, NULL, 10);
        return wait_s > 0 ? ft_error_set(s->err, FT_EXHAUSTED,
                                         "HTTP 429: too many requests: try again in %lu s", wait_s)
                          : ft_error_set(s->err, FT_EXHAUSTED,
                                         "HTTP 429: too many requests: try again later");
    default:
        return ft_error_set(s->err, FT_UNAVAILABLE, "HTTP %ld from %.250s", code, url);
    }
}

static void set_options(step *s, const char *url, struct curl_slist *headers, char *range)
{
    CURL *curl = s->curl;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (strncmp(url, "http:", 5) == 0)
        curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* it is on this machine */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "foretoken/" FT_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_RANGE, s->get->from ? range : NULL);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, s);
}

/* *next: where the answer leads, a string that the caller frees; NULL: it is the last one. */
static ft_status take_step(const ft_get *get, const char *url, bool with_token, ft_error *err,
                           char **next)
{
    char range[32], why[CURL_ERROR_SIZE] = "", *leads_to = NULL;
    ft_buf bearer = {0};
    struct curl_slist *headers = NULL;
    step s = {.get = get, .curl = curl_easy_init(), .err = err};
    ft_status status = FT_OK;
    snprintf(range, sizeof range, "%llu-", (unsigned long long)get->from);
    if (with_token && ft_buf_printf(&bearer, "Authorization: Bearer %s", get->token) == FT_OK)
        headers = curl_slist_append(NULL, bearer.data);
    if (!s.curl || (with_token && !headers)) {
        status = ft_error_set(err, FT_NOMEM, "out of memory");
        goto out;
    }
    set_options(&s, url, headers, range);
    curl_easy_setopt(s.curl, CURLOPT_ERRORBUFFER, why);
    const CURLcode result = curl_easy_perform(s.curl);
    const long code = code_of(&s);
    curl_easy_getinfo(s.curl, CURLINFO_REDIRECT_URL, &leads_to);
    if (s.status != FT_OK)
        status = s.status;
    else if (leads_to && !(*next = strdup(leads_to)))
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    else if (code >= 300)
        status = leads_to ? FT_OK : refuse_code(&s, url, code, with_token);
    else if (result != CURLE_OK)
        status = ft_error_set(err, FT_UNAVAILABLE, "%.200s: %s", url,
                              why[0] ? why : curl_easy_strerror(result));
    else if (code != 200 && code != 206)
        status = refuse_code(&s, url, code, with_token);
out:
    curl_slist_free_all(headers);
    curl_easy_cleanup(s.curl);
    ft_buf_deinit(&bearer);
    return status;
}

ft_status ft_get_run(const ft_get *get, ft_error *err)
{
    char *url = strdup(get->url), *before = NULL;
    ft_status status = url && curl_global_init(CURL_GLOBAL_DEFAULT) == 0
                           ? FT_OK
                           : ft_error_set(err, FT_NOMEM, "out of memory");
    for (int n = 0; status == FT_OK && url; n++) {
        char *next = NULL;
        bool to_endpoint = false;
        if (n > REDIRECTS_MAX)
            status = ft_error_set(err, FT_INVALID, "more than %d redirects, the last one to %.200s",
                                  REDIRECTS_MAX, url);
        if (status == FT_OK)
            status = check_url(get, url, before, &to_endpoint, err);
        if (status == FT_OK)
            status = take_step(get, url, get->token && to_endpoint, err, &next);
        free(before);
        before = url;
        url = next;
    }
    free(before);
    free(url);
    return status;
}

char *ft_get_encode(const char *path)
{
    char *out = malloc(3 * strlen(path) + 1), *at = out;
    for (; out && *path; path++)
        if (isalnum((unsigned char)*path) || strchr("-._~/", *path))
            *at++ = *path;
        else
            at += sprintf(at, "%%%02X", (unsigned)(unsigned char)*path);
    if (out)
        *at = 0;
    return out;
}
