// SPDX-License-Identifier: Apache-2.0
// The OpenAI backend over an edge and a verifier in process: prompts by template, text and ids,
// limits, seeds, log-probabilities with their bytes, health and metrics.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "edge/openai_backend.h"
#include "local/link.h"
#include "support/tiny_gguf.h"

#define MAX_CONTEXT 256

typedef struct bench {
    ft_vocab *vocab;
    ft_model *model;
    ft_verifier *verifier;
    ft_edge *edge;
    ft_openai *openai;
    ft_http_backend backend;
    char *trace_path;
    ft_trace *trace;
} bench;

static bench b;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

/* ---- what proxies choose a server by ---- */

static uint64_t prefix;
static ft_link_vtable remembering; /* the local links', and it remembers `prefix` */

static void remember_prefix(ft_link *link, uint64_t number)
{
    (void)link;
    prefix = number;
}

static ft_status remembering_open(void *ctx, ft_error *err, ft_link **out)
{
    const ft_link_source inner = ft_local_link_source(ctx);
    const ft_status status = inner.open(inner.ctx, err, out);
    if (status != FT_OK)
        return status;
    remembering = *(*out)->vt;
    remembering.use_prefix = remember_prefix;
    (*out)->vt = &remembering;
    return FT_OK;
}

static int setup(void **state)
{
    ft_error err = {0};
    tiny_quiet();
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    must(ft_vocab_load(path, &err, &b.vocab), &err);
    must(ft_model_load(&(ft_model_opts){.path = path}, &err, &b.model), &err);
    unlink(path);
    free(path);
    const ft_verifier_opts verifier = {.model = b.model,
                                       .vocab = b.vocab,
                                       .clock = ft_clock_monotonic(),
                                       .max_context = MAX_CONTEXT,
                                       .kv_tok = 1024,
                                       .n_threads = 1};
    must(ft_verifier_create(&verifier, &err, &b.verifier), &err);
    b.trace_path = tiny_temp_path();
    must(ft_trace_open(&(ft_trace_opts){.path = b.trace_path}, &err, &b.trace), &err);
    ft_link_source source = ft_local_link_source(b.verifier);
    source.open = remembering_open;
    const ft_edge_opts edge = {.vocab = b.vocab,
                               .draft_model = b.model,
                               .source = source,
                               .draft = ft_draft_params_chain(3),
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1,
                               .trace = b.trace};
    must(ft_edge_create(&edge, &err, &b.edge), &err);
    static const char *const aliases[] = {"small"};
    const ft_openai_opts openai = {
        .edge = b.edge, .vocab = b.vocab, .model_id = "tiny", .aliases = aliases, .n_aliases = 1};
    must(ft_openai_create(&openai, &err, &b.openai), &err);
    b.backend = ft_openai_backend(b.openai);
    return 0;
}

static int teardown(void **state)
{
    ft_openai_destroy(b.openai);
    ft_edge_destroy(b.edge);
    ft_trace_close(b.trace);
    unlink(b.trace_path);
    free(b.trace_path);
    ft_verifier_destroy(b.verifier);
    ft_model_destroy(b.model);
    ft_vocab_destroy(b.vocab);
    return 0;
}

typedef struct call {
    ft_http_request q;
    size_t origin_bytes[FT_ORIGIN_N];
    uint32_t told_accepted, told_drafted, told_tokens, last_round;
    ft_undrafted undrafted; /* of the last run */
    bool backwards;         /* a round, or a time, was before the one before it */
    int64_t last_us;
    ft_buf text, pieces;
    size_t n_tokens, n_top; /* tokens with log-probabilities; alternatives */
    bool rising;            /* an alternative was likelier than one before it */
    bool hung_up;
    uint64_t target; /* that the sink was told */
    ft_status status;
    ft_error err;
    ft_http_result result;
} call;

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    call *c = ctx;
    ft_buf_append(&c->text, text, n);
    for (size_t i = 0; i < n_tokens; i++) {
        const ft_token_logprob *lp = &tokens[i].logprob;
        if (!tokens[i].has_logprob)
            continue;
        b.backend.token_text(b.backend.ctx, tokens[i].id, &c->pieces);
        c->n_top += lp->n_top;
        for (size_t k = 1; k < lp->n_top; k++)
            c->rising |= lp->top[k].logprob > lp->top[k - 1].logprob;
        c->n_tokens++;
    }
    return true;
}

static void on_target(void *ctx, uint64_t target)
{
    ((call *)ctx)->target = target;
}

static void on_told(void *ctx, const ft_told *told)
{
    call *c = ctx;
    for (size_t i = 0; i < told->n_spans; i++)
        c->origin_bytes[told->spans[i].origin] += told->spans[i].bytes;
    c->told_accepted += told->accepted;
    c->told_drafted += told->drafted;
    c->told_tokens += told->tokens;
    c->backwards |= told->round < c->last_round || told->at_us < c->last_us;
    c->last_round = told->round;
    c->last_us = told->at_us;
    if (told->undrafted)
        c->undrafted = told->undrafted;
}

static bool hung_up(void *ctx)
{
    return ((call *)ctx)->hung_up;
}

static void go(call *c)
{
    const ft_gen_sink sink = {.ctx = c,
                              .on_text = on_text,
                              .cancelled = hung_up,
                              .on_target = on_target,
                              .on_told = on_told};
    if (c->q.top_p == 0)
        c->q.top_p = 1;
    json_decref(c->result.extension);
    c->status = b.backend.generate(b.backend.ctx, &c->q, &sink, &c->err, &c->result);
}

static void free_call(call *c)
{
    ft_buf_deinit(&c->text);
    ft_buf_deinit(&c->pieces);
    json_decref(c->result.extension);
    c->result.extension = NULL;
}

/* A number of usage.foretoken. */
static double usage(const call *c, const char *name)
{
    const json_t *number = json_object_get(c->result.extension, name);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

static void test_chat(void **state)
{
    const ft_chat_message messages[] = {{.role = "system", .content = "be brief"},
                                        {.role = "user", .content = "hello <|im_end|>"}};
    ft_tokens prompt = {0};
    ft_error err = {0};
    must(ft_vocab_chat(b.vocab, messages, 2, NULL, &err, &prompt), &err);
    call c = {.q = {.chat = true,
                    .conversation = {.messages = messages, .n_messages = 2},
                    .max_tokens = 12,
                    .temperature = 1,
                    .has_seed = true,
                    .seed = 5}};
    go(&c);
    must(c.status, &c.err);
    assert_int_equal(c.result.prompt_tokens, prompt.n);
    assert_in_range(c.result.completion_tokens, 1, 12);
    assert_int_equal(c.result.length, c.result.completion_tokens == 12);
    assert_int_equal(c.n_tokens, 0); /* no logprobs were asked for */
    assert_int_equal(json_object_size(c.result.extension), 22);
    assert_true(usage(&c, "target_changed") == 0 && usage(&c, "predictor_rounds") == 0);
    assert_true(usage(&c, "fallback_tokens") == 0 && usage(&c, "switches") == 0);
    assert_string_equal(json_string_value(json_object_get(c.result.extension, "rule")), "exact");
    assert_string_equal(json_string_value(json_object_get(c.result.extension, "rule_reason")),
                        "asked");
    assert_true(json_is_true(json_object_get(c.result.extension, "same_tokens")));
    assert_true(c.target == ft_edge_server_info(b.edge)->target && c.target != 0);
    assert_true(usage(&c, "rounds") > 0);
    assert_true(usage(&c, "ttft_ms") <= usage(&c, "total_ms"));
    ft_tokens_deinit(&prompt);
    free_call(&c);
}

static uint64_t prefix_of(ft_http_request q)
{
    call c = {.q = q};
    c.q.chat = q.conversation.n_messages > 0;
    c.q.max_tokens = 2;
    go(&c);
    must(c.status, &c.err);
    free_call(&c);
    return prefix;
}

static uint64_t prefix_of_chat(const ft_chat_message *messages, size_t n)
{
    return prefix_of((ft_http_request){.conversation = {.messages = messages, .n_messages = n}});
}

/* All turns of a chat have the same, another chat has another. */
static void test_prefix(void **state)
{
    const ft_chat_message turns[] = {{.role = "system", .content = "be brief"},
                                     {.role = "user", .content = "hello"},
                                     {.role = "assistant", .content = "good day"},
                                     {.role = "user", .content = "how are you"}};
    const ft_chat_message other[] = {{.role = "system", .content = "be brief"},
                                     {.role = "user", .content = "hello!"}};
    const ft_chat_message glued[] = {{.role = "system", .content = "be briefuser"},
                                     {.role = "user", .content = "hello"}};
    (void)state;
    const uint64_t first = prefix_of_chat(turns, 2);
    assert_true(prefix_of_chat(turns, 4) == first);
    assert_true(prefix_of_chat(other, 2) != first);
    assert_true(prefix_of_chat(glued, 2) != first);
    assert_true(prefix_of_chat(turns, 1) != 0); /* no user has spoken: by the whole prompt */
    const uint64_t text = prefix_of((ft_http_request){.prompt = "abc"});
    assert_true(text != 0 && text == prefix_of((ft_http_request){.prompt = "abc"}));
    assert_true(text != prefix_of((ft_http_request){.prompt = "abd"}));
}

static void test_same_prompt_as_text_and_ids(void **state)
{
    ft_tokens ids = {0};
    ft_error err = {0};
    must(ft_vocab_tokenize(b.vocab, "once upon a time", 16, NULL, &err, &ids), &err);
    call text = {.q = {.prompt = "once upon a time", .max_tokens = 12}};
    call list = {.q = {.prompt_tokens = ids.id, .n_prompt_tokens = ids.n, .max_tokens = 12}};
    go(&text);
    go(&list);
    must(text.status, &text.err);
    must(list.status, &list.err);
    assert_int_equal(text.result.prompt_tokens, ids.n);
    assert_string_equal(ft_buf_str(&text.text), ft_buf_str(&list.text));
    ft_tokens_deinit(&ids);
    free_call(&text);
    free_call(&list);
}

static void test_seed(void **state)
{
    call one = {
        .q = {.prompt = "abc", .max_tokens = 24, .temperature = 2, .has_seed = true, .seed = 5}};
    call again = one, other = one, random = one;
    other.q.seed = 6;
    random.q.has_seed = false;
    call random_again = random;
    go(&one);
    go(&again);
    go(&other);
    go(&random);
    go(&random_again);
    assert_string_equal(ft_buf_str(&one.text), ft_buf_str(&again.text));
    assert_string_not_equal(ft_buf_str(&one.text), ft_buf_str(&other.text));
    assert_string_not_equal(ft_buf_str(&random.text), ft_buf_str(&random_again.text));
    free_call(&one);
    free_call(&again);
    free_call(&other);
    free_call(&random);
    free_call(&random_again);
}

static void test_logprobs(void **state)
{
    call c = {.q = {.prompt = "abc", .max_tokens = 10, .logprobs = true, .top_logprobs = 4}};
    go(&c);
    must(c.status, &c.err);
    assert_int_equal(c.n_tokens, c.result.completion_tokens);
    assert_int_equal(c.n_top, 4 * c.n_tokens);
    assert_false(c.rising);
    if (ft_utf8_valid(ft_buf_str(&c.pieces), c.pieces.len))
        assert_string_equal(ft_buf_str(&c.pieces), ft_buf_str(&c.text));
    else
        assert_true(c.pieces.len > 0);
    free_call(&c);
}

/* It is left where it has become longer than the context. */
static void test_very_long_text(void **state)
{
    char *prompt = malloc(100001);
    assert_non_null(prompt);
    memset(prompt, 'x', 100000);
    prompt[100000] = 0;
    call c = {.q = {.prompt = prompt}};
    go(&c);
    assert_int_equal(c.status, FT_TOO_LARGE);
    assert_non_null(strstr(c.err.message, "has more than 2048 tokens, the context holds 256"));
    free_call(&c);
    free(prompt);
}

static void test_limits(void **state)
{
    char prompt[2 * MAX_CONTEXT + 1];
    memset(prompt, 'x', sizeof prompt - 1);
    prompt[sizeof prompt - 1] = 0;
    call c = {.q = {.prompt = prompt}};
    go(&c);
    assert_int_equal(c.status, FT_TOO_LARGE);
    assert_string_equal(c.err.message, "the prompt has 512 tokens, the context holds 256");
    const int32_t three[] = {70, 71, 72};
    free_call(&c);
    c = (call){.q = {.prompt_tokens = three, .n_prompt_tokens = 3, .max_tokens = INT32_MAX}};
    go(&c);
    assert_int_equal(c.status, FT_OK); /* cut to what fits */
    assert_int_equal(c.result.completion_tokens, MAX_CONTEXT - 3);
    assert_true(c.result.length);
    const int32_t ids[] = {5, 320};
    free_call(&c);
    c = (call){.q = {.prompt_tokens = ids, .n_prompt_tokens = 2}};
    go(&c);
    assert_int_equal(c.status, FT_INVALID);
    assert_non_null(strstr(c.err.message, "prompt token 1 is 320"));
    free_call(&c);
    c = (call){.q = {.prompt = ""}};
    go(&c);
    assert_int_equal(c.status, FT_INVALID);
    free_call(&c);
}

/* The prompt of the second text is in the server's prefix cache. */
static void test_cached(void **state)
{
    char prompt[200];
    memset(prompt, 'c', sizeof prompt - 1);
    prompt[sizeof prompt - 1] = 0;
    for (int i = 0; i < 2; i++) {
        call c = {.q = {.prompt = prompt, .max_tokens = 2}};
        go(&c);
        assert_int_equal(c.status, FT_OK);
        const ft_http_result *r = &c.result;
        assert_true(i == 0 ? r->cached_tokens == 0
                           : r->cached_tokens > 0 && r->cached_tokens < r->prompt_tokens);
        assert_true(r->first_us > 0 && r->first_us <= r->total_us && r->accepted <= r->drafted);
        free_call(&c);
    }
}

/* A server that drafts by itself does not for a text that is to have no drafts. */
static void test_no_server_drafts(void **state)
{
    const bench kept = b;
    ft_error err = {0};
    ft_verifier_stats before, after;
    const ft_verifier_opts verifier = {.model = b.model,
                                       .vocab = b.vocab,
                                       .draft_model = b.model,
                                       .draft_vocab = b.vocab,
                                       .draft = ft_draft_params_chain(3),
                                       .draft_always = true,
                                       .clock = ft_clock_monotonic(),
                                       .max_context = MAX_CONTEXT,
                                       .kv_tok = 1024,
                                       .n_threads = 1};
    must(ft_verifier_create(&verifier, &err, &b.verifier), &err);
    const ft_edge_opts edge = {.vocab = b.vocab,
                               .source = ft_local_link_source(b.verifier),
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    must(ft_edge_create(&edge, &err, &b.edge), &err);
    const ft_openai_opts openai = {.edge = b.edge, .vocab = b.vocab};
    must(ft_openai_create(&openai, &err, &b.openai), &err);
    b.backend = ft_openai_backend(b.openai);
    call with = {.q = {.prompt = "abc", .max_tokens = 24, .temperature = 1, .has_seed = true}};
    call without = with;
    without.q.no_speculation = true;
    go(&with);
    ft_verifier_get_stats(b.verifier, &before);
    go(&without);
    ft_verifier_get_stats(b.verifier, &after);
    assert_true(before.own_drafted > 0);
    assert_int_equal(after.own_drafted, before.own_drafted);
    assert_string_equal(ft_buf_str(&with.text), ft_buf_str(&without.text));
    free_call(&with);
    free_call(&without);
    ft_openai_destroy(b.openai);
    ft_edge_destroy(b.edge);
    ft_verifier_destroy(b.verifier);
    b = kept;
}

/* A bias of 100 leaves no choice, whatever is drafted. */
static void test_penalties(void **state)
{
    const ft_penalties x = {.n_bias = 1, .bias_token = {3 + 'x'}, .bias = {100}};
    const ft_penalties once = {.frequency = 2, .presence = 2, .repetition = 10};
    call c = {.q = {.prompt = "abc", .max_tokens = 8, .penalties = &x}};
    go(&c);
    must(c.status, &c.err);
    assert_string_equal(ft_buf_str(&c.text), "xxxxxxxx");
    free_call(&c);
    call plain = {.q = {.prompt = "abc", .max_tokens = 60}}, other = plain;
    other.q.penalties = &once;
    go(&plain);
    go(&other);
    must(other.status, &other.err);
    assert_true(usage(&other, "rounds") > 0);
    assert_string_not_equal(ft_buf_str(&plain.text), ft_buf_str(&other.text));
    free_call(&plain);
    free_call(&other);
}

/* What is counted for a client is what a text would have as its prompt. */
static void test_tokenize(void **state)
{
    const ft_chat_message message = {.role = "user", .content = "hello"};
    const ft_http_request asked[] = {
        {.prompt = "hello"},
        {.chat = true, .conversation = {.messages = &message, .n_messages = 1}}};
    for (size_t i = 0; i < 2; i++) {
        ft_error err = {0};
        int32_t *tokens;
        size_t n;
        assert_int_equal(b.backend.tokenize(b.backend.ctx, &asked[i], true, &err, &tokens, &n),
                         FT_OK);
        call c = {.q = asked[i]};
        c.q.max_tokens = 1;
        go(&c);
        assert_true(n > 0 && n == c.result.prompt_tokens);
        free_call(&c);
        free(tokens);
    }
    ft_buf text = {0};
    ft_error err = {0};
    int32_t *tokens;
    size_t n;
    assert_int_equal(b.backend.tokenize(b.backend.ctx, &asked[0], false, &err, &tokens, &n), FT_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(b.backend.token_text(b.backend.ctx, tokens[i], &text), FT_OK);
    assert_string_equal(ft_buf_str(&text), "hello"); /* no BOS */
    ft_buf_deinit(&text);
    free(tokens);
}

static void test_names(void **state)
{
    ft_http_model model;
    ft_error err = {0};
    assert_int_equal(b.backend.model(b.backend.ctx, &err, &model), FT_OK);
    assert_string_equal(model.id, "tiny");
    assert_int_equal(model.n_aliases, 1);
    assert_string_equal(model.aliases[0], "small");
    assert_int_equal(model.context_tok, MAX_CONTEXT);
}

/* A prediction changes no text, and its tokens are counted; one that is longer than the context is
 * refused by its name. */
static void test_prediction(void **state)
{
    char text[2 * MAX_CONTEXT + 1];
    call plain = {.q = {.prompt = "abc", .max_tokens = 40}};
    go(&plain);
    assert_int_equal(plain.status, FT_OK);
    assert_int_equal(plain.result.accepted_prediction_tokens, 0);
    call c = {.q = plain.q};
    c.q.prediction = ft_buf_str(&plain.text);
    go(&c);
    assert_int_equal(c.status, FT_OK);
    assert_string_equal(ft_buf_str(&c.text), ft_buf_str(&plain.text));
    assert_true(c.result.accepted_prediction_tokens > 0);
    free_call(&c);
    c = (call){.q = plain.q};
    c.q.prediction = "0123456789"; /* a token for each byte, none of them in the answer */
    go(&c);
    assert_int_equal(c.status, FT_OK);
    assert_string_equal(ft_buf_str(&c.text), ft_buf_str(&plain.text));
    assert_int_equal(c.result.accepted_prediction_tokens + c.result.rejected_prediction_tokens, 10);
    free_call(&c);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    c = (call){.q = plain.q};
    c.q.prediction = text;
    go(&c);
    assert_int_equal(c.status, FT_TOO_LARGE);
    assert_string_equal(c.result.wrong_field, "prediction");
    assert_non_null(strstr(c.err.message, "the prediction has more tokens"));
    free_call(&c);
    c.q.prompt = text; /* then it is the prompt that is wrong */
    go(&c);
    assert_int_equal(c.status, FT_TOO_LARGE);
    assert_null(c.result.wrong_field);
    free_call(&c);
    free_call(&plain);
}

static void test_hang_up(void **state)
{
    call c = {.q = {.prompt = "abc"}, .hung_up = true};
    go(&c);
    assert_int_equal(c.status, FT_CANCELLED);
    free_call(&c);
}

/* The same text with and without drafts; the bytes of both have an origin. */
static void test_no_speculation(void **state)
{
    call with = {.q = {.prompt = "abc", .max_tokens = 24, .temperature = 1, .has_seed = true}};
    call without = with;
    without.q.no_speculation = true;
    go(&with);
    go(&without);
    must(with.status, &with.err);
    must(without.status, &without.err);
    assert_string_equal(ft_buf_str(&with.text), ft_buf_str(&without.text));
    assert_true(usage(&with, "rounds") > 0 && usage(&without, "rounds") == 0);
    assert_true(with.told_drafted == usage(&with, "drafted"));
    assert_true(with.told_accepted == usage(&with, "accepted"));
    assert_true(with.last_round == usage(&with, "rounds") + usage(&with, "runs"));
    assert_int_equal(with.told_tokens, with.result.completion_tokens);
    assert_false(with.backwards || without.backwards);
    assert_int_equal(without.origin_bytes[FT_ORIGIN_RUN], without.text.len);
    assert_int_equal(without.undrafted, FT_UNDRAFTED_ASKED);
    size_t bytes = 0;
    for (size_t i = 0; i < FT_ORIGIN_N; i++)
        bytes += with.origin_bytes[i];
    assert_int_equal(bytes, with.text.len);
    assert_true(with.origin_bytes[FT_ORIGIN_DRAFT] > 0);
    free_call(&with);
    free_call(&without);
}

static double metric(const char *text, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\nforetoken_edge_%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    return strtod(at + strlen(line), NULL);
}

static void test_health_and_metrics(void **state)
{
    ft_error err = {0};
    ft_buf before = {0}, after = {0};
    ft_http_model model;
    call c = {.q = {.prompt = "abc", .max_tokens = 7}};
    must(b.backend.health(b.backend.ctx, &err), &err);
    must(b.backend.model(b.backend.ctx, &err, &model), &err);
    assert_string_equal(model.id, "tiny");
    assert_int_equal(model.text_bytes, MAX_CONTEXT * ft_vocab_longest_bytes(b.vocab));
    must(b.backend.metrics(b.backend.ctx, &before), &err);
    go(&c);
    must(c.status, &c.err);
    ft_trace_flush(b.trace);
    must(b.backend.metrics(b.backend.ctx, &after), &err);
    const char *a = ft_buf_str(&before), *z = ft_buf_str(&after);
    assert_float_equal(metric(z, "generations_total") - metric(a, "generations_total"), 1, 0);
    assert_float_equal(metric(z, "tokens_total") - metric(a, "tokens_total"),
                       c.result.completion_tokens, 0);
    assert_float_equal(metric(z, "rounds_total") - metric(a, "rounds_total"), usage(&c, "rounds"),
                       0);
    assert_float_equal(metric(z, "run_tokens_total") - metric(a, "run_tokens_total"),
                       usage(&c, "run_tokens"), 0);
    assert_true(metric(z, "draft_forwards_total") > metric(a, "draft_forwards_total"));
    assert_true(metric(z, "draft_levels_total") > metric(a, "draft_levels_total"));
    assert_true(metric(z, "wait_seconds_total") >= metric(a, "wait_seconds_total"));
    assert_in_range(metric(z, "proactive_aligned_total"), metric(z, "proactive_matched_total"),
                    metric(z, "proactive_leaves_total"));
    assert_float_equal(metric(z, "ttft_seconds_count") - metric(a, "ttft_seconds_count"), 1, 0);
    assert_float_equal(metric(z, "texts_total{rule=\"exact\",reason=\"asked\"}") -
                           metric(a, "texts_total{rule=\"exact\",reason=\"asked\"}"),
                       1, 0);
    assert_float_equal(metric(z, "texts_total{rule=\"ratio\",reason=\"try\"}"), 0, 0);
    assert_null(strstr(z, "rule=\"exact\",reason=\"try\""));
    assert_float_equal(metric(z, "point_bytes_total"), 0, 0);
    assert_float_equal(metric(z, "running"), 0, 0);
    assert_float_equal(metric(z, "trace_rounds_total"), metric(z, "rounds_total"), 0);
    assert_float_equal(metric(z, "trace_dropped_total"), 0, 0);
    free_call(&c);
    ft_buf_deinit(&before);
    ft_buf_deinit(&after);
}

/* Without an edge everything but metrics says why; with it the server's model is named. */
static void test_edge_comes_later(void **state)
{
    const ft_openai_opts opts = {.vocab = b.vocab};
    const ft_http_backend ready = b.backend;
    ft_openai *late = NULL;
    ft_buf metrics = {0};
    ft_error err = {0};
    ft_http_model model;
    call c = {.q = {.prompt = "abc", .max_tokens = 3}};
    must(ft_openai_create(&opts, &err, &late), &err);
    ft_openai_set_absent(late, "nobody answers");
    b.backend = ft_openai_backend(late);
    go(&c);
    assert_int_equal(c.status, FT_UNAVAILABLE);
    assert_string_equal(c.err.message, "nobody answers");
    assert_int_equal(b.backend.health(late, &err), FT_UNAVAILABLE);
    assert_string_equal(err.message, "nobody answers");
    assert_int_equal(b.backend.model(late, &err, &model), FT_UNAVAILABLE);
    must(b.backend.metrics(late, &metrics), &err);

    ft_openai_set_edge(late, b.edge);
    go(&c);
    must(c.status, &c.err);
    must(b.backend.health(late, &err), &err);
    must(b.backend.model(late, &err, &model), &err);
    assert_string_equal(model.id, ft_edge_server_info(b.edge)->model);
    b.backend = ready;
    ft_buf_deinit(&metrics);
    ft_openai_destroy(late);
    free_call(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_same_prompt_as_text_and_ids),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_no_server_drafts),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_very_long_text),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_no_speculation),
        cmocka_unit_test(test_health_and_metrics),
        cmocka_unit_test(test_edge_comes_later),
        cmocka_unit_test(test_prediction), /* traces leave it out */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
