/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles, which clients' threads and the engine thread share. A handle stands for a client's
 * stream. It lives from ft_verifier_open to ft_vsession_detach. It is not the session
 * (serve/session.h): a session loses its handle with the stream, and gets a new one by a resume.
 *
 * A client's call changes its handle and puts the handle into the inbox's queue, at most once. The
 * engine thread takes the handle out and does what was called, always in this order: open, drafts,
 * close or detach. Queueing never allocates: drafts are queued by pointer, and whoever holds a
 * message owns it.
 *
 * Locks: the inbox's lock guards the fields that say so. It is held for queue operations only, and
 * never during a callback.
 */
#ifndef FT_SERVE_HANDLE_H
#define FT_SERVE_HANDLE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "serve/vsession.h"
#include "wire/keys.h"

/* The most drafts of one handle that may wait for the engine thread. A client that keeps to the
 * protocol waits for verdicts, so it sends at most:
 *   - an early draft whose verdict was already sent: it comes too late;
 *   - the draft of the next round;
 *   - an early draft that extends that round's tree, or the next run;
 *   - the last round again, which the record answers.
 * A fifth draft ends the session, and none of the waiting drafts is answered. */
#define FT_MAIL_MAX 4

typedef struct ft_mail {
    ft_client_msg *msg;
    int64_t at_us; /* arrival time */
} ft_mail;

/* The Open of a handle, in one block; freed once the session is opened or refused. */
typedef struct ft_opening {
    ft_msg_open open; /* its prompt points to `prompt`; NULL: too long, so it was not copied */
    ft_key key;       /* a copy, taken at Open; empty: no key */
    char *credential;
    int32_t prompt[];
} ft_opening;

/* Which of the calls that end a handle the client has made. */
typedef enum ft_handle_life {
    FT_HANDLE_HELD,   /* none */
    FT_HANDLE_CLOSED, /* close */
    FT_HANDLE_LOST,   /* detach, without close */
    FT_HANDLE_DONE    /* close, then detach */
} ft_handle_life;

typedef struct ft_inbox ft_inbox;
typedef struct ft_sess ft_sess;

struct ft_vsession {
    ft_inbox *inbox;
    ft_vclient client;
    /* the engine thread's */
    ft_sess *session;    /* NULL: not open yet, or gone */
    ft_opening *opening; /* owned; NULL: the Open was handled */
    /* guarded by the inbox's lock */
    ft_handle_life life;
    bool queued, in_callback;
    bool muted;   /* the client is detaching: no new callback may begin */
    bool flooded; /* more drafts came than may wait */
    uint32_t n_mail;
    ft_mail mail[FT_MAIL_MAX]; /* [n_mail], oldest first; messages owned */
    ft_vsession *prev, *next, *next_queued;
};

struct ft_inbox {
    ft_clock clock;
    pthread_t reader; /* the engine thread */
    bool ready;       /* ft_inbox_init was called */
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* the engine thread: something to do */
    pthread_cond_t changed; /* others: a callback returned, a tick is done */
    /* guarded by lock */
    ft_vsession *queue, **queue_tail;
    ft_vsession *handles;
    bool stop;
    uint64_t ticks, ticks_done;
};

/* Always succeeds. */
void ft_inbox_init(ft_inbox *inbox, ft_clock clock);
/* Frees all handles. No thread may use the inbox any more. All-zero is legal. */
void ft_inbox_deinit(ft_inbox *inbox);
/* Asks the engine thread to stop. */
void ft_inbox_stop(ft_inbox *inbox);
/* Returns once the engine thread has taken the queue after this call began, and has answered
 * (ft_inbox_answer). */
void ft_inbox_tick(ft_inbox *inbox);

/* ---- for the engine thread ---- */

/* Waits until there is something to do, at most timeout_us (< 0: no limit). */
void ft_inbox_wait(ft_inbox *inbox, int64_t timeout_us);
/* Takes all queued handles, linked by next_queued. Read next_queued before ft_handle_look, which
 * allows the handle to be queued again. *ticks: for ft_inbox_answer. False: stop. */
bool ft_inbox_take(ft_inbox *inbox, ft_vsession **handles, uint64_t *ticks);
/* Whether a thread waits in ft_inbox_tick for the take that returned `ticks`. */
bool ft_inbox_asked(ft_inbox *inbox, uint64_t ticks);
/* Everything from the take that returned `ticks` is done: wakes the threads in ft_inbox_tick. */
void ft_inbox_answer(ft_inbox *inbox, uint64_t ticks);

/* Makes a handle and queues it. A prompt of max_prompt tokens or more is not copied. NULL: no
 * memory. Any thread. */
ft_vsession *ft_handle_create(ft_inbox *inbox, const ft_msg_open *open, uint32_t max_prompt,
                              const char *credential, const ft_key *key, const ft_vclient *client);
/* Frees the opening once it was handled. */
void ft_handle_drop_opening(ft_vsession *handle);
/* Returns what the client has called so far. From now on a call queues the handle again. */
ft_handle_life ft_handle_look(ft_vsession *handle);
/* Takes the oldest draft out, or the oldest early draft; the caller owns it. *flooded: more came
 * than may wait. False: there is none. */
bool ft_handle_take(ft_vsession *handle, bool early_only, ft_mail *mail, bool *flooded);
/* Frees the handle, after the client's last call. It must have no session any more. */
void ft_handle_destroy(ft_vsession *handle);

/* Tells the client, unless it has closed or detached. The message is borrowed by the call. */
void ft_handle_answer(ft_vsession *handle, const ft_server_msg *msg);
/* The last callback; a closed handle gets it, too. It must have no session any more. */
void ft_handle_gone(ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms);

#endif
