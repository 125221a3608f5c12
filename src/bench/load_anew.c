// SPDX-License-Identifier: Apache-2.0
// One session for each round. The link builds the text from drafts and verdicts, so that it can be
// a prompt, and translates a verdict's round to the edge's. Owned by the generation's thread,
// except cancel, which looks at the present inner link under the lock. Runs are passed on like
// drafts: each is a session.
#include "bench/load_anew.h"

#include <pthread.h>
#include <stdlib.h>

#include "model/vocab.h"

typedef struct anew_link {
    ft_link link;
    const ft_link_source *source;
    pthread_mutex_t lock; /* guards inner and cancelled */
    ft_link *inner;
    bool cancelled;
    ft_client_msg open;      /* as the edge sent it, but for its prompt */
    ft_tokens text;          /* so far */
    uint32_t n_prompt;       /* of it */
    ft_client_msg draft;     /* the last; its round is the edge's */
    bool any;                /* there was one */
    bool reopened;           /* the next Opened is of a session that the edge does not know of */
    uint64_t sent, received; /* by links before this one */
} anew_link;

static ft_status replace(anew_link *a, ft_error *err)
{
    const ft_client_msg close = {.kind = FT_CLIENT_CLOSE};
    uint64_t sent = 0, received = 0;
    ft_link *next = NULL, *old = a->inner;
    ft_status status = old->vt->send(old, &close, err);
    if (status == FT_OK)
        status = a->source->open(a->source->ctx, err, &next);
    if (status != FT_OK)
        return status;
    old->vt->bytes(old, &sent, &received);
    a->sent += sent;
    a->received += received;
    pthread_mutex_lock(&a->lock);
    a->inner = next;
    bool cancelled = a->cancelled;
    pthread_mutex_unlock(&a->lock);
    old->vt->destroy(old);
    if (cancelled)
        next->vt->cancel(next);
    return FT_OK;
}

/* The text so far as a new session's prompt. */
static ft_status open_again(anew_link *a, ft_error *err)
{
    ft_client_msg msg = a->open;
    ft_status status = replace(a, err);
    if (status != FT_OK)
        return status;
    msg.open.prompt = a->text.id;
    msg.open.n_prompt = (uint32_t)a->text.n;
    if (msg.open.max_tokens)
        msg.open.max_tokens -= (uint32_t)a->text.n - a->n_prompt;
    a->reopened = true;
    return a->inner->vt->send(a->inner, &msg, err);
}

static ft_status send_draft(anew_link *a, const ft_client_msg *msg, ft_error *err)
{
    ft_client_msg first = *msg;
    ft_status status = a->any ? open_again(a, err) : FT_OK;
    if (status != FT_OK)
        return status;
    a->any = true;
    a->draft = *msg;
    first.draft.round = 1;
    return a->inner->vt->send(a->inner, &first, err);
}

static ft_status anew_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    anew_link *a = (anew_link *)link;
    if (msg->kind == FT_CLIENT_DRAFT)
        return send_draft(a, msg, err);
    if (msg->kind == FT_CLIENT_OPEN) {
        a->open = *msg;
        a->open.open.prompt = NULL;
        a->n_prompt = msg->open.n_prompt;
        a->text.n = 0;
        if (ft_tokens_append(&a->text, msg->open.prompt, msg->open.n_prompt) != FT_OK)
            return ft_error_set(err, FT_NOMEM, "out of memory for a text");
    }
    return a->inner->vt->send(a->inner, msg, err);
}

static ft_status follow(anew_link *a, ft_msg_verdict *v, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < v->n_path && status == FT_OK; i++)
        status = ft_tokens_append(&a->text, &a->draft.draft.token[v->path[i]], 1);
    if (status == FT_OK && v->n_next > 0)
        status = ft_tokens_append(&a->text, v->next, v->n_next);
    v->round = a->draft.draft.round;
    return status == FT_OK ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory for a text");
}

static ft_status anew_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    anew_link *a = (anew_link *)link;
    for (;;) {
        ft_status status = a->inner->vt->recv(a->inner, timeout_us, err, out);
        if (status != FT_OK)
            return status;
        if ((*out)->kind == FT_SERVER_VERDICT)
            return follow(a, &(*out)->verdict, err);
        if (!a->reopened)
            return FT_OK;
        a->reopened = false; /* its verdict follows */
        ft_server_msg_free(*out);
        *out = NULL;
    }
}

static uint32_t anew_retry_after_ms(ft_link *link)
{
    anew_link *a = (anew_link *)link;
    return a->inner->vt->retry_after_ms(a->inner);
}

static void anew_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    anew_link *a = (anew_link *)link;
    a->inner->vt->bytes(a->inner, sent, received);
    *sent += a->sent;
    *received += a->received;
}

static void anew_cancel(ft_link *link)
{
    anew_link *a = (anew_link *)link;
    pthread_mutex_lock(&a->lock);
    a->cancelled = true;
    a->inner->vt->cancel(a->inner);
    pthread_mutex_unlock(&a->lock);
}

static void anew_destroy(ft_link *link)
{
    anew_link *a = (anew_link *)link;
    a->inner->vt->destroy(a->inner);
    pthread_mutex_destroy(&a->lock);
    ft_tokens_deinit(&a->text);
    free(a);
}

static const ft_link_vtable anew_vtable = {
    .send = anew_send,
    .recv = anew_recv,
    .retry_after_ms = anew_retry_after_ms,
    .bytes = anew_bytes,
    .cancel = anew_cancel,
    .destroy = anew_destroy,
};

static ft_status anew_open(void *ctx, ft_error *err, ft_link **out)
{
    const ft_link_source *inner = ctx;
    anew_link *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return ft_error_set(err, FT_NOMEM, "out of memory for a link");
    a->link.vt = &anew_vtable;
    a->source = inner;
    ft_status status = inner->open(inner->ctx, err, &a->inner);
    if (status != FT_OK) {
        free(a);
        return status;
    }
    pthread_mutex_init(&a->lock, NULL);
    *out = &a->link;
    return FT_OK;
}

static ft_status anew_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const ft_link_source *inner = ctx;
    return inner->info(inner->ctx, err, out);
}

ft_link_source ft_bench_load_anew_source(const ft_link_source *inner)
{
    return (ft_link_source){.ctx = (void *)(uintptr_t)inner, .open = anew_open, .info = anew_info};
}
