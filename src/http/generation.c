// SPDX-License-Identifier: Apache-2.0
// One generation. Invariants: the worker thread alone owns `answer`, `scratch` and `parsed`;
// `queue`, `taken`, `written`, `finished` and `fail` are guarded by `lock`; `ready` is readable
// whenever the connection's thread has something to look at. A streamed answer never holds more
// than FT_HTTP_QUEUE_BYTES plus one event; a whole answer is queued at once, at its end.
#include "http/generation.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "http/answer.h"

struct ft_http_generation {
    const ft_http_backend *backend;
    ft_http_parsed *parsed;
    ft_http_answer answer;
    ft_buf scratch;
    pthread_t thread;
    int ready; /* eventfd */
    atomic_bool cancelled;
    pthread_mutex_t lock;
    pthread_cond_t space; /* bytes were taken, or cancelled */
    ft_buf queue;
    size_t taken; /* bytes of queue that were read */
    bool written; /* something was queued */
    bool finished;
    ft_http_fail fail;
};

static void wake(ft_http_generation *g)
{
    uint64_t one = 1;
    ssize_t n = write(g->ready, &one, sizeof one);
    (void)n; /* only fails where the counter is at its limit: readable anyway */
}

/* Queues the scratch buffer. False: cancelled, or no memory. */
static bool push(ft_http_generation *g)
{
    if (g->scratch.len == 0)
        return !atomic_load(&g->cancelled);
    pthread_mutex_lock(&g->lock);
    while (g->queue.len - g->taken > FT_HTTP_QUEUE_BYTES && !atomic_load(&g->cancelled))
        pthread_cond_wait(&g->space, &g->lock);
    if (g->taken > 0) {
        ft_buf_shift(&g->queue, g->taken);
        g->taken = 0;
    }
    bool ok = ft_buf_append(&g->queue, g->scratch.data, g->scratch.len) == FT_OK;
    g->written = true;
    pthread_mutex_unlock(&g->lock);
    ft_buf_clear(&g->scratch);
    wake(g);
    return ok && !atomic_load(&g->cancelled);
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
    return push(g);
}

static bool is_cancelled(void *ctx)
{
    return atomic_load(&((ft_http_generation *)ctx)->cancelled);
}

static void *work(void *arg)
{
    ft_http_generation *g = arg;
    const ft_gen_sink sink = {.ctx = g, .on_text = on_text, .cancelled = is_cancelled};
    ft_http_result result = {0};
    ft_http_fail fail = {0};
    ft_error err = {0};
    ft_status status =
        g->backend->generate(g->backend->ctx, &g->parsed->request, &sink, &err, &result);
    if (status == FT_OK) {
        status = ft_http_answer_finish(&g->answer, &result, &g->scratch);
        if (status != FT_OK)
            ft_error_set(&err, status, "out of memory while the answer was written");
    }
    if (status != FT_OK) {
        ft_http_fail_from(&fail, status, &err);
        fail.retry_after_s = result.retry_after_ms / 1000 + (result.retry_after_ms % 1000 > 0);
    }
    /* `written` changes in this thread alone, so it may be read without the lock here */
    if (status != FT_OK && g->written)
        status = ft_http_answer_fail(&g->answer, &fail, &g->scratch);
    else if (status != FT_OK)
        ft_buf_clear(&g->scratch);
    push(g);
    pthread_mutex_lock(&g->lock);
    g->finished = true;
    g->fail = fail;
    pthread_mutex_unlock(&g->lock);
    wake(g);
    return NULL;
}

static void release(ft_http_generation *g)
{
    if (g->ready >= 0)
        close(g->ready);
    pthread_cond_destroy(&g->space);
    pthread_mutex_destroy(&g->lock);
    ft_http_answer_deinit(&g->answer);
    ft_buf_deinit(&g->scratch);
    ft_buf_deinit(&g->queue);
    ft_http_parsed_deinit(g->parsed);
    free(g->parsed);
    free(g);
}

ft_status ft_http_generation_create(const ft_http_backend *backend, ft_http_parsed *parsed,
                                    ft_http_generation **out)
{
    *out = NULL;
    ft_http_generation *g = calloc(1, sizeof *g);
    if (!g) {
        ft_http_parsed_deinit(parsed);
        free(parsed);
        return FT_NOMEM;
    }
    g->backend = backend;
    g->parsed = parsed;
    atomic_init(&g->cancelled, false);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->space, NULL);
    g->ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const char *id = NULL;
    ft_status status = g->ready < 0 ? FT_IO : backend->model(backend->ctx, NULL, &id);
    if (status == FT_OK)
        status = ft_http_answer_init(&g->answer, backend, parsed, id, (int64_t)time(NULL));
    if (status == FT_OK && pthread_create(&g->thread, NULL, work, g) != 0)
        status = FT_NOMEM;
    if (status != FT_OK) {
        release(g);
        return status;
    }
    *out = g;
    return FT_OK;
}

void ft_http_generation_destroy(ft_http_generation *g)
{
    if (!g)
        return;
    ft_http_generation_cancel(g);
    pthread_join(g->thread, NULL);
    release(g);
}

void ft_http_generation_cancel(ft_http_generation *g)
{
    pthread_mutex_lock(&g->lock);
    atomic_store(&g->cancelled, true);
    pthread_cond_broadcast(&g->space);
    pthread_mutex_unlock(&g->lock);
    wake(g);
}

/* True and *state set where no waiting is needed. */
static bool look(ft_http_generation *g, ft_http_wait *state)
{
    bool known = true;
    pthread_mutex_lock(&g->lock);
    if (atomic_load(&g->cancelled))
        *state = FT_HTTP_WAIT_GONE;
    else if (g->queue.len > g->taken)
        *state = FT_HTTP_WAIT_DATA;
    else if (g->finished)
        *state = g->written ? FT_HTTP_WAIT_END : FT_HTTP_WAIT_FAILED;
    else
        known = false;
    pthread_mutex_unlock(&g->lock);
    return known;
}

ft_http_wait ft_http_generation_wait(ft_http_generation *g, int socket_fd)
{
    ft_http_wait state;
    uint64_t count;
    while (!look(g, &state)) {
        /* POLLIN is not asked for: a client may have sent its next request already */
        struct pollfd p[2] = {{.fd = g->ready, .events = POLLIN},
                              {.fd = socket_fd, .events = POLLRDHUP}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            ft_http_generation_cancel(g);
        if (p[0].revents) {
            ssize_t n = read(g->ready, &count, sizeof count);
            (void)n; /* the state is looked at either way */
        }
        if (p[1].revents)
            ft_http_generation_cancel(g);
    }
    return state;
}

size_t ft_http_generation_read(ft_http_generation *g, char *out, size_t max)
{
    pthread_mutex_lock(&g->lock);
    size_t n = g->queue.len - g->taken;
    if (n > max)
        n = max;
    if (n > 0)
        memcpy(out, g->queue.data + g->taken, n);
    g->taken += n;
    pthread_cond_signal(&g->space);
    pthread_mutex_unlock(&g->lock);
    return n;
}

void ft_http_generation_take(ft_http_generation *g, ft_buf *out)
{
    pthread_mutex_lock(&g->lock);
    if (g->taken > 0)
        ft_buf_shift(&g->queue, g->taken);
    *out = g->queue;
    g->queue = (ft_buf){0};
    g->taken = 0;
    pthread_cond_signal(&g->space);
    pthread_mutex_unlock(&g->lock);
}

const ft_http_fail *ft_http_generation_fail(const ft_http_generation *g)
{
    return &g->fail;
}
