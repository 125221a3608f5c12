/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles, which clients' threads and the engine thread share. A handle stands for a client's
 * stream. It lives from ft_verifier_open to ft_vsession_detach. A handle is not a session
 * (serve/session.h). A session that loses its stream loses its handle, too. A session that is
 * resumed gets a new handle.
 *
 * A client's call changes the handle and puts it into the inbox's queue. A handle is in the queue
 * at most once. The engine thread takes the handle out and does what the client called, always in
 * this order: open, drafts, close or detach. Queueing a handle or a draft allocates no memory:
 * drafts are queued by pointer. Whoever holds a message owns it.
 *
 * Locks: the inbox's lock guards the fields that say so. It is held for queue operations only, and
 * never during a callback.
 */
#ifndef FT_SERVE_HANDLE_H
#define FT_SERVE_HANDLE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/known.h"
#include "serve/vsession.h"
#include "wire/keys.h"

/* The most drafts of one handle that may wait for the engine thread. A client that keeps to the
 * protocol waits for verdicts, so it sends at most:
 *   - an early draft that comes too late: the tree that it extends has its verdict;
 *   - the draft of the next round;
 *   - an early draft that extends that round's tree, or the next run;
 *   - the draft of the last round again, which the record answers.
 * A fifth draft ends the session, and none of the waiting drafts is answered. */
#define FT_MAIL_MAX 4

typedef struct ft_mail {
    ft_client_msg *msg;
    int64_t at_us; /* arrival time */
} ft_mail;

/* The Open of a handle, in one block of memory. It is freed once the session is opened or
 * refused. */
typedef struct ft_opening {
    ft_msg_open open; /* its prompt points to `prompt`; NULL: not copied (too long, or a resume) */
    int64_t at_us;    /* arrival time */
    ft_key key;       /* a copy, taken at Open; empty: no key */
    char *credential;
    int32_t prompt[];
} ft_opening;

/* Which of the calls close and detach the client has made. Both end a handle. */
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
    /* the engine thread owns these */
    ft_sess *session;    /* NULL: not open yet, or gone */
    ft_opening *opening; /* owned; NULL: the Open was handled */
    /* guarded by the inbox's lock */
    ft_handle_life life;
    bool queued, in_callback;
    bool waits;   /* the opening waits until something is compiled */
    bool muted;   /* the client is detaching: no new callback may begin */
    bool flooded; /* more drafts came than may wait */
    uint32_t n_mail;
    ft_mail mail[FT_MAIL_MAX]; /* [n_mail], oldest first; messages owned */
    ft_vsession *prev, *next, *next_queued;
};

/* The engine thread's work between two looks into the inbox. */
typedef struct ft_inbox_reader {
    ft_known_us busy;    /* since when it works; unknown: it waits, or has not begun */
    int64_t longest_us;  /* the longest that it has worked */
    int64_t expected_us; /* how long its present pass is expected to take; 0: not known */
} ft_inbox_reader;

struct ft_inbox {
    ft_clock clock;
    pthread_t reader; /* the engine thread */
    bool ready;       /* ft_inbox_init was called */
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* wakes the engine thread: something to do */
    pthread_cond_t changed; /* wakes others: a callback returned, a tick is done, the engine thread
                               rests or has ended */
    /* guarded by lock */
    ft_vsession *queue, **queue_tail;
    ft_vsession *handles;
    ft_inbox_reader engine;
    uint32_t n_waits; /* handles that wait */
    bool stop;        /* the engine thread must end */
    bool ended;       /* it takes nothing any more */
    uint64_t ticks, ticks_done;
};

/* Always succeeds. */
void ft_inbox_init(ft_inbox *inbox, ft_clock clock);
/* Frees all handles. No thread may use the inbox any more. An inbox of all zeros is legal. */
void ft_inbox_deinit(ft_inbox *inbox);
/* Asks the engine thread to stop, and waits at most timeout_us until it has (< 0: no limit). False:
 * it has not. */
bool ft_inbox_stop(ft_inbox *inbox, int64_t timeout_us);
/* Waits until the engine thread has taken the queue after the start of this call, and has then
 * called ft_inbox_answer. */
void ft_inbox_tick(ft_inbox *inbox);

/* Whether the engine thread rests: it waits, and there is nothing to do for it. The caller holds
 * the lock. */
bool ft_inbox_rests(const ft_inbox *inbox);

/* ---- for the engine thread ---- */

/* Says that the thread takes nothing any more. */
void ft_inbox_end(ft_inbox *inbox);
/* Waits until there is something to do, at most timeout_us (< 0: no limit). */
void ft_inbox_wait(ft_inbox *inbox, int64_t timeout_us);
/* Takes all handles out of the queue; next_queued links them. The caller must read next_queued
 * before it calls ft_handle_look: after that call the handle may be queued again. *ticks: the value
 * for ft_inbox_answer. Returns false if the engine thread must stop. */
bool ft_inbox_take(ft_inbox *inbox, ft_vsession **handles, uint64_t *ticks);
/* Whether a thread waits in ft_inbox_tick for the take that returned `ticks`. */
bool ft_inbox_asked(ft_inbox *inbox, uint64_t ticks);
/* Says that everything from the take that returned `ticks` is done. Wakes the threads in
 * ft_inbox_tick. */
void ft_inbox_answer(ft_inbox *inbox, uint64_t ticks);

/* Says how long the pass that begins now is expected to take. */
void ft_inbox_expect(ft_inbox *inbox, int64_t pass_us);

/* Creates a handle and puts it into the queue. A prompt of max_prompt tokens or more is not copied.
 * Returns NULL if there is no memory. Any thread may call it. */
ft_vsession *ft_handle_create(ft_inbox *inbox, const ft_msg_open *open, uint32_t max_prompt,
                              const char *credential, const ft_key *key, const ft_vclient *client);
/* The opening stays, and the handle comes back into the queue with ft_inbox_recall. */
void ft_handle_wait(ft_vsession *handle);
/* Something was compiled: puts all handles that wait into the queue again. Any thread. */
void ft_inbox_recall(ft_inbox *inbox);
/* How long an opening waits for what is compiled. */
int64_t ft_opening_wait_us(const ft_opening *opening);
/* The same for those that have waited so long. Returns the time until the next one has; < 0: none
 * waits. */
int64_t ft_inbox_recall_late(ft_inbox *inbox, int64_t now_us);
/* Frees the opening once it was handled. */
void ft_handle_drop_opening(ft_vsession *handle);
/* Returns whether the client has closed or detached the handle. From now on, the client's next call
 * puts the handle into the queue again. */
ft_handle_life ft_handle_look(ft_vsession *handle);
/* Takes out the oldest draft; if early_only is set, the oldest early draft. The caller then owns
 * its message. *flooded: more drafts came than may wait. Returns false if there is no such
 * draft. */
bool ft_handle_take(ft_vsession *handle, bool early_only, ft_mail *mail, bool *flooded);
/* Frees the handle, after the client's last call. The handle must have no session any more. */
void ft_handle_destroy(ft_vsession *handle);

/* Sends the message to the client, unless the client has closed or detached the handle. The call
 * only borrows the message. */
void ft_handle_answer(ft_vsession *handle, const ft_server_msg *msg);
/* Makes the last callback. A closed handle gets it, too; a detached handle gets none. The handle
 * must have no session any more. */
void ft_handle_gone(ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms);

#endif
