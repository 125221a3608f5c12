// SPDX-License-Identifier: Apache-2.0
// A link to a verifier in the same process. The verifier's callbacks come on its engine thread and
// put copies into a queue; the generation's thread takes them out.
//
// Invariants: only the generation's thread uses the handle, and destroy detaches it; after that no
// callback comes. A link destroyed without Close is a lost stream: the session can be resumed, as
// over gRPC.
//
// Locks: `lock` guards the fields below it. No verifier call is made under it (detach waits for
// callbacks, which take it).
#include "local/link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "wire/keyring.h"

typedef struct item {
    struct item *next;
    ft_server_msg *msg;
    int64_t came_us;
} item;

typedef struct local_link {
    ft_link link;
    ft_verifier *verifier;
    ft_vsession *session; /* NULL before Open */
    bool opened, closed;  /* was sent */
    ft_client_id asks;    /* for whom it is opened; tenant: names the key, "": no key */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool gone, cancelled;
    ft_error gone_err;
    uint32_t retry_after_ms;
    item *head, **tail;
} local_link;

/* ---- the engine thread's side ---- */

/* A copy in one block of memory, with the logprobs behind the message, as the wire's decoder makes
 * it. */
static ft_server_msg *msg_dup(const ft_server_msg *from)
{
    const bool verdict = from->kind == FT_SERVER_VERDICT;
    const ft_token_logprob *logprobs = verdict ? from->verdict.logprobs : NULL;
    size_t extra = verdict ? from->verdict.n_logprobs * sizeof *logprobs : 0;
    ft_server_msg *msg = malloc(sizeof *msg + extra);
    if (!msg)
        return NULL;
    *msg = *from;
    if (verdict)
        msg->verdict.logprobs = extra ? (ft_token_logprob *)(msg + 1) : NULL;
    if (extra)
        memcpy(msg->verdict.logprobs, logprobs, extra);
    return msg;
}

static void on_message(void *ctx, const ft_server_msg *borrowed)
{
    local_link *l = ctx;
    ft_server_msg *msg = msg_dup(borrowed);
    item *it = msg ? malloc(sizeof *it) : NULL;
    pthread_mutex_lock(&l->lock);
    if (it) {
        *it = (item){.msg = msg, .came_us = ft_monotonic_us()};
        *l->tail = it;
        l->tail = &it->next;
    } else {
        ft_server_msg_free(msg);
        l->cancelled = true; /* a lost message is a lost stream: the generation opens anew */
    }
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void on_gone(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms)
{
    local_link *l = ctx;
    pthread_mutex_lock(&l->lock);
    ft_error_set(&l->gone_err, code == FT_OK ? FT_CANCELLED : code, "%s", message ? message : "");
    l->retry_after_ms = retry_after_ms;
    l->gone = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* ---- the generation's side ---- */

static ft_status send_open(local_link *l, const ft_msg_open *open, ft_error *err)
{
    const ft_vclient client = {
        .asks = l->asks, .ctx = l, .on_message = on_message, .on_gone = on_gone};
    if (l->opened)
        return ft_error_set(err, FT_INVALID, "local: a link opens one session only");
    l->opened = true;
    if (l->asks.tenant[0]) {
        ft_key key;
        char credential[FT_KEY_CREDENTIAL_SIZE];
        if (!ft_keyring_named(ft_verifier_keys(l->verifier), l->asks.tenant, &key))
            return ft_error_set(err, FT_UNAUTHENTICATED, "local: key '%s' was removed",
                                l->asks.tenant);
        ft_key_credential(&key, credential);
        l->session = ft_verifier_open(l->verifier, open, credential, &key, &client);
    } else {
        l->session = ft_verifier_open(l->verifier, open, "local", NULL, &client);
    }
    return l->session ? FT_OK : ft_error_set(err, FT_NOMEM, "local: the verifier is out of memory");
}

static void local_use_client(ft_link *link, const ft_client_id *client)
{
    ((local_link *)link)->asks = *client;
}

/* After the session's end a call does nothing; errors show in recv, as on the wire. */
static ft_status local_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    local_link *l = (local_link *)link;
    if (msg->kind == FT_CLIENT_OPEN)
        return send_open(l, &msg->open, err);
    if (!l->session || l->closed)
        return FT_OK;
    if (msg->kind == FT_CLIENT_DRAFT) {
        ft_client_msg *draft = ft_client_msg_dup(msg);
        if (!draft)
            return ft_error_set(err, FT_NOMEM, "edge: out of memory for a draft");
        ft_vsession_draft(l->session, draft);
    } else {
        l->closed = true;
        ft_vsession_close(l->session);
    }
    return FT_OK;
}

static bool nothing_yet(const local_link *l)
{
    return !l->cancelled && !l->head && !l->gone;
}

static ft_status local_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    local_link *l = (local_link *)link;
    ft_status status = FT_OK;
    const int64_t deadline_us = ft_deadline_us(timeout_us);
    bool late = timeout_us == 0;
    *out = NULL;
    pthread_mutex_lock(&l->lock);
    while (nothing_yet(l) && !late)
        late = !ft_cond_wait_until(&l->changed, &l->lock, deadline_us);
    if (l->cancelled) {
        status = ft_error_set(err, FT_CANCELLED, "local: the link was cancelled");
    } else if (l->head) {
        item *it = l->head;
        l->head = it->next;
        if (!l->head)
            l->tail = &l->head;
        *out = it->msg;
        (*out)->waited_us = ft_monotonic_us() - it->came_us;
        free(it);
    } else if (l->gone) {
        status = ft_error_set(err, l->gone_err.code, "%s", l->gone_err.message);
    } else {
        status = ft_error_set(err, FT_TIMEOUT, "local: no message yet");
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

static uint32_t local_retry_after_ms(ft_link *link)
{
    local_link *l = (local_link *)link;
    pthread_mutex_lock(&l->lock);
    uint32_t ms = l->retry_after_ms;
    pthread_mutex_unlock(&l->lock);
    return ms;
}

/* Nothing travels. */
static void local_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    *sent = *received = 0;
}

static void local_cancel(ft_link *link)
{
    local_link *l = (local_link *)link;
    pthread_mutex_lock(&l->lock);
    l->cancelled = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void local_destroy(ft_link *link)
{
    local_link *l = (local_link *)link;
    if (!l)
        return;
    ft_vsession_detach(l->session);
    while (l->head) {
        item *it = l->head;
        l->head = it->next;
        ft_server_msg_free(it->msg);
        free(it);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static const ft_link_vtable local_vtable = {
    .send = local_send,
    .recv = local_recv,
    .retry_after_ms = local_retry_after_ms,
    .bytes = local_bytes,
    .cancel = local_cancel,
    .destroy = local_destroy,
    .use_client = local_use_client,
};

static ft_status local_open(void *ctx, ft_error *err, ft_link **out)
{
    local_link *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return ft_error_set(err, FT_NOMEM, "local: out of memory for a link");
    l->link.vt = &local_vtable;
    l->verifier = ctx;
    l->tail = &l->head;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    *out = &l->link;
    return FT_OK;
}

static ft_status local_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    ft_verifier_info(ctx, out);
    return ft_verifier_health(ctx, err);
}

ft_link_source ft_local_link_source(ft_verifier *verifier)
{
    return (ft_link_source){.ctx = verifier,
                            .open = local_open,
                            .info = local_info,
                            .in_process = true,
                            .grammars = ft_verifier_grammars(verifier)};
}
