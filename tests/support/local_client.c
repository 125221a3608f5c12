// SPDX-License-Identifier: Apache-2.0
// The in-process client of tests. Callbacks come on the engine thread; waits are on a condition.
#include "support/local_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/device.h"

#define WAIT_S 120 /* a hang is a failure, not a slow machine */

/* ---- callbacks ---- */

static void on_opened(local_client *c, const ft_msg_opened *opened)
{
    pthread_mutex_lock(&c->lock);
    c->opened = *opened;
    c->n_opened++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Under the lock. */
static void hear(local_client *c, const ft_msg_verdict *v)
{
    local_part *part = &c->parts[c->n_verdicts % LOCAL_HEARD_MAX];
    *part = (local_part){.round = v->round,
                         .n_next = v->n_next,
                         .length = v->length,
                         .token_us = v->hints.token_us,
                         .logprob = v->n_logprobs ? v->logprobs[v->n_logprobs - 1].logprob : 0,
                         .more = v->more};
    for (uint32_t i = 0; i < v->n_next && c->n_heard < LOCAL_HEARD_MAX; i++)
        c->heard[c->n_heard++] = v->next[i];
    c->n_verdicts++;
    c->n_over += !v->more;
}

static void on_verdict(local_client *c, const ft_msg_verdict *verdict)
{
    pthread_mutex_lock(&c->lock);
    c->verdict = *verdict;
    if (verdict->n_logprobs)
        memcpy(c->logprobs, verdict->logprobs, verdict->n_logprobs * sizeof c->logprobs[0]);
    c->verdict.logprobs = c->logprobs;
    hear(c, verdict);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->on_part)
        c->on_part(c, verdict);
}

static void on_message(void *ctx, const ft_server_msg *msg)
{
    if (msg->kind == FT_SERVER_OPENED)
        on_opened(ctx, &msg->opened);
    else
        on_verdict(ctx, &msg->verdict);
}

static void on_gone(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms)
{
    local_client *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->gone = code;
    snprintf(c->message, sizeof c->message, "%s", message);
    c->retry_after_ms = retry_after_ms;
    c->n_gone++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* ---- calls ---- */

ft_msg_open local_open_msg(const test_text *text, float temperature, uint64_t seed,
                           uint32_t max_tokens)
{
    return (ft_msg_open){.protocol = FT_PROTOCOL,
                         .sampling = {.temperature = temperature, .top_p = 1, .seed = seed},
                         .n_prompt = text->n,
                         .prompt = text->token,
                         .max_tokens = max_tokens};
}

void local_open(local_client *c, ft_verifier *v, const ft_msg_open *open, const char *credential)
{
    local_open_from(c, v, open, credential, "");
}

void local_open_from(local_client *c, ft_verifier *v, const ft_msg_open *open,
                     const char *credential, const char *address)
{
    ft_vclient client = {.ctx = c, .on_message = on_message, .on_gone = on_gone};
    strcpy(client.id.address, address);
    memset(c, 0, sizeof *c);
    c->verifier = v;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->session = ft_verifier_open(v, open, credential, NULL, &client);
    assert_non_null(c->session);
}

ft_msg_open local_resume_msg(const local_client *c, uint32_t base)
{
    return (ft_msg_open){.protocol = FT_PROTOCOL,
                         .resume = true,
                         .session = c->opened.session,
                         .secret = c->opened.secret,
                         .base = base};
}

ft_client_msg *local_draft_msg(const ft_msg_draft *draft)
{
    const ft_client_msg borrowed = {.kind = FT_CLIENT_DRAFT, .draft = *draft};
    ft_client_msg *msg = ft_client_msg_dup(&borrowed);
    assert_non_null(msg);
    return msg;
}

void local_send(ft_vsession *session, const ft_msg_draft *draft)
{
    ft_vsession_draft(session, local_draft_msg(draft));
}

/* Under the lock: waits until *count is at least n, or the session is gone. */
static void wait_count(local_client *c, const uint32_t *count, uint32_t n)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += test_patience_s(WAIT_S);
    while (*count < n && c->n_gone == 0)
        if (pthread_cond_timedwait(&c->changed, &c->lock, &at) != 0) {
            fprintf(stderr, "waited %d s for an answer\n", test_patience_s(WAIT_S));
            abort();
        }
}

void local_wait_opened(local_client *c)
{
    pthread_mutex_lock(&c->lock);
    wait_count(c, &c->n_opened, 1);
    pthread_mutex_unlock(&c->lock);
    if (c->n_opened == 0)
        fail_msg("not opened: %s", c->message);
}

bool local_wait_verdict(local_client *c, uint32_t n)
{
    pthread_mutex_lock(&c->lock);
    wait_count(c, &c->n_verdicts, n);
    bool got = c->n_verdicts >= n;
    pthread_mutex_unlock(&c->lock);
    return got;
}

bool local_wait_over(local_client *c, uint32_t n)
{
    pthread_mutex_lock(&c->lock);
    wait_count(c, &c->n_over, n);
    bool got = c->n_over >= n;
    pthread_mutex_unlock(&c->lock);
    return got;
}

ft_status local_wait_gone(local_client *c)
{
    pthread_mutex_lock(&c->lock);
    wait_count(c, &c->n_gone, 1);
    pthread_mutex_unlock(&c->lock);
    return c->gone;
}

void local_detach(local_client *c)
{
    ft_vsession_detach(c->session);
    c->session = NULL;
    assert_true(c->n_gone <= 1);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

void local_close(local_client *c)
{
    ft_vsession_close(c->session);
    (void)local_wait_gone(c);
    local_detach(c);
}

/* All of a run, as it was heard. */
static bool finish_run(local_client *c, test_text *text, uint32_t n_over)
{
    uint32_t from = c->n_heard;
    local_send(c->session, &c->draft);
    if (!local_wait_over(c, n_over))
        return false;
    for (uint32_t i = from; i < c->n_heard && text->n < TEST_TEXT_MAX; i++)
        text->token[text->n++] = c->heard[i];
    text->rounds++;
    text->finish = c->verdict.finish;
    assert_int_equal(text->n, c->verdict.length);
    assert_true(text->finish || text->n == c->draft.base + c->draft.run);
    return true;
}

bool local_round(local_client *c, test_edge *edge, test_text *text)
{
    uint32_t n = c->n_verdicts + 1;
    test_draft(&c->draft, edge, text);
    if (c->draft.run > 0)
        return finish_run(c, text, c->n_over + 1);
    local_send(c->session, &c->draft);
    if (!local_wait_verdict(c, n))
        return false;
    assert_true(test_apply(text, &c->draft, &c->verdict));
    return true;
}

void local_generate(ft_verifier *v, const ft_msg_open *open, test_edge *edge, test_text *text)
{
    local_client c;
    local_open(&c, v, open, "me");
    while (text->finish == FT_FINISH_NONE)
        if (!local_round(&c, edge, text))
            fail_msg("gone: %s", c.message);
    local_close(&c);
}

/* ---- keys ---- */

static uint64_t value_of(const char *page, const char *metric, const char *key, const char *labels)
{
    char line[200];
    snprintf(line, sizeof line, "foretoken_%s{key=\"%s\"%s} ", metric, key, labels);
    const char *at = strstr(page, line);
    return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

local_key_count local_count_key(ft_verifier *v, const char *name)
{
    ft_buf page = {0};
    assert_int_equal(ft_keys_append(v, &page), FT_OK);
    const char *text = page.data ? page.data : "", *refused = "key_opens_refused_total";
    const local_key_count count = {
        .sessions = value_of(text, "key_sessions", name, ""),
        .opened = value_of(text, "key_sessions_opened_total", name, ""),
        .forbidden = value_of(text, refused, name, ",status=\"forbidden\""),
        .exhausted = value_of(text, refused, name, ",status=\"exhausted\"")};
    ft_buf_deinit(&page);
    return count;
}
