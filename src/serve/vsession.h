/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's stream at the verifier: who the client is, its callbacks, and the calls on the handle
 * that ft_verifier_open (serve/verifier.h) returned. Calls may come from any thread; two calls on
 * one handle must not overlap.
 */
#ifndef FT_SERVE_VSESSION_H
#define FT_SERVE_VSESSION_H

#include "base/quota.h"
#include "wire/messages.h"

typedef struct ft_vsession ft_vsession;

/* Who the client is, and its callbacks. */
typedef struct ft_vclient {
    ft_client_id id;   /* counts its sessions; all zeros: this process itself, which has no share */
    ft_client_id asks; /* for whom it asks: counts what its constraints take */
    void *ctx;
    /* Opened, or a verdict. The message is borrowed during the call. */
    void (*on_message)(void *ctx, const ft_server_msg *msg);
    /* The stream is over. code: FT_OK after close, otherwise the reason. After FT_UNAVAILABLE the
     * session can be resumed; after other codes it is gone. retry_after_ms: comes with
     * FT_EXHAUSTED, FT_NOMEM and FT_UNAVAILABLE; 0: not known. */
    void (*on_gone)(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms);
} ft_vclient;

/* Takes the message, which is a Draft. A session has one draft under way. In addition the client
 * may ask for the next run during a run, and may send one early draft during a tree's round. A
 * client that sends the last round again gets the same verdict again, unless that round was a run
 * of several passes. Any other draft ends the session with a message that says what was wrong. */
void ft_vsession_draft(ft_vsession *session, ft_client_msg *take_draft);
/* Called when the edge is done or cancels. A forward under way runs to its end, and its result is
 * dropped. Then the session is freed, and on_gone is called. */
void ft_vsession_close(ft_vsession *session);
/* Gives the handle back. No callback comes after this call has returned. If this is called in a
 * callback, no callback comes after that callback has returned. A session that is neither closed
 * nor gone has then lost its stream: its round is withdrawn, and it is kept for the ttl, in which
 * it can be resumed. NULL is legal. */
void ft_vsession_detach(ft_vsession *session);

#endif
