// SPDX-License-Identifier: Apache-2.0
// One generation. The worker thread writes a stream into a socket pair, from which the connection's
// thread reads. The kernel bounds what the pair holds, lets the writer wait, and wakes both sides.
// A whole answer stays in `scratch` until the worker has ended. When a stream is silent, the
// connection's thread says a comment by itself, so that it needs nothing of the backend.
//
// Invariants: until it was joined the worker alone owns `answer`, `scratch`, `parsed` and `fail`.
// It shuts its end of the pair down as the last thing it does. `said` leaves SAID_NOTHING once: to
// SAID_SOMETHING before the first bytes, by either thread, or to SAID_FAILED by the worker. So an
// error is either the answer or an event of a stream that has begun.
#include "http/generation.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "http/answer.h"
#include "http/dialect.h"
#include "http/request.h"

enum { SAID_NOTHING, SAID_SOMETHING, SAID_FAILED };

struct ft_http_generation {
    const ft_http_backend *backend;
    ft_http_parsed parsed;
    ft_http_answer answer;
    ft_buf scratch;
    pthread_t thread;
    bool joined;
    int in, out; /* the worker writes into `in`; the connection's thread reads from `out` */
    atomic_bool cancelled;
    atomic_int said;
    ft_http_fail fail;
    /* Of the connection's thread, for streams: */
    int keep_alive_ms;   /* how long it may be silent */
    const char *comment; /* the rest of one that is due; "": none is */
    char tail[2];        /* the last bytes that were read */
};

/* Leaves SAID_NOTHING, if no other thread has. */
static bool said_nothing_yet(ft_http_generation *g, int now)
{
    int nothing = SAID_NOTHING;
    return atomic_compare_exchange_strong(&g->said, &nothing, now);
}

/* Sends the scratch buffer. False: cancelled. */
static bool push(ft_http_generation *g)
{
    size_t sent = 0;
    if (g->scratch.len > 0)
        atomic_store(&g->said, SAID_SOMETHING);
    while (sent < g->scratch.len) {
        ssize_t n = send(g->in, g->scratch.data + sent, g->scratch.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    ft_buf_clear(&g->scratch);
    return !atomic_load(&g->cancelled);
}

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    ft_http_generation *g = ctx;
    if (atomic_load(&g->cancelled))
        return false;
    if (ft_http_answer_add(&g->answer, text, n, tokens, n_tokens, &g->scratch) != FT_OK) {
        atomic_store(&g->cancelled, true); /* no memory: nothing can be said any more */
        return false;
    }
    return !g->parsed.stream || push(g);
}

static bool is_cancelled(void *ctx)
{
    return atomic_load(&((ft_http_generation *)ctx)->cancelled);
}

/* A stream that cannot say something any more, for want of memory, ends. */
static void must(ft_http_generation *g, ft_status status)
{
    if (status != FT_OK)
        atomic_store(&g->cancelled, true);
}

static void on_told(void *ctx, const ft_told *told)
{
    ft_http_generation *g = ctx;
    must(g, ft_http_answer_told(&g->answer, told));
}

static void on_away(void *ctx)
{
    ft_http_generation *g = ctx;
    must(g, ft_http_answer_away(&g->answer, &g->scratch));
    (void)push(g); /* false: the next question whether it is cancelled says so */
}

static void on_thinks(void *ctx)
{
    ft_http_answer_thinks(&((ft_http_generation *)ctx)->answer);
}

static void on_stop(void *ctx, size_t stop)
{
    ft_http_generation *g = ctx;
    g->answer.stop = g->parsed.request.stops[stop];
}

static void on_reader(void *ctx, const ft_chat_reader *take)
{
    ft_http_answer_reads(&((ft_http_generation *)ctx)->answer, take);
}

static void on_target(void *ctx, uint64_t target)
{
    ((ft_http_generation *)ctx)->answer.target = target;
}

/* Adds what text i took. The prompt counts once; of further texts of it, its time counts as
 * theirs. Takes one->extension. */
static void add_result(ft_http_generation *g, uint32_t i, const ft_http_result *one,
                       ft_http_result *sum)
{
    const bool first = i % g->parsed.per_prompt == 0;
    sum->prompt_tokens += first ? one->prompt_tokens : 0;
    sum->cached_tokens += first ? one->cached_tokens : 0;
    sum->first_us += first ? one->first_us : 0;
    sum->total_us += one->total_us;
    sum->completion_tokens += one->completion_tokens;
    sum->accepted_prediction_tokens += one->accepted_prediction_tokens;
    sum->rejected_prediction_tokens += one->rejected_prediction_tokens;
    sum->drafted += one->drafted;
    sum->accepted += one->accepted;
    if (g->parsed.n_texts == 1)
        sum->extension = one->extension;
    else if (one->extension)
        json_array_append_new(sum->extension, one->extension);
}

/* One text after the other: the second of a prompt finds it in the server's prefix cache, and a
 * client has no more sessions than requests. An error's details are in *sum, too. */
static ft_status make_texts(ft_http_generation *g, const ft_gen_sink *sink, ft_error *err,
                            ft_http_result *sum)
{
    const uint32_t n = g->parsed.n_texts;
    ft_status status = FT_OK;
    for (uint32_t i = 0; status == FT_OK && i < n; i++) {
        const ft_http_request q = ft_http_parsed_text(&g->parsed, i);
        ft_http_result one = {0};
        status = g->backend->generate(g->backend->ctx, &q, sink, err, &one);
        add_result(g, i, &one, sum);
        sum->wrong_field = one.wrong_field;
        sum->retry_after_ms = one.retry_after_ms;
        if (status != FT_OK)
            break;
        if (i + 1 < n && atomic_load(&g->cancelled))
            return FT_CANCELLED;
        status = ft_http_answer_end(&g->answer, one.length, i + 1 == n ? sum : NULL, &g->scratch);
        if (status == FT_OK && i + 1 == n)
            status = ft_http_answer_finish(&g->answer, sum, &g->scratch);
        if (status != FT_OK)
            ft_error_set(err, status, "out of memory while the answer was written");
        else if (i + 1 < n && g->parsed.stream && !push(g))
            return FT_CANCELLED;
    }
    return status;
}

static void *work(void *arg)
{
    ft_http_generation *g = arg;
    const bool draft = g->parsed.include_draft; /* only of a stream */
    const ft_gen_sink sink = {.ctx = g,
                              .on_text = on_text,
                              .cancelled = is_cancelled,
                              .on_thinks = on_thinks,
                              .on_reader = on_reader,
                              .on_target = on_target,
                              .on_stop = on_stop,
                              .on_told = draft ? on_told : NULL,
                              .on_away = draft ? on_away : NULL};
    ft_http_result result = {.extension = g->parsed.n_texts > 1 ? json_array() : NULL};
    ft_error err = {0};
    ft_status status = make_texts(g, &sink, &err, &result);
    if (status != FT_OK) {
        ft_http_fail_from(&g->fail, status, &err);
        if (result.wrong_field)
            snprintf(g->fail.param, sizeof g->fail.param, "%s", result.wrong_field);
        if (g->parsed.dialect)
            ft_http_dialect_rename(g->parsed.dialect, g->fail.param, sizeof g->fail.param);
        g->fail.cpu_us = ft_thread_cpu_us();
        g->fail.retry_after_s = result.retry_after_ms / 1000 + (result.retry_after_ms % 1000 > 0);
        if (said_nothing_yet(g, SAID_FAILED))
            ft_buf_clear(&g->scratch);
        else
            status = ft_http_answer_fail(&g->answer, &g->fail, &g->scratch);
    }
    json_decref(result.extension);
    if (g->parsed.stream)
        push(g);
    shutdown(g->in, SHUT_RDWR);
    return NULL;
}

static void release(ft_http_generation *g)
{
    if (g->in >= 0) {
        close(g->in);
        close(g->out);
    }
    ft_http_answer_deinit(&g->answer);
    ft_buf_deinit(&g->scratch);
    ft_http_parsed_deinit(&g->parsed);
    free(g);
}

static ft_status make_pair(ft_http_generation *g)
{
    const int bytes = FT_HTTP_QUEUE_BYTES / 2; /* the kernel doubles it, for its own records */
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return FT_IO;
    g->in = pair[0];
    g->out = pair[1];
    return setsockopt(g->in, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 ? FT_OK : FT_IO;
}

static ft_status parse(const ft_http_ask *ask, ft_http_fail *fail, ft_http_parsed *out)
{
    if (ask->dialect)
        return ft_http_dialect_parse(ask->dialect, ask->body, ask->n, &ask->model, fail, out);
    return ft_http_parse(ask->body, ask->n, ask->chat, &ask->model, fail, out);
}

ft_status ft_http_generation_create(const ft_http_backend *backend, const ft_http_ask *ask,
                                    ft_http_fail *fail, ft_http_generation **out)
{
    *out = NULL;
    ft_http_generation *g = calloc(1, sizeof *g);
    if (!g) {
        ft_http_fail_from(fail, FT_NOMEM, NULL);
        return FT_NOMEM;
    }
    g->backend = backend;
    g->in = -1;
    ft_status status = parse(ask, fail, &g->parsed);
    if (status != FT_OK) {
        free(g);
        return status;
    }
    g->parsed.request.client = ask->client;
    g->parsed.request.conversation.reasoning_apart = ask->reasoning_apart;
    g->keep_alive_ms = (int)ask->keep_alive_ms;
    g->comment = "";
    status = make_pair(g);
    if (status == FT_OK)
        status =
            ft_http_answer_init(&g->answer, backend, &g->parsed, ask->parts, (int64_t)time(NULL));
    if (status == FT_OK && pthread_create(&g->thread, NULL, work, g) != 0)
        status = FT_NOMEM;
    if (status != FT_OK) {
        ft_http_fail_from(fail, status, NULL);
        release(g);
        return status;
    }
    *out = g;
    return FT_OK;
}

bool ft_http_generation_streams(const ft_http_generation *g)
{
    return g->parsed.stream;
}

static void join(ft_http_generation *g)
{
    if (!g->joined)
        pthread_join(g->thread, NULL);
    g->joined = true;
}

static void cancel(ft_http_generation *g)
{
    atomic_store(&g->cancelled, true);
    shutdown(g->out, SHUT_RDWR); /* wakes a writer that waits */
}

void ft_http_generation_destroy(ft_http_generation *g)
{
    if (!g)
        return;
    cancel(g);
    join(g);
    release(g);
}

/* A silent stream says a comment, between two events; or what its API has for that. */
static void say_comment(ft_http_generation *g)
{
    const bool between = !g->tail[1] || (g->tail[0] == '\n' && g->tail[1] == '\n');
    if (between && (said_nothing_yet(g, SAID_SOMETHING) || atomic_load(&g->said) == SAID_SOMETHING))
        g->comment = g->parsed.dialect ? g->parsed.dialect->keep_alive
                                       : ": waiting\n\n"; /* server-sent events: clients skip it */
}

ft_http_wait ft_http_generation_wait(ft_http_generation *g, int socket_fd)
{
    /* POLLIN of the client is not asked for: it may have sent its next request already */
    struct pollfd p[2] = {{.fd = g->out, .events = POLLIN}, {.fd = socket_fd, .events = POLLRDHUP}};
    char byte;
    int n = 0;
    while (n == 0 && !*g->comment) {
        n = poll(p, 2, g->parsed.stream ? g->keep_alive_ms : -1);
        if (n == 0)
            say_comment(g);
        else if (n < 0 && errno == EINTR)
            n = 0;
    }
    if (n < 0 || p[1].revents)
        cancel(g);
    if (atomic_load(&g->cancelled))
        return FT_HTTP_WAIT_GONE;
    if (*g->comment || recv(g->out, &byte, 1, MSG_PEEK) > 0)
        return FT_HTTP_WAIT_DATA;
    join(g);
    return atomic_load(&g->said) == SAID_FAILED ? FT_HTTP_WAIT_FAILED : FT_HTTP_WAIT_END;
}

size_t ft_http_generation_read(ft_http_generation *g, char *out, size_t max)
{
    const size_t due = strnlen(g->comment, max);
    if (due > 0) {
        memcpy(out, g->comment, due);
        g->comment += due;
        return due;
    }
    const ssize_t n = recv(g->out, out, max, 0);
    if (n > 1)
        g->tail[0] = out[n - 2];
    else if (n == 1)
        g->tail[0] = g->tail[1];
    if (n > 0)
        g->tail[1] = out[n - 1];
    return n > 0 ? (size_t)n : 0;
}

void ft_http_generation_take(ft_http_generation *g, ft_buf *out)
{
    *out = g->scratch;
    g->scratch = (ft_buf){0};
}

const ft_http_fail *ft_http_generation_fail(const ft_http_generation *g)
{
    return &g->fail;
}
