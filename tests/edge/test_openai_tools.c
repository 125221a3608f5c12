// SPDX-License-Identifier: Apache-2.0
// Calls that a model makes of its own accord, where the server is too busy to compile their
// constraint: the client learns it, and the next request has the constraint.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "edge/openai_backend.h"
#include "local/link.h"
#include "support/tiny_gguf.h"

static const char chat_template[] =
    "{% if tools %}{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}[CALLS]{{ c.function.name }}[ARGS]"
    "{{ c.function.arguments | tojson }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* A clock that goes on by 3 s each time that it is asked while `slow` is set. */
typedef struct slow_clock {
    atomic_bool slow;
    atomic_int looks;
} slow_clock;

static int64_t slow_now_us(void *ctx)
{
    slow_clock *c = ctx;
    const int n = atomic_load(&c->slow) ? atomic_fetch_add(&c->looks, 1) : atomic_load(&c->looks);
    return 3000000 * (int64_t)n + ft_monotonic_us();
}

typedef struct bench {
    slow_clock clock;
    ft_vocab *vocab;
    ft_model *model;
    ft_verifier *verifier;
    ft_edge *edge;
} bench;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static void start(bench *b)
{
    static const char *const marks[] = {"[CALLS]", "[ARGS]", NULL};
    ft_error err = {0};
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){
        .type = GGML_TYPE_Q4_0, .seed = 3, .chat_template = chat_template, .control = marks});
    must(ft_vocab_load(path, &err, &b->vocab), &err);
    must(ft_model_load(&(ft_model_opts){.path = path}, &err, &b->model), &err);
    unlink(path);
    free(path);
    const ft_verifier_opts verifier = {.model = b->model,
                                       .vocab = b->vocab,
                                       .clock = {slow_now_us, &b->clock},
                                       .max_context = 1024,
                                       .kv_tok = 2048,
                                       .n_threads = 1};
    must(ft_verifier_create(&verifier, &err, &b->verifier), &err);
    ft_edge_opts edge = {.vocab = b->vocab,
                         .draft_model = b->model,
                         .source = ft_local_link_source(b->verifier),
                         .draft = ft_draft_params_chain(3),
                         .clock = ft_clock_monotonic(),
                         .n_threads = 1};
    edge.source.grammars = NULL; /* as if the server were elsewhere: it compiles at Open only */
    must(ft_edge_create(&edge, &err, &b->edge), &err);
}

static void end(bench *b)
{
    ft_edge_destroy(b->edge);
    ft_verifier_destroy(b->verifier);
    ft_model_destroy(b->model);
    ft_vocab_destroy(b->vocab);
}

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    return ft_buf_append(ctx, text, n) == FT_OK;
}

static bool never(void *ctx)
{
    return false;
}

/* The text of a model that always wants to begin a call. */
static ft_status ask(bench *b, ft_openai *openai, ft_error *err, ft_buf *text)
{
    static const ft_chat_message message = {.role = "user", .content = "x"};
    static const ft_chat_tool tool = {
        .name = "f",
        .parameters = "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Paris\"]}},"
                      "\"required\":[\"city\"],\"additionalProperties\":false}"};
    static const ft_penalties calls = {.n_bias = 1, .bias_token = {320 - 1}, .bias = {100}};
    const ft_http_request q = {
        .chat = true,
        .conversation = {.messages = &message, .n_messages = 1, .tools = &tool, .n_tools = 1},
        .max_tokens = 24,
        .top_p = 1,
        .penalties = &calls};
    const ft_gen_sink sink = {.ctx = text, .on_text = on_text, .cancelled = never};
    const ft_http_backend backend = ft_openai_backend(openai);
    ft_http_result result = {0};
    const ft_status status = backend.generate(backend.ctx, &q, &sink, err, &result);
    json_decref(result.extension);
    return status;
}

static ft_openai *backend_of(bench *b)
{
    ft_openai *openai;
    ft_error err = {0};
    const ft_openai_opts opts = {.edge = b->edge, .vocab = b->vocab, .model_id = "tiny"};
    must(ft_openai_create(&opts, &err, &openai), &err);
    return openai;
}

static void test_busy(void **state)
{
    bench b = {0};
    ft_error err = {0};
    ft_buf refused = {0}, first = {0}, again = {0};
#ifndef FT_HAVE_COMMON
    skip();
#endif
    if (!ft_constrain_available())
        skip();
    start(&b);
    ft_openai *openai = backend_of(&b), *other = backend_of(&b);
    atomic_store(&b.clock.slow, true);
    assert_int_equal(ask(&b, openai, &err, &refused), FT_ABORTED);
    assert_int_equal(refused.len, 0);
    atomic_store(&b.clock.slow, false);
    must(ask(&b, openai, &err, &again), &err);
    must(ask(&b, other, &err, &first), &err); /* it was never refused */
    assert_non_null(strstr(ft_buf_str(&again), "{\"city\": \"Paris\"}"));
    assert_string_equal(ft_buf_str(&again), ft_buf_str(&first));
    ft_buf_deinit(&first);
    ft_buf_deinit(&again);
    ft_openai_destroy(openai);
    ft_openai_destroy(other);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_busy)};
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
