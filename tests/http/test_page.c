// SPDX-License-Identifier: Apache-2.0
// The chat page: its headers, the hashes in them, and where it is not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "http/openai.h"
#include "http/page.h"
#include "support/http_backend.h"
#include "support/http_client.h"

static http_backend backend;
static ft_http *http;
static int port;

static void start(ft_http_opts opts)
{
    ft_error err = {0};
    http_backend_init(&backend);
    if (!opts.backend.ctx)
        opts.backend = http_backend_of(&backend);
    if (ft_http_create(&opts, &err, &http) != FT_OK)
        fail_msg("%s", err.message);
    port = ft_http_port(http);
}

static void stop(void)
{
    ft_http_destroy(http);
    http_backend_deinit(&backend);
}

static int status_of(const char *method, const char *path, const char *headers)
{
    http_response r;
    int status = http_ask(port, method, path, headers, NULL, &r);
    http_response_deinit(&r);
    return status;
}

/* "'sha256-BASE64'" of what stands between the tags. */
static void hash_of(const char *html, const char *begin, const char *end, char out[80])
{
    unsigned char digest[32];
    gnutls_datum_t base64 = {0}, data = {digest, sizeof digest};
    const char *from = strstr(html, begin);
    assert_non_null(from);
    from += strlen(begin);
    const char *to = strstr(from, end);
    assert_non_null(to);
    assert_null(strstr(to + 1, begin)); /* there is one */
    assert_int_equal(gnutls_hash_fast(GNUTLS_DIG_SHA256, from, (size_t)(to - from), digest), 0);
    assert_int_equal(gnutls_base64_encode2(&data, &base64), 0);
    snprintf(out, 80, "'sha256-%.*s'", (int)base64.size, (const char *)base64.data);
    gnutls_free(base64.data);
}

static void check_page(const char *path, const ft_http_page *page)
{
    http_response r;
    char value[1024], expected[1024], script[80], style[80];
    assert_int_equal(http_ask(port, "GET", path, "", NULL, &r), 200);
    assert_int_equal(r.body.len, page->n);
    hash_of(ft_buf_str(&r.body), "<script>", "</script>", script);
    hash_of(ft_buf_str(&r.body), "<style>", "</style>", style);
    snprintf(expected, sizeof expected,
             "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "require-trusted-types-for 'script'",
             script, style);
    assert_true(http_response_header(&r, "Content-Security-Policy", value, sizeof value));
    assert_string_equal(value, expected);
    assert_true(http_response_header(&r, "Content-Type", value, sizeof value));
    assert_string_equal(value, "text/html; charset=utf-8");
    assert_true(http_response_header(&r, "X-Content-Type-Options", value, sizeof value));
    assert_true(http_response_header(&r, "Referrer-Policy", value, sizeof value));
    http_response_deinit(&r);
}

static void test_headers(void **state)
{
    http_response r;
    char value[1024];
    ft_http_backend figures = http_backend_of(&backend);
    figures.generate = NULL;
    figures.model = NULL;
    start((ft_http_opts){.backend = figures});
    check_page("/dashboard", &ft_http_page_dashboard);
    stop();
    start((ft_http_opts){.api_key = "sesame"});
    check_page("/", &ft_http_page_chat); /* without the key */
    assert_int_equal(http_ask(port, "GET", "/v1/models", "", NULL, &r), 401);
    assert_true(http_response_header(&r, "Content-Security-Policy", value, sizeof value));
    assert_string_equal(value, "default-src 'none'; frame-ancestors 'none'");
    http_response_deinit(&r);
    stop();
}

static void test_where_it_is(void **state)
{
    start((ft_http_opts){0});
    assert_int_equal(status_of("GET", "/?a=b", ""), 200);
    assert_int_equal(status_of("POST", "/", "Content-Length: 0\r\n"), 405);
    assert_int_equal(status_of("GET", "/index.html", ""), 404);
    assert_int_equal(status_of("GET", "/dashboard", ""), 404); /* of servers alone */
    stop();
    start((ft_http_opts){.no_page = true});
    assert_int_equal(status_of("GET", "/", ""), 404);
    assert_int_equal(status_of("GET", "/v1/models", ""), 200);
    stop();
    ft_http_backend figures = http_backend_of(&backend);
    figures.generate = NULL;
    figures.model = NULL;
    start((ft_http_opts){.backend = figures});
    assert_int_equal(status_of("GET", "/", ""), 404);
    assert_int_equal(status_of("GET", "/dashboard", ""), 200);
    stop();
    start((ft_http_opts){.backend = figures, .no_page = true});
    assert_int_equal(status_of("GET", "/dashboard", ""), 404);
    assert_int_equal(status_of("GET", "/metrics", ""), 200);
    stop();
}

/* Under an allowed name the page may ask its own server; a page from elsewhere may not. */
static void test_its_own_origin(void **state)
{
    static const char *const hosts[] = {"box.local:8411", "box"};
    char header[128];
    start((ft_http_opts){.allow_hosts = hosts, .n_allow_hosts = 2});
    assert_int_equal(status_of("GET", "/v1/models", "Origin: http://box.local:8411\r\n"), 200);
    assert_int_equal(status_of("GET", "/v1/models", "Origin: http://box.local\r\n"), 403);
    assert_int_equal(status_of("GET", "/v1/models", "Origin: https://box.local:8411\r\n"), 403);
    snprintf(header, sizeof header, "Origin: http://box:%d\r\n", port);
    assert_int_equal(status_of("GET", "/v1/models", header), 200);
    assert_int_equal(status_of("GET", "/v1/models", "Origin: http://other.local:8411\r\n"), 403);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_where_it_is),
        cmocka_unit_test(test_its_own_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
