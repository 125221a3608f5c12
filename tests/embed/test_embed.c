// SPDX-License-Identifier: Apache-2.0
// libforetoken: drafts do not change a text, a client's text is the session's,
// misuse is told, a chat template that goes on and on is stopped. Then its two examples, in C and
// from Python, as programs.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/chat_prefix.h"
#include "base/secret.h"
#include "base/text.h"
#include "foretoken.h"
#include "support/program.h"
#include "support/tap.h"
#include "support/tiny_gguf.h"
#include "support/tiny_pair.h"

#define PROMPT "once upon a time"
#define TOKENS 48

static tiny_pair pair;

static int set_up(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    pair = tiny_pair_make("{\"prompt\": \"once\"}\n");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    return 0;
}

static foretoken_error error;

static void ok(int code)
{
    if (code)
        fail_msg("%s: %s", foretoken_code_name(code), error.message);
}

/* It failed, and said so. */
static void refused(int code, const char *name, const char *said)
{
    assert_int_equal(code, error.code);
    assert_string_equal(foretoken_code_name(code), name);
    if (!strstr(error.message, said))
        fail_msg("'%s' lacks '%s'", error.message, said);
}

static foretoken_engine *open_engine(const char *path)
{
    foretoken_engine *engine;
    ok(foretoken_engine_open(path, 1024, 1, &error, &engine));
    return engine;
}

static foretoken_session *start_session(foretoken_engine *engine, const foretoken_sampling *s)
{
    int32_t prompt[64];
    size_t n;
    foretoken_session *session;
    ok(foretoken_session_create(engine, s, &error, &session));
    ok(foretoken_engine_tokenize(engine, PROMPT, prompt, 64, &n, &error));
    assert_in_range(n, 1, 64);
    ok(foretoken_session_append(session, prompt, n, &error));
    assert_int_equal(foretoken_session_length(session), n);
    return session;
}

/* The next TOKENS tokens, one a round. */
static void decode(foretoken_session *session, int32_t *text)
{
    size_t accepted;
    for (size_t i = 0; i < TOKENS; i++)
        ok(foretoken_session_verify(session, NULL, 0, &accepted, &text[i], &error));
}

static const foretoken_sampling samplings[] = {{.temperature = 0},
                                               {.temperature = 0.8F, .top_p = 0.95F, .seed = 7}};

static void check_rounds(foretoken_engine *target, foretoken_engine *small,
                         const foretoken_sampling *s)
{
    int32_t plain[TOKENS], text[TOKENS + FORETOKEN_DRAFT_MAX], prompt[64], draft[4], next;
    size_t n, n_prompt, done = 0, accepted, all = 0;
    foretoken_drafter *drafter;
    foretoken_session *session = start_session(target, s);
    decode(session, plain);
    foretoken_session_destroy(session);

    session = start_session(target, s);
    ok(foretoken_drafter_create(small, s, &error, &drafter));
    ok(foretoken_engine_tokenize(target, PROMPT, prompt, 64, &n_prompt, &error));
    ok(foretoken_drafter_reset(drafter, prompt, n_prompt, &error));
    while (done < TOKENS) {
        ok(foretoken_drafter_draft(drafter, 4, draft, &n, &error));
        assert_int_equal(n, 4);
        ok(foretoken_session_verify(session, draft, n, &accepted, &next, &error));
        ok(foretoken_drafter_advance(drafter, accepted, next, &error));
        memcpy(text + done, draft, accepted * sizeof *draft);
        text[done + accepted] = next;
        done += accepted + 1;
        all += accepted;
    }
    assert_true(all > 0);
    assert_memory_equal(text, plain, sizeof plain);
    assert_int_equal(foretoken_session_length(session), n_prompt + done);
    foretoken_session_truncate(session, n_prompt); /* and once more */
    decode(session, text);
    assert_memory_equal(text, plain, sizeof plain);
    foretoken_drafter_destroy(drafter);
    foretoken_session_destroy(session);
}

static void test_drafts_change_no_text(void **state)
{
    foretoken_engine *target = open_engine(pair.target), *small = open_engine(pair.draft);
    assert_int_equal(foretoken_engine_vocabulary(target), foretoken_engine_vocabulary(small));
    for (size_t i = 0; i < 2; i++)
        check_rounds(target, small, &samplings[i]);
    foretoken_engine_close(small);
    foretoken_engine_close(target);
}

typedef struct answer_text {
    char bytes[4096];
    size_t n, most; /* stops behind `most` bytes */
} answer_text;

static bool on_text(void *ctx, const char *text, size_t n)
{
    answer_text *answer = ctx;
    assert_true(answer->n + n < sizeof answer->bytes);
    memcpy(answer->bytes + answer->n, text, n);
    answer->n += n;
    return answer->n < answer->most;
}

/* The text of n tokens that the session draws, as a client gets it: in valid UTF-8. */
static ft_buf drawn(foretoken_engine *target, const foretoken_sampling *s, uint64_t n)
{
    int32_t text[TOKENS];
    char bytes[64];
    ft_buf raw = {0}, out = {0};
    foretoken_session *session = start_session(target, s);
    decode(session, text);
    for (size_t i = 0; i < n; i++)
        ft_buf_append(&raw, bytes, foretoken_engine_piece(target, text[i], bytes, sizeof bytes));
    assert_int_equal(ft_utf8_repair(raw.data, raw.len, &out), FT_OK);
    ft_buf_deinit(&raw);
    foretoken_session_destroy(session);
    return out;
}

static void check_client(foretoken_client *client, foretoken_engine *target,
                         const foretoken_sampling *s)
{
    answer_text got = {.most = sizeof got.bytes}, first = {.most = 1};
    foretoken_answer answer;
    foretoken_request request = {
        .prompt = PROMPT, .max_tokens = TOKENS, .sampling = *s, .on_text = on_text, .ctx = &got};
    ok(foretoken_client_generate(client, &request, &answer, &error));
    assert_true(answer.tokens > 0 && answer.sent_bytes > 0 && answer.received_bytes > 0);
    ft_buf expected = drawn(target, s, answer.tokens);
    assert_int_equal(got.n, expected.len);
    assert_memory_equal(got.bytes, expected.data, got.n);
    ft_buf_deinit(&expected);
    request.ctx = &first;
    ok(foretoken_client_generate(client, &request, NULL, &error));
    assert_in_range(first.n, 1, got.n - 1);
    assert_memory_equal(first.bytes, got.bytes, first.n);
}

static void test_a_clients_text_is_the_sessions(void **state)
{
    char address[32];
    foretoken_client *client;
    program server =
        program_start((const char *[]){"serve", "-m", pair.target, "-t", "1", "--port", "0", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    foretoken_engine *target = open_engine(pair.target);
    for (int drafts = 0; drafts < 2; drafts++) {
        const foretoken_client_opts opts = {.server = address,
                                            .draft = drafts ? pair.draft : NULL,
                                            .vocabulary = drafts ? NULL : pair.target,
                                            .threads = 1};
        ok(foretoken_client_open(&opts, &error, &client));
        for (size_t i = 0; i < 2; i++)
            check_client(client, target, &samplings[i]);
        foretoken_client_close(client);
    }
    foretoken_engine_close(target);
    assert_int_equal(program_stop(&server), 0);
}

/* The digits that a client sends with its text; it is a client of its own. */
static void sent_prefix(int port, bool chat, char out[FT_CHAT_PREFIX_DIGITS + 1])
{
    char address[32];
    tap t;
    foretoken_client *client;
    answer_text got = {.most = 1};
    tap_start(&t, port);
    snprintf(address, sizeof address, "127.0.0.1:%d", t.port);
    const foretoken_client_opts opts = {.server = address, .vocabulary = pair.target, .threads = 1};
    const foretoken_request request = {
        .prompt = PROMPT, .chat = chat, .max_tokens = 2, .on_text = on_text, .ctx = &got};
    ok(foretoken_client_open(&opts, &error, &client));
    ok(foretoken_client_generate(client, &request, NULL, &error));
    foretoken_client_close(client);
    tap_wait(&t);
    const char *name =
        memmem(t.sent.data, t.sent.len, FT_CHAT_PREFIX_HEADER, strlen(FT_CHAT_PREFIX_HEADER));
    assert_non_null(name); /* then the value's length, in a byte */
    snprintf(out, FT_CHAT_PREFIX_DIGITS + 1, "%s", name + strlen(FT_CHAT_PREFIX_HEADER) + 1);
    ft_buf_deinit(&t.sent);
}

/* A message has the prefix that the API gives a chat that begins with it. */
static void test_prefix(void **state)
{
    const ft_chat_message message = {.role = "user", .content = PROMPT};
    const uint64_t number = ft_chat_prefix_of(&message, 1);
    char chat[FT_CHAT_PREFIX_DIGITS + 1], continued[FT_CHAT_PREFIX_DIGITS + 1], expected[32];
    program server =
        program_start((const char *[]){"serve", "-m", pair.target, "-t", "1", "--port", "0", NULL});
    const int port = program_wait_port(&server, "listening");
    (void)state;
    sent_prefix(port, true, chat);
    sent_prefix(port, false, continued);
    snprintf(expected, sizeof expected, "%016llx",
             (unsigned long long)ft_siphash((const uint8_t[16]){0}, &number, sizeof number));
    assert_string_equal(chat, expected);
    assert_true(ft_hex_is(continued, FT_CHAT_PREFIX_DIGITS));
    assert_string_not_equal(continued, chat);
    assert_int_equal(program_stop(&server), 0);
}

static void test_misuse(void **state)
{
    foretoken_engine *engine;
    foretoken_session *session;
    foretoken_drafter *drafter;
    foretoken_client *client;
    int32_t tokens[FORETOKEN_DRAFT_MAX + 1] = {0}, next;
    const int32_t outside = 1 << 20;
    size_t n;
    refused(foretoken_engine_open("/nonexistent.gguf", 64, 1, &error, &engine), "NOT_FOUND",
            "nonexistent");
    assert_null(engine);
    refused(foretoken_engine_open(NULL, 64, 1, &error, &engine), "INVALID", "no model file");
    refused(foretoken_engine_open(pair.target, 0, 1, &error, &engine), "INVALID", "0 tokens");
    engine = open_engine(pair.target);
    refused(foretoken_session_create(engine, &(foretoken_sampling){.temperature = -1}, &error,
                                     &session),
            "INVALID", "temperature");
    assert_null(session);
    ok(foretoken_session_create(engine, NULL, &error, &session));
    refused(foretoken_session_verify(session, NULL, 0, &n, &next, &error), "INVALID", "empty");
    refused(foretoken_session_append(session, &outside, 1, &error), "INVALID", "vocabulary");
    ok(foretoken_session_append(session, tokens, 3, &error));
    refused(foretoken_session_verify(session, tokens, FORETOKEN_DRAFT_MAX + 1, &n, &next, &error),
            "INVALID", "at most 64");
    refused(foretoken_session_verify(session, &outside, 1, &n, &next, &error), "INVALID",
            "vocabulary");
    refused(foretoken_session_append(session, tokens, SIZE_MAX, &error), "TOO_LARGE", "context");
    assert_int_equal(foretoken_session_length(session), 3);
    ok(foretoken_session_verify(session, tokens, 2, &n, &next, NULL));
    foretoken_session_destroy(session);
    ok(foretoken_drafter_create(engine, NULL, &error, &drafter));
    refused(foretoken_drafter_draft(drafter, 1, tokens, &n, &error), "INVALID", "reset");
    refused(foretoken_drafter_reset(drafter, tokens, 0, &error), "INVALID", "0 tokens");
    refused(foretoken_drafter_advance(drafter, 1, 0, &error), "INVALID", "draft of 0");
    foretoken_drafter_destroy(drafter);
    foretoken_engine_close(engine);
    refused(
        foretoken_client_open(&(foretoken_client_opts){.server = "127.0.0.1:1"}, &error, &client),
        "INVALID", "not both");
    refused(foretoken_client_open(
                &(foretoken_client_opts){.server = "127.0.0.1:1", .vocabulary = pair.target},
                &error, &client),
            "UNAVAILABLE", "127.0.0.1:1");
    foretoken_session_destroy(NULL);
    foretoken_drafter_destroy(NULL);
    foretoken_engine_close(NULL);
    foretoken_client_close(NULL);
}

static void needs_common(void)
{
#ifndef FT_HAVE_COMMON
    skip(); /* no template's program runs */
#endif
}

/* A chat template whose loop has an item too many if the message is "go". */
#define LONG_LOOP                                                                            \
    "{% if messages[0].content == 'go' %}{% for i in range(20001) %}{% endfor %}{% endif %}" \
    "{{ messages[0].content }}"

static char *model_with_a_loop(void)
{
    return tiny_gguf_temp(
        &(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .seed = 3, .chat_template = LONG_LOOP});
}

/* As by a server's API, a chat template that goes on and on is stopped. */
static void test_limits_of_a_template(void **state)
{
    char address[32];
    foretoken_client *client;
    answer_text got = {.most = 1};
    (void)state;
    needs_common();
    program server =
        program_start((const char *[]){"serve", "-m", pair.target, "-t", "1", "--port", "0", NULL});
    char *model = model_with_a_loop();
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    const foretoken_client_opts opts = {.server = address, .vocabulary = model, .threads = 1};
    foretoken_request request = {
        .prompt = "go", .chat = true, .max_tokens = 2, .on_text = on_text, .ctx = &got};
    ok(foretoken_client_open(&opts, &error, &client));
    refused(foretoken_client_generate(client, &request, NULL, &error), "INVALID", "20,000 items");
    assert_int_equal(got.n, 0);
    request.prompt = "stay";
    ok(foretoken_client_generate(client, &request, NULL, &error));
    foretoken_client_close(client);
    unlink(model);
    free(model);
    assert_int_equal(program_stop(&server), 0);
}

/* A text that does not fit into the pool is refused, and the session goes on. */
static void test_a_full_pool(void **state)
{
    foretoken_engine *engine;
    size_t n, length;
    int32_t next;
    int code = 0;
    ok(foretoken_engine_open(pair.target, 32, 1, &error, &engine));
    foretoken_session *session = start_session(engine, NULL);
    while (code == 0) {
        length = foretoken_session_length(session);
        assert_true(length <= 64);
        code = foretoken_session_verify(session, NULL, 0, &n, &next, &error);
    }
    assert_string_equal(foretoken_code_name(code), "EXHAUSTED");
    assert_int_equal(foretoken_session_length(session), length);
    foretoken_session_truncate(session, 8);
    ok(foretoken_session_verify(session, NULL, 0, &n, &next, &error));
    foretoken_session_destroy(session);
    foretoken_engine_close(engine);
}

/* Runs a command; what it writes is in out. */
static void shell(const char *command, char *out, size_t size)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = 0;
    assert_int_equal(pclose(pipe), 0);
}

static void test_example_in_c(void **state)
{
    char command[1024], out[2048];
    snprintf(command, sizeof command, "%s %s %s '" PROMPT "' 24 2>/dev/null", getenv("FT_EXAMPLE"),
             pair.target, pair.draft);
    shell(command, out, sizeof out);
    assert_true(out[0] != 0);
}

static void test_example_in_python(void **state)
{
    char command[1024], out[2048];
    if (!getenv("FT_LIBRARY")) {
        print_message("SKIPPED: the library has a sanitizer, python has none\n");
        skip();
    }
    program server =
        program_start((const char *[]){"serve", "-m", pair.target, "-t", "1", "--port", "0", NULL});
    snprintf(command, sizeof command,
             "python3 %s/examples/embed.py %s 127.0.0.1:%d %s '" PROMPT "' 24 2>/dev/null",
             getenv("FT_SOURCE_DIR"), getenv("FT_LIBRARY"), program_wait_port(&server, "listening"),
             pair.draft);
    shell(command, out, sizeof out);
    assert_true(out[0] != 0);
    assert_int_equal(program_stop(&server), 0);
}

/* The limits hold, too, where a program loads the library while it runs. */
static void test_limits_in_python(void **state)
{
    char command[2048], out[2048];
    (void)state;
    needs_common();
    if (!getenv("FT_LIBRARY"))
        skip();
    program server =
        program_start((const char *[]){"serve", "-m", pair.target, "-t", "1", "--port", "0", NULL});
    char *model = model_with_a_loop();
    snprintf(
        command, sizeof command,
        "python3 -c 'import functools, sys; sys.path.insert(0, \"%s/examples\"); import embed; "
        "embed.Request = functools.partial(embed.Request, chat=True); embed.main()' "
        "%s 127.0.0.1:%d %s go 2 2>&1 || true",
        getenv("FT_SOURCE_DIR"), getenv("FT_LIBRARY"), program_wait_port(&server, "listening"),
        model);
    shell(command, out, sizeof out);
    if (!strstr(out, "20,000 items"))
        fail_msg("%s", out);
    unlink(model);
    free(model);
    assert_int_equal(program_stop(&server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drafts_change_no_text),
                                       cmocka_unit_test(test_a_clients_text_is_the_sessions),
                                       cmocka_unit_test(test_prefix),
                                       cmocka_unit_test(test_misuse),
                                       cmocka_unit_test(test_limits_of_a_template),
                                       cmocka_unit_test(test_a_full_pool),
                                       cmocka_unit_test(test_example_in_c),
                                       cmocka_unit_test(test_example_in_python),
                                       cmocka_unit_test(test_limits_in_python)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
