// SPDX-License-Identifier: Apache-2.0
// The backend of the HTTP tests. Any thread.
#include "support/http_backend.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

void http_backend_init(http_backend *b)
{
    *b = (http_backend){0};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
}

void http_backend_deinit(http_backend *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
}

static void count(http_backend *b, unsigned *counter)
{
    pthread_mutex_lock(&b->lock);
    ++*counter;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

bool http_backend_wait(http_backend *b, const unsigned *counter, unsigned n)
{
    struct timespec limit;
    int e = 0;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    pthread_mutex_lock(&b->lock);
    while (*counter < n && e == 0)
        e = pthread_cond_timedwait(&b->changed, &b->lock, &limit);
    bool ok = *counter >= n;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

void http_backend_release(http_backend *b)
{
    count(b, &b->released);
}

unsigned http_backend_count(http_backend *b, const unsigned *counter)
{
    pthread_mutex_lock(&b->lock);
    unsigned n = *counter;
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* Tokens from LETTER on are a letter; the others are numbers of texts that were said. */
enum { LETTER = HTTP_BACKEND_PIECES };

static int32_t token_of(http_backend *b, const char *text, size_t n)
{
    int32_t i = 0;
    pthread_mutex_lock(&b->lock);
    while (i < b->n_pieces && (b->piece[i].n != n || memcmp(b->piece[i].bytes, text, n) != 0))
        i++;
    if (i == b->n_pieces && i < HTTP_BACKEND_PIECES && n <= sizeof b->piece[i].bytes) {
        memcpy(b->piece[i].bytes, text, n);
        b->piece[i].n = n;
        b->n_pieces++;
    }
    const bool kept = i < b->n_pieces;
    pthread_mutex_unlock(&b->lock);
    return kept ? i : LETTER; /* there is no room for it */
}

static ft_status token_text(void *ctx, int32_t token, ft_buf *out)
{
    const http_backend *b = ctx;
    if (token >= LETTER)
        return ft_buf_append(out, &"abcdefghijklmnopqrstu"[token - LETTER], 1);
    return ft_buf_append(out, b->piece[token].bytes, b->piece[token].n); /* of token_of */
}

/* Each token comes in a round of its own: its first byte, or two, were drafted. */
static void tell(const ft_gen_sink *sink, size_t n, uint32_t round)
{
    const uint32_t drafted = n > 1 ? (uint32_t)n - 1 : (uint32_t)n;
    const ft_span spans[] = {{drafted, FT_ORIGIN_DRAFT}, {(uint32_t)n - drafted, FT_ORIGIN_TARGET}};
    const ft_piece rejected[] = {{" no", 3}, {"\xff", 1}};
    const ft_told told = {.round = round,
                          .drafted = 3,
                          .accepted = 1,
                          .tokens = 1,
                          .spans = spans,
                          .n_spans = n > 1 ? 2 : 1,
                          .rejected = rejected,
                          .n_rejected = 2,
                          .at_us = 1500,
                          .wait_us = -1,
                          .rtt_us = 250,
                          .sent_bytes = 40,
                          .received_bytes = 50};
    if (sink->on_told)
        sink->on_told(sink->ctx, &told);
}

/* token: its bytes, if they are not the text's. */
static bool say(http_backend *b, const ft_http_request *q, const ft_gen_sink *sink,
                const char *text, size_t n, const char *token)
{
    const size_t n_token = token ? strlen(token) : n;
    ft_gen_token t = {.id = q->logprobs ? token_of(b, token ? token : text, n_token) : 0,
                      .has_logprob = q->logprobs,
                      .logprob = {.logprob = -0.25f, .n_top = q->top_logprobs}};
    for (int32_t i = 0; i < (int32_t)q->top_logprobs; i++) {
        t.logprob.top[i].token = i == 0 ? t.id : LETTER + i;
        t.logprob.top[i].logprob = -0.25f - (float)i;
    }
    tell(sink, n, ++b->rounds);
    return sink->on_text(sink->ctx, text, n, &t, 1);
}

/* A model in a long prefill looks at `cancelled` now and then. */
static void work_until_cancelled(const ft_gen_sink *sink)
{
    while (!sink->cancelled(sink->ctx))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static ft_status echo(http_backend *b, const ft_http_request *q, const ft_gen_sink *sink,
                      const char *prompt, ft_http_result *result)
{
    while (*prompt) {
        size_t n = strcspn(prompt, " ");
        n += prompt[n] == ' ';
        if (q->max_tokens > 0 && result->completion_tokens == q->max_tokens) {
            result->length = true;
            break;
        }
        if (!say(b, q, sink, prompt, n, NULL))
            return FT_CANCELLED;
        result->completion_tokens++;
        prompt += n;
    }
    return FT_OK;
}

static ft_status tick(http_backend *b, const ft_http_request *q, const ft_gen_sink *sink,
                      unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!say(b, q, sink, "tick ", 5, NULL))
            return FT_CANCELLED;
        count(b, &b->ticks);
    }
    return FT_OK;
}

static ft_status stop(http_backend *b, const ft_http_request *q, const ft_gen_sink *sink)
{
    sink->on_stop(sink->ctx, q->n_stops - 1);
    return say(b, q, sink, "half ", 5, NULL) ? FT_OK : FT_CANCELLED;
}

static const struct {
    const char *word;
    ft_status status;
} refusals[] = {{"stranger", FT_UNAUTHENTICATED}, {"forbid", FT_FORBIDDEN},
                {"misfit", FT_PRECONDITION},      {"constrain", FT_INVALID},
                {"away", FT_UNAVAILABLE},         {"labour", FT_TOO_LARGE},
                {"compile", FT_ABORTED}};

static const char *whose(const ft_http_request *q)
{
    return q->client && q->client->tenant[0] ? q->client->tenant : "nobody's";
}

static void labour(void)
{
    const int64_t until_us = ft_thread_cpu_us() + 200000;
    while (ft_thread_cpu_us() < until_us)
        ;
}

static ft_status answer(http_backend *b, const ft_http_request *q, const ft_gen_sink *sink,
                        const char *prompt, ft_error *err, ft_http_result *result)
{
    char text[FT_HTTP_NAME_SIZE + 32];
    if (strncmp(prompt, "prefill", 7) == 0) {
        work_until_cancelled(sink);
        return FT_CANCELLED;
    }
    if (strncmp(prompt, "endless", 7) == 0)
        return tick(b, q, sink, UINT_MAX);
    if (strncmp(prompt, "flood", 5) == 0)
        return tick(b, q, sink, 20000);
    if (strncmp(prompt, "once", 4) == 0) {
        say(b, q, sink, "tick ", 5, NULL);
        work_until_cancelled(sink);
        return FT_CANCELLED;
    }
    if (strncmp(prompt, "late", 4) == 0) {
        http_backend_wait(b, &b->released, 1);
        return ft_error_set(err, FT_EXHAUSTED, "too many sessions");
    }
    if (strncmp(prompt, "refuse", 6) == 0)
        return ft_error_set(err, FT_TOO_LARGE, "the prompt is longer than the context");
    if (strncmp(prompt, "overload", 8) == 0) {
        result->retry_after_ms = 2500;
        return ft_error_set(err, FT_EXHAUSTED, "too many sessions");
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(prompt, refusals[i].word) == 0)
            return ft_error_set(err, refusals[i].status, "serve: %s", refusals[i].word);
    if (strncmp(prompt, "whose", 5) == 0) {
        snprintf(text, sizeof text, "%s %g", whose(q), (double)q->slo_tokens_per_s);
        return echo(b, q, sink, text, result);
    }
    if (strncmp(prompt, "break", 5) == 0) {
        say(b, q, sink, "half ", 5, NULL);
        return ft_error_set(err, FT_INTERNAL, "it broke");
    }
    if (strncmp(prompt, "stopped", 7) == 0 && q->n_stops > 0)
        return stop(b, q, sink);
    if (strncmp(prompt, "silent", 6) == 0)
        return FT_OK;
    if (strncmp(prompt, "lost", 4) == 0) {
        if (sink->on_away)
            sink->on_away(sink->ctx);
        return say(b, q, sink, "back", 4, NULL) ? FT_OK : FT_CANCELLED;
    }
    if (strncmp(prompt, "seed", 4) == 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)q->seed);
        return echo(b, q, sink, text, result);
    }
    if (strcmp(prompt, "undrafted") == 0)
        return echo(b, q, sink, q->no_speculation ? "yes" : "no", result);
    if (strncmp(prompt, "pieces", 6) == 0) {
        result->completion_tokens = 2;
        return say(b, q, sink, "", 0, "\xe2\x80") && say(b, q, sink, "\xe2\x80\xa6", 3, "\xa6")
                   ? FT_OK
                   : FT_CANCELLED;
    }
    return echo(b, q, sink, prompt, result);
}

static ft_status generate(void *ctx, const ft_http_request *q, const ft_gen_sink *sink,
                          ft_error *err, ft_http_result *result)
{
    http_backend *b = ctx;
    char tokens[64];
    const char *prompt =
        q->chat ? q->conversation.messages[q->conversation.n_messages - 1].content : q->prompt;
    if (!prompt) {
        snprintf(tokens, sizeof tokens, "tokens %zu", q->n_prompt_tokens);
        prompt = tokens;
    }
    count(b, &b->started);
    if (strcmp(prompt, "labour") == 0)
        labour();
    if (sink->on_target)
        sink->on_target(sink->ctx, 0xab);
    *result = (ft_http_result){
        .prompt_tokens = (uint32_t)strlen(prompt),
        .cached_tokens = 1,
        .first_us = 4000,
        .total_us = 6000,
        .drafted = 7,
        .accepted = 5,
        .accepted_prediction_tokens = 4,
        .rejected_prediction_tokens = 6,
        .wrong_field = q->constraint_field, /* with an error */
        .extension = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f}", "rounds", 3, "drafted", 7,
                               "accepted", 5, "runs", 2, "run_tokens", 9, "bytes_sent", 11,
                               "bytes_received", 13, "ttft_ms", 1.5, "total_ms", 2.5)};
    ft_status status = answer(b, q, sink, prompt, err, result);
    if (sink->cancelled(sink->ctx))
        count(b, &b->cancelled);
    count(b, &b->ended);
    return status;
}

/* A letter is a token; 0 is the BOS. */
static ft_status tokenize(void *ctx, const ft_http_request *q, bool bos, ft_error *err,
                          int32_t **tokens, size_t *n)
{
    const char *text = q->chat ? q->conversation.messages[0].content : q->prompt;
    (void)ctx;
    *n = 0;
    *tokens = calloc(strlen(text) + 1, sizeof **tokens);
    if (bos)
        (*tokens)[(*n)++] = 0;
    for (; *text; text++) {
        if (*text < 'a' || *text > 'u')
            return ft_error_set(err, FT_INVALID, "no letter of this vocabulary");
        (*tokens)[(*n)++] = LETTER + *text - 'a';
    }
    return FT_OK;
}

static ft_status health(void *ctx, ft_error *err)
{
    http_backend *b = ctx;
    return b->sick ? ft_error_set(err, FT_UNAVAILABLE, "the server at 10.0.0.9 is away") : FT_OK;
}

static ft_status metrics(void *ctx, ft_buf *out)
{
    http_backend *b = ctx;
    return ft_buf_printf(out, "# TYPE test_generations counter\ntest_generations %u\n",
                         http_backend_count(b, &b->started));
}

static ft_status model(void *ctx, ft_error *err, ft_http_model *out)
{
    static const char *const aliases[] = {HTTP_BACKEND_ALIAS};
    const http_backend *b = ctx;
    *out = (ft_http_model){.id = HTTP_BACKEND_MODEL,
                           .aliases = aliases,
                           .n_aliases = 1,
                           .n_vocab = LETTER + 21,
                           .context_tok = HTTP_BACKEND_CONTEXT,
                           .chat_template = HTTP_BACKEND_TEMPLATE,
                           .text_bytes = HTTP_BACKEND_TEXT_BYTES};
    return b->early ? ft_error_set(err, FT_UNAVAILABLE, "no server at 10.0.0.9 yet") : FT_OK;
}

ft_http_backend http_backend_of(http_backend *b)
{
    return (ft_http_backend){.ctx = b,
                             .model = model,
                             .generate = generate,
                             .tokenize = tokenize,
                             .token_text = token_text,
                             .health = health,
                             .metrics = metrics};
}
