// SPDX-License-Identifier: Apache-2.0
// The inbox of the engine thread, and callbacks to clients.
//
//   any thread: open/draft/close/detach --queue--> engine thread: ft_inbox_take, ft_handle_look
//
// Invariants: a handle is in the queue exactly while `queued` is set. `life` moves only from HELD
// to CLOSED or LOST, and from CLOSED to DONE. After LOST and DONE the client makes no call and gets
// no callback, so the engine thread may free the handle. A draft that comes after close is freed at
// once.
//
// serve/handle.h names the owner of each field. This file does not check messages. It only copies
// the Open, and tells early drafts from other drafts.
#include "serve/handle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "constrain/grammars.h"

/* ---- the inbox ---- */

void ft_inbox_init(ft_inbox *inbox, ft_clock clock)
{
    inbox->clock = clock;
    pthread_mutex_init(&inbox->lock, NULL);
    pthread_cond_init(&inbox->wake, NULL);
    pthread_cond_init(&inbox->changed, NULL);
    inbox->queue_tail = &inbox->queue;
    inbox->ready = true;
}

void ft_inbox_deinit(ft_inbox *inbox)
{
    if (!inbox->ready)
        return;
    while (inbox->handles) {
        inbox->handles->session = NULL;
        ft_handle_destroy(inbox->handles);
    }
    pthread_cond_destroy(&inbox->changed);
    pthread_cond_destroy(&inbox->wake);
    pthread_mutex_destroy(&inbox->lock);
}

bool ft_inbox_stop(ft_inbox *inbox, int64_t timeout_us)
{
    const int64_t deadline_us = ft_deadline_us(timeout_us);
    pthread_mutex_lock(&inbox->lock);
    inbox->stop = true;
    pthread_cond_signal(&inbox->wake);
    while (!inbox->ended && ft_cond_wait_until(&inbox->changed, &inbox->lock, deadline_us)) {
    }
    const bool ended = inbox->ended;
    pthread_mutex_unlock(&inbox->lock);
    return ended;
}

void ft_inbox_end(ft_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->ended = true;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

bool ft_inbox_rests(const ft_inbox *inbox)
{
    return !inbox->engine.busy.known && !inbox->queue;
}

void ft_inbox_tick(ft_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    uint64_t mine = ++inbox->ticks;
    pthread_cond_signal(&inbox->wake);
    while (inbox->ticks_done < mine)
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    pthread_mutex_unlock(&inbox->lock);
}

/* The engine thread has come back to the inbox. The caller holds the lock. */
static void note_look(ft_inbox *inbox, int64_t now_us, ft_known_us busy)
{
    ft_inbox_reader *r = &inbox->engine;
    if (r->busy.known && now_us - r->busy.us > r->longest_us)
        r->longest_us = now_us - r->busy.us;
    r->busy = busy;
    r->expected_us = 0;
}

void ft_inbox_wait(ft_inbox *inbox, int64_t timeout_us)
{
    const int64_t deadline_us = ft_deadline_us(timeout_us), now_us = ft_clock_now_us(&inbox->clock);
    bool late = false;
    pthread_mutex_lock(&inbox->lock);
    note_look(inbox, now_us, ft_unknown());
    pthread_cond_broadcast(&inbox->changed);
    while (!late && !inbox->stop && !inbox->queue && inbox->ticks == inbox->ticks_done)
        late = !ft_cond_wait_until(&inbox->wake, &inbox->lock, deadline_us);
    pthread_mutex_unlock(&inbox->lock);
}

bool ft_inbox_take(ft_inbox *inbox, ft_vsession **handles, uint64_t *ticks)
{
    const int64_t now_us = ft_clock_now_us(&inbox->clock);
    pthread_mutex_lock(&inbox->lock);
    note_look(inbox, now_us, ft_known(now_us));
    bool stop = inbox->stop;
    *ticks = inbox->ticks;
    *handles = inbox->queue;
    inbox->queue = NULL;
    inbox->queue_tail = &inbox->queue;
    pthread_mutex_unlock(&inbox->lock);
    return !stop;
}

bool ft_inbox_asked(ft_inbox *inbox, uint64_t ticks)
{
    return ticks != inbox->ticks_done; /* no lock: only the engine thread writes it */
}

void ft_inbox_answer(ft_inbox *inbox, uint64_t ticks)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->ticks_done = ticks;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

void ft_inbox_expect(ft_inbox *inbox, int64_t pass_us)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->engine.expected_us = pass_us;
    pthread_mutex_unlock(&inbox->lock);
}

/* The caller holds the lock. */
static void queue(ft_vsession *h)
{
    ft_inbox *inbox = h->inbox;
    if (h->queued)
        return;
    h->queued = true;
    h->next_queued = NULL;
    *inbox->queue_tail = h;
    inbox->queue_tail = &h->next_queued;
    pthread_cond_signal(&inbox->wake);
}

/* ---- life ---- */

/* Allocates one block of memory for the struct, the prompt, the credential and the constraint. */
static ft_opening *opening_create(const ft_msg_open *open, uint32_t max_prompt,
                                  const char *credential)
{
    const bool copied = !open->resume && open->n_prompt < max_prompt;
    const size_t n_prompt = copied ? open->n_prompt : 0;
    const size_t prompt_bytes = n_prompt * sizeof *open->prompt;
    const char *whose = credential ? credential : "";
    const size_t whose_bytes = strlen(whose) + 1;
    const ft_constraint *c = &open->constraint;
    ft_opening *o = malloc(sizeof *o + prompt_bytes + whose_bytes + c->n);
    if (!o)
        return NULL;
    o->open = *open;
    o->open.prompt = n_prompt ? o->prompt : NULL;
    o->key = (ft_key){0};
    if (n_prompt)
        memcpy(o->prompt, open->prompt, prompt_bytes);
    o->credential = (char *)o->prompt + prompt_bytes;
    memcpy(o->credential, whose, whose_bytes);
    o->open.constraint.data = o->credential + whose_bytes;
    if (c->n)
        memcpy(o->credential + whose_bytes, c->data, c->n);
    return o;
}

ft_vsession *ft_handle_create(ft_inbox *inbox, const ft_msg_open *open, uint32_t max_prompt,
                              const char *credential, const ft_key *key, const ft_vclient *client)
{
    ft_vsession *h = calloc(1, sizeof *h);
    ft_opening *opening = opening_create(open, max_prompt, credential);
    if (!h || !opening) {
        free(opening);
        free(h);
        return NULL;
    }
    if (key)
        opening->key = *key;
    h->inbox = inbox;
    h->client = *client;
    h->opening = opening;
    h->opening->at_us = ft_clock_now_us(&inbox->clock);
    pthread_mutex_lock(&inbox->lock);
    h->next = inbox->handles;
    if (h->next)
        h->next->prev = h;
    inbox->handles = h;
    queue(h);
    pthread_mutex_unlock(&inbox->lock);
    return h;
}

/* The caller holds the lock. */
static void stop_waiting(ft_vsession *h)
{
    h->inbox->n_waits -= h->waits;
    h->waits = false;
}

void ft_handle_wait(ft_vsession *handle)
{
    pthread_mutex_lock(&handle->inbox->lock);
    handle->inbox->n_waits += !handle->waits;
    handle->waits = true;
    pthread_mutex_unlock(&handle->inbox->lock);
}

/* The caller holds the lock. */
static void recall(ft_vsession *h)
{
    stop_waiting(h);
    queue(h);
}

void ft_inbox_recall(ft_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    for (ft_vsession *h = inbox->handles; h && inbox->n_waits > 0; h = h->next)
        if (h->waits)
            recall(h);
    pthread_mutex_unlock(&inbox->lock);
}

int64_t ft_opening_wait_us(const ft_opening *opening)
{
    return opening->open.n_answer > 0 ? FT_GRAMMARS_BEGUN_WAIT_US : FT_GRAMMARS_WAIT_US;
}

int64_t ft_inbox_recall_late(ft_inbox *inbox, int64_t now_us)
{
    int64_t next_us = -1;
    pthread_mutex_lock(&inbox->lock);
    for (ft_vsession *h = inbox->handles; h && inbox->n_waits > 0; h = h->next) {
        if (!h->waits)
            continue;
        const int64_t left_us = h->opening->at_us + ft_opening_wait_us(h->opening) - now_us;
        if (left_us <= 0)
            recall(h);
        if (next_us < 0 || left_us < next_us)
            next_us = left_us > 0 ? left_us : 0;
    }
    pthread_mutex_unlock(&inbox->lock);
    return next_us;
}

void ft_handle_drop_opening(ft_vsession *handle)
{
    pthread_mutex_lock(&handle->inbox->lock);
    stop_waiting(handle);
    pthread_mutex_unlock(&handle->inbox->lock);
    free(handle->opening);
    handle->opening = NULL;
}

void ft_handle_destroy(ft_vsession *handle)
{
    ft_vsession *h = handle;
    ft_inbox *inbox = h->inbox;
    assert(!h->session);
    pthread_mutex_lock(&inbox->lock);
    stop_waiting(h);
    *(h->prev ? &h->prev->next : &inbox->handles) = h->next;
    if (h->next)
        h->next->prev = h->prev;
    pthread_mutex_unlock(&inbox->lock);
    for (uint32_t i = 0; i < h->n_mail; i++)
        ft_client_msg_free(h->mail[i].msg);
    free(h->opening);
    free(h);
}

/* ---- calls; any thread ---- */

void ft_vsession_draft(ft_vsession *session, ft_client_msg *take_draft)
{
    ft_vsession *h = session;
    const ft_mail mail = {.msg = take_draft, .at_us = ft_clock_now_us(&h->inbox->clock)};
    pthread_mutex_lock(&h->inbox->lock);
    bool held = h->life == FT_HANDLE_HELD, taken = held && h->n_mail < FT_MAIL_MAX;
    if (taken) {
        h->mail[h->n_mail++] = mail;
        queue(h);
    }
    h->flooded |= held && !taken; /* ft_handle_take reports it with the drafts */
    pthread_mutex_unlock(&h->inbox->lock);
    if (!taken)
        ft_client_msg_free(take_draft);
}

void ft_vsession_close(ft_vsession *session)
{
    pthread_mutex_lock(&session->inbox->lock);
    if (session->life == FT_HANDLE_HELD) {
        session->life = FT_HANDLE_CLOSED;
        queue(session);
    }
    pthread_mutex_unlock(&session->inbox->lock);
}

void ft_vsession_detach(ft_vsession *session)
{
    if (!session)
        return;
    ft_inbox *inbox = session->inbox;
    pthread_mutex_lock(&inbox->lock);
    assert(!session->muted);
    session->muted = true;
    while (session->in_callback && !pthread_equal(pthread_self(), inbox->reader))
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    /* This must come last. Once the engine thread sees the new `life`, it may free the handle. */
    session->life = session->life == FT_HANDLE_CLOSED ? FT_HANDLE_DONE : FT_HANDLE_LOST;
    queue(session);
    pthread_mutex_unlock(&inbox->lock);
}

/* ---- for the engine thread ---- */

ft_handle_life ft_handle_look(ft_vsession *handle)
{
    pthread_mutex_lock(&handle->inbox->lock);
    handle->queued = false;
    ft_handle_life life = handle->life;
    pthread_mutex_unlock(&handle->inbox->lock);
    return life;
}

bool ft_handle_take(ft_vsession *handle, bool early_only, ft_mail *mail, bool *flooded)
{
    ft_vsession *h = handle;
    uint32_t i = 0;
    pthread_mutex_lock(&h->inbox->lock);
    while (early_only && i < h->n_mail && h->mail[i].msg->draft.n_under == 0)
        i++;
    bool found = i < h->n_mail;
    if (found) {
        *mail = h->mail[i];
        memmove(h->mail + i, h->mail + i + 1, (--h->n_mail - i) * sizeof *mail);
    }
    *flooded = h->flooded;
    pthread_mutex_unlock(&h->inbox->lock);
    return found;
}

/* ---- answers ---- */

/* Marks the handle as being in a callback. Returns false if the client has given the handle up: no
 * callback may begin then. also_closed: a closed handle still gets this callback. */
static bool callback_begin(ft_vsession *h, bool also_closed)
{
    pthread_mutex_lock(&h->inbox->lock);
    h->in_callback = !h->muted && (also_closed || h->life == FT_HANDLE_HELD);
    bool go = h->in_callback;
    pthread_mutex_unlock(&h->inbox->lock);
    return go;
}

static void callback_end(ft_vsession *h)
{
    pthread_mutex_lock(&h->inbox->lock);
    h->in_callback = false;
    pthread_cond_broadcast(&h->inbox->changed);
    pthread_mutex_unlock(&h->inbox->lock);
}

void ft_handle_answer(ft_vsession *handle, const ft_server_msg *msg)
{
    if (!callback_begin(handle, false))
        return;
    handle->client.on_message(handle->client.ctx, msg);
    callback_end(handle);
}

void ft_handle_gone(ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms)
{
    assert(!handle->session);
    if (!callback_begin(handle, true))
        return;
    handle->client.on_gone(handle->client.ctx, code, message, retry_after_ms);
    callback_end(handle);
}
