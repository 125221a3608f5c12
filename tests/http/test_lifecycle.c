// SPDX-License-Identifier: Apache-2.0
// Clients that hang up, are slow, come in numbers, say nothing; shares of clients; a server that
// ends while it generates.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "http/exchange.h"
#include "http/generation.h"
#include "http/openai.h"
#include "support/http_backend.h"
#include "support/http_client.h"

#define TEXT "/v1/completions"

static http_backend backend;
static ft_http *http;
static int port;

static int start_with(ft_http_opts opts)
{
    ft_error err = {0};
    http_backend_init(&backend);
    opts.backend = http_backend_of(&backend);
    if (ft_http_create(&opts, &err, &http) != FT_OK)
        return -1;
    port = ft_http_port(http);
    return 0;
}

static int start(void **state)
{
    return start_with((ft_http_opts){0});
}

/* For tests of limits alone: a machine that stands for so long would end any other's connections,
 * too. */
static int start_impatient(void **state)
{
    return start_with((ft_http_opts){.request_timeout_s = 2, .stall_timeout_s = 1});
}

static int start_talkative(void **state)
{
    return start_with((ft_http_opts){.keep_alive_ms = 10});
}

static int stop(void **state)
{
    ft_http_destroy(http);
    http = NULL;
    http_backend_deinit(&backend);
    return 0;
}

static void begin(http_client *c, const char *body)
{
    assert_true(http_client_open(c, port) && http_client_request(c, "POST", TEXT, "", body));
}

/* Nothing else runs; every generation that began has ended and saw that it was cancelled. */
static void expect_all_cancelled(unsigned n)
{
    assert_true(http_backend_wait(&backend, &backend.ended, n));
    assert_int_equal(http_backend_count(&backend, &backend.cancelled), n);
}

static void test_hangup_in_prefill(void **state)
{
    http_client c[2];
    begin(&c[0], "{\"prompt\":\"prefill\"}");
    begin(&c[1], "{\"prompt\":\"prefill\",\"stream\":true}");
    assert_true(http_backend_wait(&backend, &backend.started, 2));
    assert_int_equal(http_backend_count(&backend, &backend.ended), 0);
    http_client_close(&c[0]);
    assert_true(http_backend_wait(&backend, &backend.ended, 1));
    assert_int_equal(http_backend_count(&backend, &backend.ended), 1);
    http_client_close(&c[1]);
    expect_all_cancelled(2);
}

static void test_hangup_in_stream(void **state)
{
    http_client c;
    begin(&c, "{\"prompt\":\"endless\",\"stream\":true}");
    assert_true(http_client_read_until(&c, "tick "));
    http_client_close(&c);
    expect_all_cancelled(1);
    /* between two tokens, when nothing is being written */
    begin(&c, "{\"prompt\":\"once\",\"stream\":true}");
    assert_true(http_client_read_until(&c, "tick "));
    http_client_close(&c);
    expect_all_cancelled(2);
}

/* A stream in which no text comes says comments, before its first text and after it. */
static void test_silent_stream(void **state)
{
    static const char *const prompts[] = {"prefill", "once"};
    for (unsigned i = 0; i < 2; i++) {
        char body[64];
        http_client c;
        snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"stream\":true}", prompts[i]);
        begin(&c, body);
        if (i == 1)
            assert_true(http_client_read_until(&c, "tick "));
        assert_true(http_client_read_until(&c, "\n: waiting\n\n"));
        http_client_close(&c);
        expect_all_cancelled(1 + i);
    }
}

/* An error behind a comment is an event. Without a stream it is a status, however late. */
static void test_late_error(void **state)
{
    http_client c[2];
    http_response r;
    begin(&c[0], "{\"prompt\":\"late\",\"stream\":true}");
    begin(&c[1], "{\"prompt\":\"late\"}");
    assert_true(http_client_read_until(&c[0], "200 OK"));
    assert_true(http_client_read_until(&c[0], ": waiting\n\n"));
    http_backend_release(&backend);
    assert_true(http_client_response(&c[0], false, &r));
    assert_int_equal(r.status, 200);
    const char *p = ft_buf_str(&r.body), *comment = ": waiting\n\n";
    while (strncmp(p, comment, strlen(comment)) == 0)
        p += strlen(comment);
    assert_int_equal(strncmp(p, "data: {\"error\":{", 16), 0);
    assert_non_null(strstr(p, "\"rate_limit_exceeded\""));
    assert_non_null(strstr(p, "\n\ndata: [DONE]\n\n"));
    http_response_deinit(&r);
    assert_true(http_client_response(&c[1], false, &r));
    assert_int_equal(r.status, 429);
    http_response_deinit(&r);
    for (int i = 0; i < 2; i++)
        http_client_close(&c[i]);
}

static void test_hangup_with_more_sent(void **state)
{
    http_client c;
    begin(&c, "{\"prompt\":\"prefill\"}");
    assert_true(http_client_request(&c, "GET", "/health", "", NULL));
    assert_true(http_backend_wait(&backend, &backend.started, 1));
    http_client_close(&c);
    expect_all_cancelled(1);
}

static void test_half_close(void **state)
{
    http_client c;
    begin(&c, "{\"prompt\":\"prefill\"}");
    assert_true(http_backend_wait(&backend, &backend.started, 1));
    shutdown(c.fd, SHUT_WR);
    expect_all_cancelled(1);
    http_client_close(&c);
}

/* A client that does not read makes the model wait, and is cut off after the stall limit. */
static void test_slow_reader(void **state)
{
    http_client c;
    begin(&c, "{\"prompt\":\"endless\",\"stream\":true}");
    assert_true(http_client_read_until(&c, "tick "));
    expect_all_cancelled(1);
    http_client_close(&c);
}

static void test_slow_sender(void **state)
{
    http_client c[4];
    for (int i = 0; i < 4; i++)
        assert_true(http_client_open(&c[i], port));
    assert_true(http_client_puts(&c[1], "GET /health HT"));
    assert_true(http_client_puts(&c[2], "GET /health HTTP/1.1\r\nHost: "));
    char head[256];
    snprintf(head, sizeof head,
             "POST " TEXT " HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json\r\n"
             "Content-Length: 100\r\n\r\n{\"prompt\"",
             port);
    assert_true(http_client_puts(&c[3], head));
    for (int i = 0; i < 4; i++) {
        assert_true(http_client_at_end(&c[i]));
        http_client_close(&c[i]);
    }
    assert_int_equal(http_backend_count(&backend, &backend.started), 0);
}

/* A generation has no limit: it outlives both. */
static void test_long_generation(void **state)
{
    http_client idle, c;
    begin(&c, "{\"prompt\":\"prefill\",\"stream\":true}");
    assert_true(http_backend_wait(&backend, &backend.started, 1));
    assert_true(http_client_open(&idle, port));
    assert_true(http_client_at_end(&idle)); /* both limits are over now */
    http_client_close(&idle);
    assert_int_equal(http_backend_count(&backend, &backend.ended), 0);
    http_client_close(&c);
    expect_all_cancelled(1);
}

static void *one_of_many(void *arg)
{
    int i = (int)(intptr_t)arg;
    char body[128], want[64];
    http_response r;
    snprintf(body, sizeof body, "{\"prompt\":\"client number %d speaks\",\"stream\":%s}", i,
             i % 2 ? "true" : "false");
    snprintf(want, sizeof want, i % 2 ? "\"text\":\"%d \"" : "client number %d speaks", i);
    bool ok = http_ask(port, "POST", TEXT, "", body, &r) == 200 &&
              strstr(ft_buf_str(&r.body), want) != NULL;
    http_response_deinit(&r);
    return (void *)(intptr_t)ok;
}

static void test_many(void **state)
{
    enum { N = 24 };
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, one_of_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < N; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
    assert_int_equal(http_backend_count(&backend, &backend.ended), N);
    assert_int_equal(http_backend_count(&backend, &backend.cancelled), 0);
}

/* One connection too many is told so; when another has ended there is room again. */
static void test_connection_limit(void **state)
{
    http_client c[3];
    http_response r;
    ft_error err = {0};
    ft_http *small;
    ft_http_opts opts = {.backend = http_backend_of(&backend), .max_connections = 2};
    assert_int_equal(ft_http_create(&opts, &err, &small), FT_OK);
    int small_port = ft_http_port(small);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(http_client_open(&c[i], small_port));
        assert_true(http_client_request(&c[i], "POST", TEXT, "", "{\"prompt\":\"prefill\"}"));
        assert_true(http_backend_wait(&backend, &backend.started, i + 1));
    }
    assert_true(http_client_open(&c[2], small_port));
    assert_true(http_client_request(&c[2], "GET", "/v1/models", "", NULL));
    assert_true(http_client_response(&c[2], false, &r));
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body.data, "too_many_connections"));
    http_response_deinit(&r);
    assert_true(http_client_at_end(&c[2]));
    http_client_close(&c[2]);
    shutdown(c[0].fd, SHUT_WR); /* seen as a hang-up; the server's end is the end of it */
    assert_true(http_client_at_end(&c[0]));
    http_client_close(&c[0]);
    /* the daemon counts it out just after it closed it */
    int status = 0;
    while (status != 200) {
        status = http_ask(small_port, "GET", "/v1/models", "", NULL, &r);
        assert_true(status == 200 || status == 503);
        http_response_deinit(&r);
    }
    http_client_close(&c[1]);
    ft_http_destroy(small);
}

/* One address opens connections and says nothing: others are served, and it finds room again. */
static void test_silent_connections(void **state)
{
    enum { SILENT = FT_HTTP_STRANGERS + 40 };
    http_client silent[SILENT], c;
    http_response r;
    for (int i = 0; i < SILENT; i++)
        assert_true(http_client_open_from(&silent[i], port, 2));
    assert_true(http_client_at_end(&silent[SILENT - 1])); /* beyond its share */
    assert_non_null(strstr(ft_buf_str(&silent[SILENT - 1].in), "too_many_connections"));
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", TEXT, "", "{\"prompt\":\"hello\"}", &r), 200);
    http_response_deinit(&r);
    assert_true(http_client_request(&silent[0], "POST", TEXT, "", "{\"prompt\":\"hello\"}"));
    assert_true(http_client_response(&silent[0], false, &r) && r.status == 200);
    http_response_deinit(&r);
    assert_true(http_client_open_from(&c, port, 2)); /* in the place that is free now */
    assert_true(http_client_request(&c, "GET", "/health", "", NULL));
    assert_true(http_client_response(&c, false, &r) && r.status == 200);
    http_response_deinit(&r);
    http_client_close(&c);
    for (int i = 0; i < SILENT; i++)
        http_client_close(&silent[i]);
}

/* While the process has no descriptor left a connection waits; then it is served. */
static void test_no_descriptors(void **state)
{
    enum { LIMIT = 200 };
    struct rlimit old, low;
    int spare[LIMIT], n = 0;
    http_client first, c;
    http_response r;
    assert_true(http_client_open(&first, port));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (n < LIMIT && (spare[n] = dup(first.fd)) >= 0)
        n++;
    assert_true(n > 0 && n < LIMIT);
    close(spare[--n]); /* for our end of the connection */
    assert_true(http_client_open(&c, port));
    assert_true(http_client_request(&c, "GET", "/health", "", NULL));
    while (n > 0)
        close(spare[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(http_client_response(&c, false, &r) && r.status == 200);
    http_response_deinit(&r);
    http_client_close(&c);
    http_client_close(&first);
}

/* Asks from 127.0.0.`host` on a connection that stays open; returns the status. */
static int ask_from(unsigned host, const char *method, const char *path, const char *body)
{
    http_client c;
    http_response r;
    assert_true(http_client_open_from(&c, port, host));
    assert_true(http_client_request(&c, method, path, "", body));
    assert_true(http_client_response(&c, false, &r));
    const int status = r.status;
    http_response_deinit(&r);
    http_client_close(&c);
    return status;
}

static uint32_t n_late(void)
{
    pthread_mutex_lock(&http->conns.lock);
    const uint32_t n = http->conns.n_late;
    pthread_mutex_unlock(&http->conns.lock);
    return n;
}

static int start_slow(void **state)
{
    return start_with((ft_http_opts){.refusal_ms = 3600000});
}

/* Who sends again and again what is refused gets the answers late, when the server ends at the
 * latest. Its other requests, and everything of others, are answered at once. */
static void test_flood_of_refusals(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
    } bad[] = {
        {"POST", TEXT, "{", 400},
        {"GET", "/nothing", NULL, 404},
        {"POST", TEXT, "{\"prompt\":\"refuse\"}", 400}, /* by the backend */
        {"POST", "/health", "{}", 405},                 /* before the body has come */
    };
    enum { N = sizeof bad / sizeof *bad };
    http_client c[N];
    http_response r;
    for (int i = 0; i < FT_HTTP_REFUSALS; i++)
        assert_int_equal(ask_from(2, bad[i % N].method, bad[i % N].path, bad[i % N].body),
                         bad[i % N].status);
    for (int i = 0; i < N; i++) {
        assert_true(http_client_open_from(&c[i], port, 2));
        assert_true(http_client_request(&c[i], bad[i].method, bad[i].path, "", bad[i].body));
    }
    while (n_late() < N)
        sched_yield();
    for (int i = 0; i < FT_HTTP_REFUSALS; i++)
        assert_int_equal(ask_from(3, bad[i % N].method, bad[i % N].path, bad[i % N].body),
                         bad[i % N].status);
    for (int i = 0; i < 2 * FT_HTTP_REFUSALS; i++) { /* a full server is nobody's fault */
        assert_int_equal(ask_from(2, "POST", TEXT, "{\"prompt\":\"overload\"}"), 429);
        assert_int_equal(ask_from(2, "POST", TEXT, "{\"prompt\":\"away\"}"), 503);
        assert_int_equal(ask_from(2, "POST", TEXT, "{\"prompt\":\"hello\"}"), 200);
        assert_int_equal(ask_from(2, "GET", "/health", NULL), 200);
    }
    assert_int_equal(n_late(), N);
    ft_http_drain(http, 0);
    for (int i = 0; i < N; i++) {
        assert_true(http_client_response(&c[i], false, &r));
        assert_int_equal(r.status, bad[i].status);
        http_response_deinit(&r);
        http_client_close(&c[i]);
    }
}

static bool whose(void *ctx, const char *key, char name[FT_HTTP_NAME_SIZE])
{
    const bool known = strcmp(key, "a") == 0 || strcmp(key, "b") == 0;
    snprintf(name, FT_HTTP_NAME_SIZE, "%s", known ? key : "");
    return known;
}

/* Asks on a new connection that stays; returns the status. */
static int ask_as(http_client *c, const char *key, const char *forwarded)
{
    char headers[160];
    http_response r;
    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n%s%s", key, forwarded,
             forwarded[0] ? "\r\n" : "");
    assert_true(http_client_open(c, port));
    assert_true(http_client_request(c, "GET", "/v1/models", headers, NULL));
    assert_true(http_client_response(c, false, &r));
    const int status = r.status;
    http_response_deinit(&r);
    return status;
}

/* A client is a key at an address; behind a trusted proxy the address is what the proxy says. */
static void test_share(void **state)
{
    ft_networks proxies = {0};
    ft_error err = {0};
    http_client c[9];
    assert_int_equal(ft_networks_parse("test", "127.0.0.1", &err, &proxies), FT_OK);
    assert_int_equal(start_with((ft_http_opts){.max_connections = 8,
                                               .client_share = 25,
                                               .proxies = &proxies,
                                               .whose = {.find = whose}}),
                     0);
    assert_int_equal(ask_as(&c[0], "a", ""), 200);
    assert_int_equal(ask_as(&c[1], "a", ""), 200);
    assert_int_equal(ask_as(&c[2], "a", ""), 429);
    assert_true(http_client_at_end(&c[2]));
    assert_int_equal(ask_as(&c[3], "b", ""), 200);
    assert_int_equal(ask_as(&c[4], "a", "X-Forwarded-For: 10.0.0.1"), 200);
    assert_int_equal(ask_as(&c[5], "a", "X-Forwarded-For: 10.0.0.9, 10.0.0.1"), 200);
    /* what a client puts before the proxy's word changes nothing */
    assert_int_equal(ask_as(&c[6], "a", "X-Forwarded-For: 10.0.0.9\r\nX-Forwarded-For: 10.0.0.1"),
                     429);
    assert_int_equal(ask_as(&c[7], "a", "X-Forwarded-For: 10.0.0.1, 10.0.0.9"), 200);
    assert_int_equal(ask_as(&c[8], "wrong", ""), 401);
    for (int i = 0; i < 9; i++)
        http_client_close(&c[i]);
}

static void test_destroy(void **state)
{
    http_client c[4];
    begin(&c[0], "{\"prompt\":\"prefill\"}");
    begin(&c[1], "{\"prompt\":\"prefill\",\"stream\":true}");
    begin(&c[2], "{\"prompt\":\"endless\",\"stream\":true}"); /* blocked: nobody reads */
    begin(&c[3], "{\"prompt\":\"endless\"}");
    assert_true(http_backend_wait(&backend, &backend.started, 4));
    ft_http_destroy(http);
    http = NULL;
    assert_int_equal(http_backend_count(&backend, &backend.ended), 4);
    assert_int_equal(http_backend_count(&backend, &backend.cancelled), 4);
    for (int i = 0; i < 4; i++) {
        if (i != 2)
            assert_true(http_client_at_end(&c[i]));
        http_client_close(&c[i]);
    }
    ft_http_destroy(NULL);
}

static void *drain(void *arg)
{
    ft_http_drain(http, 120000000);
    return NULL;
}

/* A server that is to end lets the answers that are under way finish, and no new one begin. */
static void test_drain(void **state)
{
    http_client c;
    http_response r;
    pthread_t thread;
    int status = 200;
    begin(&c, "{\"prompt\":\"once\",\"stream\":true}");
    assert_true(http_client_read_until(&c, "tick"));
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(pthread_create(&thread, NULL, drain, NULL), 0);
    while (status == 200) { /* until the thread has come so far */
        status = http_ask(port, "GET", "/health", "", NULL, &r);
        http_response_deinit(&r);
    }
    assert_int_equal(status, 503);
    assert_int_equal(http_ask(port, "POST", TEXT, "", "{\"prompt\":\"hello\"}", &r), 503);
    assert_non_null(strstr(r.body.data, "going down"));
    http_response_deinit(&r);
    assert_int_equal(http_backend_count(&backend, &backend.started), 1);
    assert_int_equal(http_backend_count(&backend, &backend.ended), 0);
    ft_http_drain(http, 0); /* has no time to wait */
    http_client_close(&c);
    pthread_join(thread, NULL);
    assert_int_equal(http_backend_count(&backend, &backend.ended), 1);
}

#define TEST(f)           cmocka_unit_test_setup_teardown(f, start, stop)
#define TEST_OF_LIMITS(f) cmocka_unit_test_setup_teardown(f, start_impatient, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hangup_in_prefill),
        TEST(test_hangup_in_stream),
        TEST(test_hangup_with_more_sent),
        TEST(test_half_close),
        cmocka_unit_test_setup_teardown(test_silent_stream, start_talkative, stop),
        cmocka_unit_test_setup_teardown(test_late_error, start_talkative, stop),
        TEST_OF_LIMITS(test_slow_reader),
        TEST_OF_LIMITS(test_slow_sender),
        TEST_OF_LIMITS(test_long_generation),
        TEST(test_many),
        TEST(test_connection_limit),
        TEST(test_silent_connections),
        TEST(test_no_descriptors),
        cmocka_unit_test_setup_teardown(test_flood_of_refusals, start_slow, stop),
        cmocka_unit_test_teardown(test_share, stop),
        TEST(test_drain),
        TEST(test_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
