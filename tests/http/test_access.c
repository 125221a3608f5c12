// SPDX-License-Identifier: Apache-2.0
// Who may ask and how: Host, Origin, preflight, content type, API key, sizes, malformed requests,
// and the options that cannot be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/guard.h"
#include "http/openai.h"
#include "support/caught_log.h"
#include "support/http_backend.h"
#include "support/http_client.h"

#define TEXT "/v1/completions"
#define BODY "{\"prompt\":\"x\"}"

static http_backend backend;
static ft_http *http; /* with a key, allowed hosts and origins, small bodies */
static int port;

static int setup(void **state)
{
    static const char *const hosts[] = {"edge.local:8443", "Box.example"};
    static const char *const origins[] = {"http://localhost:3000", "app://studio"};
    ft_error err = {0};
    http_backend_init(&backend);
    ft_http_opts opts = {.backend = http_backend_of(&backend),
                         .api_key = "sesame",
                         .allow_hosts = hosts,
                         .n_allow_hosts = 2,
                         .allow_origins = origins,
                         .n_allow_origins = 2,
                         .max_body_bytes = 4096,
                         .refusal_ms = 1}; /* nearly all that is asked here is refused */
    if (ft_http_create(&opts, &err, &http) != FT_OK)
        return -1;
    port = ft_http_port(http);
    return 0;
}

static int teardown(void **state)
{
    ft_http_destroy(http);
    http_backend_deinit(&backend);
    return 0;
}

/* Sends exactly these bytes with "%PORT%" replaced; returns the response's status, 0 if none
 * came. */
static int raw(const char *request, http_response *r)
{
    http_client c;
    char number[8];
    ft_buf text = {0};
    const char *hole;
    snprintf(number, sizeof number, "%d", port);
    while ((hole = strstr(request, "%PORT%"))) {
        ft_buf_append(&text, request, (size_t)(hole - request));
        ft_buf_puts(&text, number);
        request = hole + 6;
    }
    ft_buf_puts(&text, request);
    *r = (http_response){0};
    assert_true(http_client_open(&c, port));
    bool ok = http_client_send(&c, text.data, text.len) && http_client_response(&c, false, r);
    int status = r->status;
    http_client_close(&c);
    ft_buf_deinit(&text);
    return ok ? status : 0;
}

static void expect_raw(int status, const char *request)
{
    http_response r;
    int got = raw(request, &r);
    if (got != status)
        fail_msg("%d instead of %d: %s\n%s", got, status, request, ft_buf_str(&r.body));
    http_response_deinit(&r);
}

static void expect_host(int status, const char *host)
{
    char request[512];
    snprintf(request, sizeof request, "GET /health HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    expect_raw(status, request);
}

static void test_host(void **state)
{
    static const char *const good[] = {"localhost:%PORT%",   "LocalHost:%PORT%", "127.0.0.1:%PORT%",
                                       "[::1]:%PORT%",       "edge.local:8443",  "EDGE.local:8443",
                                       "box.example:%PORT%", "box.example"};
    static const char *const bad[] = {"localhost",
                                      "127.0.0.1",
                                      "localhost:1",
                                      "evil.example:%PORT%",
                                      "localhost.:%PORT%",
                                      "localhost:%PORT%.evil.example",
                                      "edge.local:%PORT%",
                                      "edge.local",
                                      "x.box.example",
                                      "box.example:99",
                                      "u@localhost:%PORT%",
                                      "localhost:0%PORT%",
                                      "[::ffff:127.0.0.1]:%PORT%",
                                      "0.0.0.0:%PORT%"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        expect_host(200, good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_host(403, bad[i]);
    expect_host(403, "");
    expect_raw(400, "GET /health HTTP/1.1\r\n\r\n");
    expect_raw(400, "GET /health HTTP/1.0\r\n\r\n");
    expect_raw(400, "GET /health HTTP/1.1\r\nHost: localhost:%PORT%\r\nHost: evil.example\r\n\r\n");
    expect_raw(400,
               "GET /health HTTP/1.1\r\nHost: localhost:%PORT%\r\nhost: localhost:%PORT%\r\n\r\n");
}

/* What a 403 says to whoever runs the server. */
static void test_refusal_names_flag(void **state)
{
    static const struct {
        const char *headers, *said;
    } cases[] = {
        {"Host: host.docker.internal:8411\r\n", "--allow-host host.docker.internal:8411."},
        {"Host: a'b;rm\r\n", "--allow-host NAME:PORT."},
        {"Host: localhost:%PORT%\r\nOrigin: http://evil.example\r\n",
         "--allow-origin http://evil.example."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        http_response r;
        snprintf(text, sizeof text, "GET /health HTTP/1.1\r\n%s\r\n", cases[i].headers);
        assert_int_equal(raw(text, &r), 403);
        if (!strstr(ft_buf_str(&r.body), cases[i].said))
            fail_msg("%s instead of %s", ft_buf_str(&r.body), cases[i].said);
        http_response_deinit(&r);
    }
}

static void expect_prefix_lines(unsigned n, const char *value)
{
    char request[512];
    caught_log log;
    snprintf(request, sizeof request,
             "GET /health HTTP/1.1\r\nHost: localhost:%%PORT%%\r\nForetoken-Prefix: %s\r\n\r\n",
             value);
    caught_log_begin(&log);
    expect_raw(200, request);
    caught_log_end(&log);
    assert_int_equal(caught_log_count(&log, "foretoken-prefix ignored value="), n);
}

/* A wrong one is told in the log, and the request goes on. */
static void test_prefix(void **state)
{
    (void)state;
    expect_prefix_lines(0, "0123456789abcdef");
    expect_prefix_lines(1, "0123456789abcde\r\nForetoken-Prefix: 0123456789abcde");
    expect_prefix_lines(1, "my \"chat\"");
}

static void test_absolute_uri(void **state)
{
    expect_raw(200,
               "GET http://localhost:%PORT%/health HTTP/1.1\r\nHost: 127.0.0.1:%PORT%\r\n\r\n");
    expect_raw(403, "GET http://evil.example/health HTTP/1.1\r\nHost: localhost:%PORT%\r\n\r\n");
    expect_raw(403, "GET http://localhost:%PORT%/health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    expect_raw(400,
               "GET http://a@localhost:%PORT%/health HTTP/1.1\r\nHost: localhost:%PORT%\r\n\r\n");
    expect_raw(400, "GET ftp://localhost/health HTTP/1.1\r\nHost: localhost:%PORT%\r\n\r\n");
    expect_raw(400, "GET health HTTP/1.1\r\nHost: localhost:%PORT%\r\n\r\n");
}

static int ask_origin(const char *method, const char *origin, const char *more, http_response *r)
{
    char headers[512];
    snprintf(headers, sizeof headers, "Authorization: Bearer sesame\r\nOrigin: %s\r\n%s", origin,
             more);
    return http_ask(port, method, TEXT, headers, strcmp(method, "POST") == 0 ? BODY : NULL, r);
}

static void test_origin(void **state)
{
    char own[64], value[128];
    http_response r;
    snprintf(own, sizeof own, "http://localhost:%d", port);
    const char *good[] = {own, "http://localhost:3000", "app://studio"};
    const char *bad[] = {"http://evil.example",
                         "null",
                         "http://localhost",
                         "http://localhost:30",
                         "https://localhost:3000",
                         "http://localhost:3000.evil.example",
                         "*",
                         ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ask_origin("POST", good[i], "", &r), 200);
        assert_true(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
        assert_string_equal(value, good[i]);
        assert_true(http_response_header(&r, "Vary", value, sizeof value));
        assert_string_equal(value, "Origin");
        http_response_deinit(&r);
    }
    unsigned started = http_backend_count(&backend, &backend.started);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ask_origin("POST", bad[i], "", &r), 403);
        assert_false(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
        http_response_deinit(&r);
    }
    assert_int_equal(http_backend_count(&backend, &backend.started), started);
    /* an allowed page may read errors too */
    assert_int_equal(ask_origin("GET", good[1], "", &r), 405);
    assert_true(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
    http_response_deinit(&r);
}

static void test_preflight(void **state)
{
    char value[256];
    http_response r;
    /* no key: a browser sends none */
    static const char ask[] = "Origin: http://localhost:3000\r\n"
                              "Access-Control-Request-Method: POST\r\n"
                              "Access-Control-Request-Headers: authorization,x-stainless-lang\r\n"
                              "Access-Control-Request-Private-Network: true\r\n";
    assert_int_equal(http_ask(port, "OPTIONS", TEXT, ask, NULL, &r), 204);
    assert_true(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
    assert_string_equal(value, "http://localhost:3000");
    assert_true(http_response_header(&r, "Access-Control-Allow-Headers", value, sizeof value));
    assert_string_equal(value, "authorization,x-stainless-lang");
    assert_true(http_response_header(&r, "Access-Control-Allow-Methods", value, sizeof value));
    assert_true(
        http_response_header(&r, "Access-Control-Allow-Private-Network", value, sizeof value));
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "OPTIONS", TEXT, "Origin: http://evil.example\r\n", NULL, &r),
                     403);
    assert_false(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "OPTIONS", TEXT, "", NULL, &r), 204);
    assert_false(http_response_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
    http_response_deinit(&r);
}

static int post(const char *headers, const char *body)
{
    http_response r;
    char all[512];
    snprintf(all, sizeof all, "Authorization: Bearer sesame\r\n%s", headers);
    int status = http_ask(port, "POST", TEXT, all, body, &r);
    http_response_deinit(&r);
    return status;
}

static void test_content_type(void **state)
{
    assert_int_equal(post("Content-Type: application/json\r\n", BODY), 200);
    assert_int_equal(post("Content-Type: Application/JSON; charset=\"UTF-8\"\r\n", BODY), 200);
    assert_int_equal(post("Content-Type: text/plain\r\n", BODY), 415);
    assert_int_equal(post("Content-Type: application/x-www-form-urlencoded\r\n", BODY), 415);
    assert_int_equal(post("Content-Type: application/jsonx\r\n", BODY), 415);
    assert_int_equal(post("Content-Type: application/json; charset=utf-16\r\n", BODY), 415);
    assert_int_equal(post("Content-Type: text/plain; application/json\r\n", BODY), 415);
    assert_int_equal(post("Content-Encoding: gzip\r\n", BODY), 415);
    expect_raw(415, "POST " TEXT " HTTP/1.1\r\nHost: localhost:%PORT%\r\n"
                    "Authorization: Bearer sesame\r\nContent-Length: 2\r\n\r\n{}");
    expect_raw(400, "POST " TEXT " HTTP/1.1\r\nHost: localhost:%PORT%\r\n"
                    "Authorization: Bearer sesame\r\nContent-Type: application/json\r\n"
                    "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
}

static void test_key(void **state)
{
    static const char *const bad[] = {"",
                                      "Authorization: Bearer sesam\r\n",
                                      "Authorization: Bearer sesame1\r\n",
                                      "Authorization: Bearer \r\n",
                                      "Authorization: Basic sesame\r\n",
                                      "Authorization: sesame\r\n",
                                      "Authorization: Bearer SESAME\r\n",
                                      "X-Api-Key: sesam\r\n",
                                      "X-Api-Key: \r\n",
                                      "X-Api-Key: Bearer sesame\r\n",
                                      "Authorization: Bearer x\r\nX-Api-Key: sesame\r\n"};
    char value[64];
    http_response r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(http_ask(port, "GET", "/v1/models", bad[i], NULL, &r), 401);
        assert_true(http_response_header(&r, "WWW-Authenticate", value, sizeof value));
        assert_non_null(strstr(r.body.data, "invalid_api_key"));
        http_response_deinit(&r);
        assert_int_equal(http_ask(port, "GET", "/nothing", bad[i], NULL, &r), 401);
        http_response_deinit(&r);
        assert_int_equal(http_ask(port, "POST", TEXT, bad[i], BODY, &r), 401);
        http_response_deinit(&r);
    }
    assert_int_equal(
        http_ask(port, "GET", "/v1/models", "authorization: bearer  sesame\r\n", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "GET", "/v1/models", "x-api-key: sesame\r\n", NULL, &r), 200);
    http_response_deinit(&r);
    /* health is open, but tells strangers no details */
    backend.sick = true;
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 503);
    assert_null(strstr(r.body.data, "10.0.0.9"));
    http_response_deinit(&r);
    backend.sick = false;
}

static void test_safe_headers(void **state)
{
    char value[128];
    http_response r;
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 200);
    assert_true(http_response_header(&r, "X-Content-Type-Options", value, sizeof value));
    assert_string_equal(value, "nosniff");
    assert_true(http_response_header(&r, "Content-Security-Policy", value, sizeof value));
    assert_non_null(strstr(value, "default-src 'none'"));
    assert_true(http_response_header(&r, "Cache-Control", value, sizeof value));
    assert_string_equal(value, "no-store");
    http_response_deinit(&r);
}

#define POST_HEAD                                                                          \
    "POST " TEXT " HTTP/1.1\r\nHost: localhost:%PORT%\r\nAuthorization: Bearer sesame\r\n" \
    "Content-Type: application/json\r\n"

static void test_sizes(void **state)
{
    /* refused by its announced size, before a byte of it is sent */
    expect_raw(413, POST_HEAD "Content-Length: 4097\r\n\r\n");
    expect_raw(413, POST_HEAD "Content-Length: 9000000000000000000\r\n\r\n");
    expect_raw(413, POST_HEAD "Content-Length: 99999999999999999999999\r\n\r\n");
    expect_raw(413, POST_HEAD "Expect: 100-continue\r\nContent-Length: 4097\r\n\r\n");
    expect_raw(400, POST_HEAD "Content-Length: -1\r\n\r\n");
    expect_raw(400, POST_HEAD "Content-Length: 5x\r\n\r\n");
    expect_raw(400, POST_HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x");
    expect_raw(400, POST_HEAD "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    expect_raw(400, POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    char *body = malloc(4097);
    assert_non_null(body);
    memset(body, ' ', 4096);
    memcpy(body, BODY, sizeof BODY - 1);
    body[4096] = 0;
    assert_int_equal(post("", body), 200); /* exactly the limit */
    free(body);
}

static void test_chunked_too_large(void **state)
{
    http_client c;
    http_response r;
    char head[512], chunk[0x1000 + 16];
    int n = snprintf(head, sizeof head,
                     "POST " TEXT " HTTP/1.1\r\nHost: localhost:%d\r\n"
                     "Authorization: Bearer sesame\r\nContent-Type: application/json\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n",
                     port);
    int m = snprintf(chunk, sizeof chunk, "1000\r\n%*s\r\n", 0x1000, "");
    assert_true(http_client_open(&c, port) && http_client_send(&c, head, (size_t)n));
    for (int i = 0; i < 2; i++)
        assert_true(http_client_send(&c, chunk, (size_t)m));
    assert_true(http_client_puts(&c, "0\r\n\r\n") && http_client_response(&c, false, &r));
    assert_int_equal(r.status, 413);
    http_response_deinit(&r);
    http_client_close(&c);
    /* one that never ends is cut */
    assert_true(http_client_open(&c, port) && http_client_send(&c, head, (size_t)n));
    int sent = 0;
    while (sent < 100000 && http_client_send(&c, chunk, (size_t)m))
        sent++;
    assert_true(sent < 100000);
    http_client_close(&c);
}

static bool whose(void *ctx, const char *key, char name[FT_HTTP_NAME_SIZE])
{
    assert_ptr_equal(ctx, &backend);
    bool known = strcmp(key, "sesame-a") == 0 || strcmp(key, "sesame-b") == 0;
    if (known)
        snprintf(name, FT_HTTP_NAME_SIZE, "team-%c", key[7]);
    return known;
}

/* Several keys: a generation is told whose came with it, by the header, never by the body. */
static void test_named_keys(void **state)
{
    static const struct {
        const char *header;
        int status;
        const char *text;
    } cases[] = {{"Authorization: Bearer sesame-a\r\n", 200, "team-a 4.5"},
                 {"Authorization: Bearer sesame-b\r\n", 200, "team-b 4.5"},
                 {"Authorization: Bearer sesame\r\n", 401, "invalid_api_key"},
                 {"", 401, "invalid_api_key"}};
    static const char body[] =
        "{\"prompt\":\"whose\",\"slo_tokens_per_s\":4.5,\"tenant\":\"team-c\"}";
    ft_error err = {0};
    ft_http *named = NULL;
    ft_http_opts opts = {.backend = http_backend_of(&backend),
                         .whose = {.ctx = &backend, .find = whose}};
    assert_int_equal(ft_http_create(&opts, &err, &named), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_response r;
        assert_int_equal(http_ask(ft_http_port(named), "POST", TEXT, cases[i].header, body, &r),
                         cases[i].status);
        if (!strstr(r.body.data, cases[i].text))
            fail_msg("no %s in %s", cases[i].text, r.body.data);
        http_response_deinit(&r);
    }
    http_response r;
    assert_int_equal(http_ask(port, "POST", TEXT, "Authorization: Bearer sesame\r\n",
                              "{\"prompt\":\"whose\"}", &r),
                     200);
    assert_non_null(strstr(r.body.data, "nobody's 0"));
    http_response_deinit(&r);
    ft_http_destroy(named);
}

static void test_garbage(void **state)
{
    static const char *const garbage[] = {"\r\n\r\n\r\n",
                                          "GARBAGE\r\n\r\n",
                                          "GET\r\n\r\n",
                                          "GET / HTTP/9.9\r\nHost: localhost:%PORT%\r\n\r\n",
                                          "GET /health HTTP/1.1\r\nHost localhost\r\n\r\n",
                                          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                          "POST " TEXT " HTTP/1.1\r\nHost: localhost:%PORT%\r\n"};
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        http_client c;
        assert_true(http_client_open(&c, port));
        assert_true(http_client_puts(&c, garbage[i]));
        http_client_close(&c);
    }
    /* headers without end do not fill the memory */
    http_client c;
    assert_true(http_client_open(&c, port));
    assert_true(http_client_puts(&c, "GET /health HTTP/1.1\r\n"));
    int sent = 0;
    while (sent < 1000000 && http_client_puts(&c, "X-Filler: 0123456789abcdef0123456789\r\n"))
        sent++;
    assert_true(sent < 1000000);
    http_client_close(&c);
    expect_host(200, "localhost:%PORT%");
}

static void create_fails(ft_http_opts opts, ft_status status, const char *word)
{
    ft_http *h = (ft_http *)&opts;
    ft_error err = {0};
    opts.backend = http_backend_of(&backend);
    assert_int_equal(ft_http_create(&opts, &err, &h), status);
    assert_null(h);
    if (!strstr(err.message, word))
        fail_msg("no '%s' in: %s", word, err.message);
}

static void test_options(void **state)
{
    static const char *const hosts[] = {"*", "http://x", "a b", "::1", ""};
    static const char *const origins[] = {"*",         "null",           "http://",
                                          "http://x/", "localhost:3000", "http://*.x"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        create_fails((ft_http_opts){.allow_hosts = &hosts[i], .n_allow_hosts = 1}, FT_INVALID,
                     "allowed host");
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        create_fails((ft_http_opts){.allow_origins = &origins[i], .n_allow_origins = 1}, FT_INVALID,
                     "allowed origin");
    create_fails((ft_http_opts){.api_key = ""}, FT_INVALID, "key");
    create_fails((ft_http_opts){.api_key = "k", .whose.find = whose}, FT_INVALID, "not both");
    create_fails((ft_http_opts){.port = 70000}, FT_INVALID, "port");
    create_fails((ft_http_opts){.port = port}, FT_IO, "in use");
    create_fails((ft_http_opts){.host = "no such host"}, FT_IO, "no such host");
    create_fails((ft_http_opts){.tls_cert = "/nonexistent"}, FT_INVALID, "both");
    create_fails((ft_http_opts){.tls_cert = "/nonexistent", .tls_key = "/nonexistent"}, FT_INVALID,
                 "/nonexistent");
    char path[] = "/tmp/ft-pem-XXXXXX";
    int fd = mkstemp(path);
    static const char pem[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_true(fd >= 0 && write(fd, pem, sizeof pem - 1) == sizeof pem - 1);
    close(fd);
    create_fails((ft_http_opts){.tls_cert = path, .tls_key = path}, FT_INVALID, "certificate");
    unlink(path);
}

/* A port that is the scheme's default may be left out; cannot be bound in a test, so asked
 * directly. */
static void test_default_port(void **state)
{
    ft_http_guard g;
    ft_error err = {0};
    ft_http_opts opts = {.host = "fe80::1"};
    assert_int_equal(ft_http_guard_init(&g, &opts, 80, &err), FT_OK);
    assert_true(ft_http_guard_host(&g, "localhost") && ft_http_guard_host(&g, "localhost:80"));
    assert_true(ft_http_guard_origin(&g, "http://localhost"));
    assert_false(ft_http_guard_origin(&g, "https://localhost"));
    assert_true(ft_http_guard_host(&g, "[fe80::1]:80"));
    char name[FT_HTTP_NAME_SIZE];
    assert_true(ft_http_guard_key(&g, NULL, NULL, name));
    ft_http_guard_deinit(&g);
    opts = (ft_http_opts){.tls_cert = "c", .tls_key = "k", .host = "0.0.0.0"};
    assert_int_equal(ft_http_guard_init(&g, &opts, 443, &err), FT_OK);
    assert_true(ft_http_guard_host(&g, "[::1]"));
    assert_true(ft_http_guard_origin(&g, "https://localhost"));
    assert_false(ft_http_guard_origin(&g, "http://localhost"));
    assert_false(ft_http_guard_host(&g, "0.0.0.0:443"));
    ft_http_guard_deinit(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),         cmocka_unit_test(test_refusal_names_flag),
        cmocka_unit_test(test_prefix),       cmocka_unit_test(test_absolute_uri),
        cmocka_unit_test(test_origin),       cmocka_unit_test(test_preflight),
        cmocka_unit_test(test_content_type), cmocka_unit_test(test_key),
        cmocka_unit_test(test_named_keys),   cmocka_unit_test(test_safe_headers),
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_chunked_too_large),
        cmocka_unit_test(test_garbage),      cmocka_unit_test(test_options),
        cmocka_unit_test(test_default_port),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
