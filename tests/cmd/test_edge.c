// SPDX-License-Identifier: Apache-2.0
// `foretoken edge`, run as a program on a tiny model, where its server comes late: it listens,
// answers 503 with the reason and works as soon as the right server is there. A server that is
// there and does not fit ends it at once. With two servers one may be absent, and go. With a
// fallback target all may.
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/device.h"
#include "support/http_client.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

#define TEXT "/v1/completions"
#define BODY "{\"model\":\"none yet\",\"prompt\":\"abc\",\"max_tokens\":4}"

static char *model, *foreign; /* foreign: of another vocabulary */

static int set_up(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    model = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3});
    foreign = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3, .n_vocab = 352});
    return model && foreign ? 0 : -1;
}

static int tear_down(void **state)
{
    unlink(model);
    unlink(foreign);
    free(model);
    free(foreign);
    return 0;
}

/* A port on which nobody listens, and nobody can while the socket is open. */
static int reserve_port(int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin_port);
}

/* port 0: any that is free. *actual: the one that it listens on. */
static program start_server(const char *file, int port, int *actual)
{
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    program server = program_start((const char *[]){"serve", "-m", file, "-t", "1", "-c", "256",
                                                    "-ngl", "0", "--port", number, NULL});
    *actual = program_wait_port(&server, "listening");
    assert_true(*actual > 0);
    return server;
}

/* The answer to a request: 503, as OpenAI says it, with a reason that has these words. */
static void expect_absent(int port, const char *method, const char *path, const char *body,
                          const char *words)
{
    http_response r;
    assert_int_equal(http_ask(port, method, path, "", body, &r), 503);
    json_t *json = json_loads(r.body.data, 0, NULL);
    const json_t *error = json_object_get(json, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    assert_string_equal(json_string_value(json_object_get(error, "type")), "server_error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "unavailable");
    assert_non_null(message);
    if (!strstr(message, words))
        fail_msg("%s: \"%s\" has no \"%s\"", path, message, words);
    json_decref(json);
    http_response_deinit(&r);
}

static void expect_all_absent(int port, const char *words)
{
    expect_absent(port, "GET", "/health", NULL, words);
    expect_absent(port, "GET", "/v1/models", NULL, words);
    expect_absent(port, "POST", TEXT, BODY, words);
}

static void test_server_comes_late(void **state)
{
    int fd, actual, server_port = reserve_port(&fd);
    char address[32];
    http_response r;
    snprintf(address, sizeof address, "127.0.0.1:%d", server_port);
    program edge = program_start((const char *[]){"edge", "--server", address, "-md", model, "-t",
                                                  "1", "--port", "0", NULL});
    int port = program_wait_number(&edge, "server absent", "port=");
    assert_true(port > 0);
    expect_all_absent(port, address);
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    http_response_deinit(&r);
    close(fd);

    program server = start_server(foreign, server_port, &actual);
    assert_int_equal(program_wait_number(&edge, "reason=\"edge: this vocabulary (", "("), 320);
    expect_all_absent(port, "pass a draft of the same family");
    assert_int_equal(program_stop(&server), 0);

    server = start_server(model, server_port, &actual);
    assert_int_equal(program_wait_port(&edge, "foretoken edge"), port);
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", TEXT, "", BODY, &r), 404); /* models have names now */
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", TEXT, "", "{\"prompt\":\"abc\",\"max_tokens\":4}", &r),
                     200);
    http_response_deinit(&r);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
}

static void test_stopped_while_it_waits(void **state)
{
    int fd;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", reserve_port(&fd));
    program edge = program_start(
        (const char *[]){"edge", "--server", address, "-md", model, "--port", "0", NULL});
    assert_true(program_wait_number(&edge, "server absent", "port=") > 0);
    assert_int_equal(program_stop(&edge), 0);
    close(fd);
}

/* A server that takes the connection and never says a word: SIGTERM ends the edge while it still
 * waits for the first answer, not when that wait is over, which it would report. */
static void test_stopped_before_an_answer(void **state)
{
    int fd;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", reserve_port(&fd));
    assert_int_equal(listen(fd, 4), 0);
    program edge = program_start(
        (const char *[]){"edge", "--server", address, "-md", model, "--port", "0", NULL});
    int connection = accept(fd, NULL, NULL);
    assert_true(connection >= 0);
    assert_int_equal(kill(edge.pid, SIGTERM), 0);
    assert_int_equal(program_wait_number(&edge, "server absent", "port="), -1);
    assert_int_equal(program_wait_end(&edge), 0);
    close(connection);
    close(fd);
}

static void test_server_does_not_fit(void **state)
{
    char address[32];
    int port;
    program server = start_server(foreign, 0, &port);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    program edge = program_start(
        (const char *[]){"edge", "--server", address, "-md", model, "--port", "0", NULL});
    assert_int_equal(program_wait_number(&edge, "foretoken: edge: this vocabulary (", "("), 320);
    assert_int_equal(program_wait_end(&edge), 1);
    assert_int_equal(program_stop(&server), 0);
}

/* As `info` tells it of the model. */
static void expect_target(const char *fingerprint)
{
    int status;
    json_t *info = program_json(&status, "info '%s' --json", model);
    assert_int_equal(status, 0);
    assert_memory_equal(fingerprint, "fp_", 3);
    assert_string_equal(fingerprint + 3, json_string_value(json_object_get(info, "target")));
    json_decref(info);
}

/* The answer to a completion; the caller frees it. */
static char *text_of(int port)
{
    http_response r;
    assert_int_equal(http_ask(port, "POST", TEXT, "",
                              "{\"prompt\":\"abc\",\"max_tokens\":24,\"temperature\":1,\"seed\":7}",
                              &r),
                     200);
    json_t *json = json_loads(r.body.data, 0, NULL);
    expect_target(json_string_value(json_object_get(json, "system_fingerprint")));
    const json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
    char *text = strdup(json_string_value(json_object_get(choice, "text")));
    json_decref(json);
    http_response_deinit(&r);
    return text;
}

/* The second server alone, then both, then the second alone again, as the first was killed. */
static void test_two_servers(void **state)
{
    int fd, first_port = reserve_port(&fd), second_port, port;
    char addresses[64];
    program second = start_server(model, 0, &second_port);
    snprintf(addresses, sizeof addresses, "127.0.0.1:%d,127.0.0.1:%d", first_port, second_port);
    program edge = program_start((const char *[]){"edge", "--server", addresses, "-md", model, "-t",
                                                  "1", "--port", "0", NULL});
    port = program_wait_port(&edge, "foretoken edge");
    char *text = text_of(port);
    close(fd);
    program first = start_server(model, first_port, &first_port);
    assert_int_equal(program_stop(&edge), 0);
    edge = program_start((const char *[]){"edge", "--server", addresses, "-md", model, "-t", "1",
                                          "--port", "0", "--require-same-target", NULL});
    port = program_wait_port(&edge, "foretoken edge");
    for (int gone = 0; gone < 2; gone++) {
        char *again = text_of(port);
        assert_string_equal(again, text);
        free(again);
        if (!gone) {
            assert_int_equal(kill(first.pid, SIGKILL), 0);
            (void)program_wait_end(&first);
        }
    }
    free(text);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&second), 0);
}

/* A completion of the fallback target, or of a server: what usage.foretoken says of it, and whether
 * the text is this one. */
static json_int_t fallback_tokens(int port, const char *text)
{
    http_response r;
    assert_int_equal(http_ask(port, "POST", TEXT, "",
                              "{\"prompt\":\"abc\",\"max_tokens\":24,\"temperature\":1,\"seed\":7}",
                              &r),
                     200);
    json_t *json = json_loads(r.body.data, 0, NULL);
    const json_t *ours = json_object_get(json_object_get(json, "usage"), "foretoken");
    const json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), text);
    expect_target(json_string_value(json_object_get(json, "system_fingerprint")));
    assert_int_equal(json_integer_value(json_object_get(ours, "target_changed")), 0);
    assert_true(json_is_integer(json_object_get(ours, "switches")));
    const json_int_t n = json_integer_value(json_object_get(ours, "fallback_tokens"));
    json_decref(json);
    http_response_deinit(&r);
    return n;
}

/* No server at the start: the fallback target has the text. Then a server comes, and texts go
 * there; then it is killed. The text is always the same, in memory and under a budget. */
static void test_fallback(void **state)
{
    static const char *const budgets[] = {NULL, "400M"};
    int port, server_port, fd;
    program server = start_server(model, 0, &server_port);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", server_port);
    program edge = program_start((const char *[]){"edge", "--server", address, "-md", model, "-t",
                                                  "1", "--port", "0", NULL});
    char *text = text_of(program_wait_port(&edge, "foretoken edge"));
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        server_port = reserve_port(&fd);
        snprintf(address, sizeof address, "127.0.0.1:%d", server_port);
        edge = program_start((const char *[]){"edge", "--server", address, "-md", model, "-t", "1",
                                              "-c", "256", "--port", "0", "--fallback", model,
                                              "--require-same-target",
                                              budgets[i] ? "--memory" : NULL, budgets[i], NULL});
        port = program_wait_port(&edge, "foretoken edge");
        assert_true(fallback_tokens(port, text) > 0);
        close(fd);
        server = start_server(model, server_port, &server_port);
        while (fallback_tokens(port, text) > 0) { /* the first ones still have to find it */
        }
        assert_int_equal(kill(server.pid, SIGKILL), 0);
        (void)program_wait_end(&server);
        assert_true(fallback_tokens(port, text) > 0);
        assert_int_equal(program_stop(&edge), 0);
    }
    free(text);
}

static void test_fallback_does_not_fit(void **state)
{
    program edge = program_start((const char *[]){"edge", "--server", "127.0.0.1:1", "-md", model,
                                                  "--port", "0", "--fallback", foreign, NULL});
    assert_int_equal(program_wait_number(&edge, "the vocabulary of --fallback", "("), 352);
    assert_int_equal(program_wait_end(&edge), 1);
    edge = program_start((const char *[]){"edge", "--server", "127.0.0.1:1", "-md", model, "--port",
                                          "0", "--fallback", model, "--memory", "1M", NULL});
    assert_int_equal(program_wait_end(&edge), 1); /* less than the least */
}

/* What usage.foretoken says of a text that such an edge gets of a server with these rules. The text
 * follows `ratio` only if the server offers it; then points have the l of --lattice. A draft that
 * was made ahead takes no time, so none is. */
static void expect_rule(const char *offered, const char *wanted, const char *rule, bool same_tokens)
{
    const bool ratio = strcmp(wanted, "ratio") == 0, points = strcmp(rule, "ratio") == 0;
    int server_port, port;
    char address[32];
    http_response r;
    program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "-c", "256",
                                                    "--port", "0", "--rules", offered, NULL});
    server_port = program_wait_port(&server, "listening");
    snprintf(address, sizeof address, "127.0.0.1:%d", server_port);
    program edge = program_start((const char *[]){
        "edge", "--server", address, "-md", model, "-t", "1", "--draft", "4", "--no-proactive",
        "--port", "0", "--rule", wanted, ratio ? "--lattice" : NULL, "100", NULL});
    port = program_wait_port(&edge, "foretoken edge");
    assert_int_equal(http_ask(port, "POST", TEXT, "",
                              "{\"prompt\":\"abc\",\"max_tokens\":24,\"temperature\":1,\"seed\":7}",
                              &r),
                     200);
    json_t *json = json_loads(r.body.data, 0, NULL);
    const json_t *ours = json_object_get(json_object_get(json, "usage"), "foretoken");
    assert_string_equal(json_string_value(json_object_get(ours, "rule")), rule);
    assert_int_equal(json_is_true(json_object_get(ours, "same_tokens")), same_tokens);
    const json_int_t drafted = json_integer_value(json_object_get(ours, "drafted"));
    assert_true(json_integer_value(json_object_get(ours, "accepted")) > 0 && drafted > 0);
    const double wasted_ms = program_number(ours, "wasted_draft_ms");
    assert_true(program_number(ours, "useful_draft_ms") > 0); /* some were accepted */
    assert_true((wasted_ms > 0) ==
                (json_integer_value(json_object_get(ours, "accepted")) < drafted));
    assert_true(wasted_ms < program_number(ours, "total_ms"));
    assert_int_equal(json_integer_value(json_object_get(ours, "l_sum")),
                     points ? 100 * drafted : 0);
    json_decref(json);
    http_response_deinit(&r);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
}

static void test_rules(void **state)
{
    expect_rule("exact,ratio", "ratio", "ratio", false);
    expect_rule("exact,ratio", "exact", "exact", true);
    expect_rule("exact", "ratio", "exact", true);      /* the server does not offer it */
    expect_rule("exact,ratio", "auto", "exact", true); /* nothing is known yet */
    expect_rule("exact", "auto", "exact", true);
}

/* The answer to a body, which this takes. error: gets the field that the error names. */
static json_t *ask(int port, json_t *take_body, int status, char error[64])
{
    char *body = json_dumps(take_body, 0);
    http_response r;
    assert_int_equal(http_ask(port, "POST", TEXT, "", body, &r), status);
    json_t *json = json_loads(r.body.data, JSON_ALLOW_NUL, NULL);
    const json_t *field = json_object_get(json_object_get(json, "error"), "param");
    snprintf(error, 64, "%s", json_is_string(field) ? json_string_value(field) : "");
    http_response_deinit(&r);
    free(body);
    json_decref(take_body);
    return json;
}

static const char *answer_text(const json_t *answer)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(answer, "choices"), 0), "text"));
}

/* An edge without a draft model, and a server's own API: a prediction is drafted and counted, and
 * changes no text; a wrong one is refused by its name. */
static void test_predictions(void **state)
{
    int port[2];
    char address[32], error[64], text[601];
    char *file = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    program server = program_start((const char *[]){"serve", "-m", file, "-t", "1", "-c", "256",
                                                    "--port", "0", "--http-port", "0", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    port[0] = program_wait_port(&server, "api url");
    program edge =
        program_start((const char *[]){"edge", "--server", address, "-m", file, "--draft-source",
                                       "lookup", "--draft", "6", "--port", "0", NULL});
    port[1] = program_wait_port(&edge, "foretoken edge");
    memset(text, 'x', 600);
    text[600] = 0;
    for (int i = 0; i < 2; i++) {
        const char *form = "{s:s, s:i, s:i}", *with = "{s:s, s:i, s:i, s:{s:s, s:s}}";
        json_t *plain =
            ask(port[i], json_pack(form, "prompt", "abc", "max_tokens", 40, "temperature", 0), 200,
                error);
        json_t *predicted =
            ask(port[i],
                json_pack(with, "prompt", "abc", "max_tokens", 40, "temperature", 0, "prediction",
                          "type", "content", "content", answer_text(plain)),
                200, error);
        const json_t *usage = json_object_get(predicted, "usage");
        if (!test_device()) /* there, rounding may choose between two tokens: test_device.c */
            assert_string_equal(answer_text(predicted), answer_text(plain));
        assert_true(
            json_integer_value(json_object_get(json_object_get(usage, "completion_tokens_details"),
                                               "accepted_prediction_tokens")) > 0);
        assert_true(i == 0 || json_integer_value(json_object_get(
                                  json_object_get(usage, "foretoken"), "accepted")) > 0);
        json_decref(plain);
        json_decref(predicted);
        json_decref(
            ask(port[i], json_pack("{s:s, s:s}", "prompt", "abc", "prediction", "x"), 400, error));
        assert_string_equal(error, "prediction");
        json_decref(ask(port[i],
                        json_pack("{s:s, s:{s:s, s:s}}", "prompt", "abc", "prediction", "type",
                                  "content", "content", text),
                        400, error));
        assert_string_equal(error, "prediction");
    }
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
    unlink(file);
    free(file);
}

static void test_bad_lists_of_servers(void **state)
{
    static const char *const lists[] = {"a:1,", "a:1,,b:2", ",a:1", "a:1,b",
                                        "a:1,b:2,c:3,d:4,e:5,f:6,g:7,h:8,i:9"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        program edge = program_start(
            (const char *[]){"edge", "--server", lists[i], "-m", model, "--port", "0", NULL});
        assert_int_equal(program_wait_end(&edge), 1);
    }
}

static void test_flags(void **state)
{
    static const char *const bad[][2] = {{"--trusted-proxy", "10.0.0.0/33"},
                                         {"--rule", "none"},
                                         {"--lattice", "100"}, /* with rule exact */
                                         {"--policy", "FILE"},
                                         {"--per-client-share", "101"},
                                         {"--rule", "auto"}, /* there is no draft model */
                                         {"--uplink-mbit", "2"},
                                         {"--uplink-mbit", "-1"},
                                         {"--uplink-mbit", "inf"},
                                         {"--uplink-mbit", "x"},
                                         {"--memory", "1G"}, /* without --fallback */
                                         {"--fallback-ms", "1000"},
                                         {"--draft-source", "model"},
                                         {"--draft-source", "both"},
                                         {"--draft-source", "none"},
                                         {"--kv-tokens", "1000"},
                                         {"--ctx-size", "256"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        program edge = program_start(
            (const char *[]){"edge", "--server", "a:1", "-m", model, bad[i][0], bad[i][1], NULL});
        assert_int_equal(program_wait_end(&edge), 2);
    }
    program edge = program_start((const char *[]){"edge", "--server", "a:1", "-md", model, "--rule",
                                                  "auto", "--no-speculation", NULL});
    assert_int_equal(program_wait_end(&edge), 2);
    edge = program_start((const char *[]){"edge", "--server", "a:1", "-m", model, "--rule", "ratio",
                                          "--draft-source", "lookup", NULL});
    assert_int_equal(program_wait_end(&edge), 2);
    edge = program_start((const char *[]){"edge", "--server", "a:1", "-md", model, "--predictor",
                                          "FILE", "--draft-source", "both", NULL});
    assert_int_equal(program_wait_end(&edge), 2);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_comes_late),
        cmocka_unit_test(test_stopped_while_it_waits),
        cmocka_unit_test(test_stopped_before_an_answer),
        cmocka_unit_test(test_server_does_not_fit),
        cmocka_unit_test(test_two_servers),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_fallback_does_not_fit),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_bad_lists_of_servers),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
