// SPDX-License-Identifier: Apache-2.0
// Each allocation of a request that fails, one after the other, from the app's HTTP request through
// the edge and gRPC to the verifier and back: the request has its text or ends with an error,
// nothing crashes, another session goes on with its text, and the next request has its text.
// Counted are our own allocations and those of jansson and protobuf-c, but not those of gRPC and
// ggml, which end the process if one fails.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "edge/openai_backend.h"
#include "serve/server.h"
#include "support/fail_allocs.h"
#include "support/http_client.h"
#include "support/local_client.h"
#include "support/target.h"
#include "support/tiny_gguf.h"

typedef struct chain {
    ft_server *server;
    ft_wire_client *client;
    char *trace_path;
    ft_trace *trace;
    ft_edge *edge;
    ft_openai *openai;
    ft_http *http;
} chain;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static void chain_start(chain *c)
{
    ft_error err = {0};
    char address[64];
    const ft_server_opts server = {.verifier = test_verifier_opts((ft_verifier_opts){
                                       .max_sessions = 64, .session_ttl_s = 600}),
                                   .host = "127.0.0.1"};
    must(ft_server_create(&server, &err, &c->server), &err);
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_server_port(c->server));
    const ft_wire_client_opts client = {.address = address};
    must(ft_wire_client_create(&client, &err, &c->client), &err);
    c->trace_path = tiny_temp_path();
    must(ft_trace_open(&(ft_trace_opts){.path = c->trace_path}, &err, &c->trace), &err);
    const ft_edge_opts edge = {.vocab = target.vocab,
                               .draft_model = target.model,
                               .source = ft_link_source_wire(c->client),
                               .draft = ft_draft_params_chain(3),
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1,
                               .reconnect_ms = 2000,
                               .trace = c->trace};
    must(ft_edge_create(&edge, &err, &c->edge), &err);
    const ft_openai_opts openai = {.edge = c->edge, .vocab = target.vocab, .model_id = "tiny"};
    must(ft_openai_create(&openai, &err, &c->openai), &err);
    const ft_http_opts http = {.backend = ft_openai_backend(c->openai)};
    must(ft_http_create(&http, &err, &c->http), &err);
}

static void chain_stop(chain *c)
{
    ft_http_destroy(c->http);
    ft_openai_destroy(c->openai);
    ft_edge_destroy(c->edge);
    ft_trace_close(c->trace);
    unlink(c->trace_path);
    free(c->trace_path);
    ft_wire_client_destroy(c->client);
    ft_server_destroy(c->server, 0);
}

/* ---- another session ---- */

typedef struct bystander {
    local_client c;
    test_text text, wanted;
    test_edge edge;
    uint32_t n_texts;
} bystander;

static void bystander_open(bystander *b, ft_verifier *v)
{
    test_text_random(&b->text, 20, 3);
    b->edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    const ft_msg_open open = local_open_msg(&b->text, 0.8f, 3, 100);
    local_open(&b->c, v, &open, "bystander");
    local_wait_opened(&b->c);
}

/* A round; the next text where one has ended as the first did. */
static void bystander_round(bystander *b, ft_verifier *v)
{
    assert_true(local_round(&b->c, &b->edge, &b->text));
    if (b->text.finish == FT_FINISH_NONE)
        return;
    if (b->n_texts++ == 0)
        b->wanted = b->text;
    assert_true(test_text_equal(&b->text, &b->wanted));
    local_close(&b->c);
    bystander_open(b, v);
}

/* ---- requests ---- */

static const struct request {
    const char *path, *body;
} requests[] = {
    {"/v1/completions", "{\"prompt\":\"once upon\",\"max_tokens\":6,\"seed\":9,\"logprobs\":2}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"three\"}],"
                             "\"max_tokens\":4,\"temperature\":0,\"logprobs\":true,"
                             "\"top_logprobs\":2}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"once <|im_end|>\"}],"
                             "\"max_tokens\":6,\"seed\":9,\"stream\":true,\"stop\":[\"zzz\"]}"},
};

/* Appends the text of an answer, or of an event of one, with all that it says about it. False: it
 * is an error. *ended: it has a finish_reason. */
static bool append_text(const char *json, ft_buf *text, bool *ended)
{
    json_t *root = json_loads(json, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    char *rest = NULL;
    *ended |= json_is_string(json_object_get(choice, "finish_reason"));
    if (delta)
        ft_buf_puts(text, json_string_length(json_object_get(delta, "content"))
                              ? json_string_value(json_object_get(delta, "content"))
                              : "");
    else if (choice)
        ft_buf_puts(text, rest = json_dumps(choice, JSON_COMPACT | JSON_SORT_KEYS));
    free(rest);
    json_decref(root);
    return choice != NULL;
}

/* Asks once. *text: what the answer says; empty if it is an error, or not whole. */
static void ask(int port, const struct request *request, ft_buf *text)
{
    http_response r = {0};
    bool ended = false;
    ft_buf_clear(text);
    bool good = http_ask(port, "POST", request->path, "", request->body, &r) == 200;
    char *body = strdup(ft_buf_str(&r.body)), *rest = NULL;
    for (char *line = strtok_r(body, "\n", &rest); line && good;
         line = strtok_r(NULL, "\n", &rest)) {
        line += strncmp(line, "data: ", 6) == 0 ? 6 : 0;
        if (strcmp(line, "[DONE]") != 0)
            good = append_text(line, text, &ended);
    }
    if (!good || !ended)
        ft_buf_clear(text);
    free(body);
    http_response_deinit(&r);
}

static void test_each_fails(void **state)
{
    chain c = {0};
    bystander *b;
    ft_buf wanted = {0}, got = {0};
    (void)state;
    if (!FAILS_ALLOCS) {
        print_message("SKIPPED: allocations cannot fail in this build\n");
        skip();
    }
    b = calloc(1, sizeof *b);
    assert_non_null(b);
    chain_start(&c);
    ft_verifier *v = ft_server_verifier(c.server);
    const int port = ft_http_port(c.http);
    bystander_open(b, v);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        long n = 0, lost = 0;
        ask(port, &requests[i], &wanted);
        assert_true(wanted.len > 0);
        for (bool failed = true; failed; n++) {
            fail_allocs_arm(n + 1);
            ask(port, &requests[i], &got);
            failed = fail_allocs_disarm() != NULL;
            assert_true(failed || got.len > 0);
            if (got.len > 0)
                assert_string_equal(ft_buf_str(&got), ft_buf_str(&wanted));
            lost += got.len == 0;
            bystander_round(b, v);
            ask(port, &requests[i], &got);
            assert_string_equal(ft_buf_str(&got), ft_buf_str(&wanted));
        }
        print_message("%s: %ld allocations, %ld of them ended the request\n", requests[i].path,
                      n - 1, lost);
        assert_true(n > 50 && lost > 20);
    }
    assert_true(b->n_texts > 1);
    local_close(&b->c);
    chain_stop(&c);
    ft_buf_deinit(&wanted);
    ft_buf_deinit(&got);
    free(b);
}

static int set_up(void **state)
{
    static const char *const modules[] = {"", "libjansson", "libprotobuf-c", NULL};
    fail_allocs_init(modules);
    fail_allocs_not_here = true;
    int failed = test_target_setup(state);
    ft_log_set_level(FT_LOG_ERROR);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_fails)};
    return cmocka_run_group_tests(tests, set_up, test_target_teardown);
}
