/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream to a verifier: opens, resumes and recovers it, and decides which server to try next,
 * and when. One text may need several links. The stream passes messages on and reads Opened only;
 * the generation reads drafts and verdicts, and tells the stream the text's length.
 *
 *    NONE ---ft_stream_open: Open{prompt}---> READY --ft_stream_ask--> WAITING
 *                                             |   ^                     |
 *                                             |   +-ft_stream_answered--+
 *    DOWN ---ft_stream_open: Open{resume}--> RESUMING --ft_stream_opened--> READY
 *    NONE, DOWN --ft_stream_open: Open{prompt}--> OPENING --ft_stream_opened--> READY
 *
 *    READY, WAITING, RESUMING, OPENING --ft_stream_recover--> DOWN, or NONE if no server has a
 *                                                             session of this text
 *    any --ft_stream_close--> CLOSED
 *
 * `offline` says whether the text is at the fallback target, if there is one, and when it goes
 * there and back (edge/offline.h).
 *
 * A session is resumed at the server that has it. At another server the text is opened anew. The
 * session is known until that server has answered: if it cannot be reached either, the first one
 * may be back.
 */
#ifndef FT_EDGE_STREAM_H
#define FT_EDGE_STREAM_H

#include "base/clock.h"
#include "base/known.h"
#include "edge/offline.h"
#include "edge/servers.h"
#include "edge/stats.h"

typedef enum ft_stream_state {
    FT_STREAM_NONE,     /* no link; the next one opens the text anew */
    FT_STREAM_READY,    /* a draft may be sent over the link */
    FT_STREAM_WAITING,  /* a draft was sent over this link, and its last verdict has not come */
    FT_STREAM_RESUMING, /* Opened must come over the link before a draft may be sent */
    FT_STREAM_OPENING,  /* the same; the text was opened anew, and this server's limits are not
                           known yet */
    FT_STREAM_DOWN,     /* no link; the next one resumes the session, or goes elsewhere */
    FT_STREAM_CLOSED,
    FT_STREAM_N_STATES,
    FT_STREAM_ILLEGAL = FT_STREAM_N_STATES /* in the table: the event cannot come in this state */
} ft_stream_state;

typedef enum ft_stream_event {
    FT_STREAM_OPEN,   /* Open{prompt} goes out */
    FT_STREAM_MEET,   /* the same, to a server whose limits are not known */
    FT_STREAM_RESUME, /* Open{resume} goes out */
    FT_STREAM_ACCEPT, /* Opened came, and the server's session fits the text */
    FT_STREAM_ASK,    /* a draft goes out */
    FT_STREAM_ANSWER, /* its last verdict came, and no other draft is out */
    FT_STREAM_LOSE,   /* the link is gone, or none could be made; the session may still exist */
    FT_STREAM_FORGET, /* the same, and there is no session */
    FT_STREAM_CLOSE,
    FT_STREAM_N_EVENTS
} ft_stream_event;

/* The state after an event; FT_STREAM_ILLEGAL where the event cannot come. */
ft_stream_state ft_stream_next(ft_stream_state state, ft_stream_event event);

typedef struct ft_stream_opts {
    ft_servers *servers; /* borrowed */
    ft_clock clock;
    const ft_client_id *client; /* for ft_link_vtable.use_client; borrowed; NULL: nobody else */
    int64_t reconnect_us;       /* for how long lost verifiers are tried again */
    int64_t fallback_us;  /* for how long before the fallback target is taken, if there is one */
    uint64_t prefix;      /* for ft_link_vtable.use_prefix */
    ft_session_id nonce;  /* of each Open of this text */
    ft_msg_limits limits; /* from Info of server `met`; used until Opened has them */
    uint32_t met;
    bool same_target;    /* the target that began the text must finish it */
    char model[128];     /* the one to ask for; "": any, and then the one that began the text */
    ft_gen_stats *stats; /* borrowed; gets bytes, reconnects and changes of the target */
} ft_stream_opts;

typedef struct ft_stream {
    ft_stream_opts how;
    ft_stream_state state;
    ft_link *link; /* NULL in NONE, DOWN and CLOSED */
    uint32_t at;   /* the server of the link, or of the last one */
    uint32_t n_links;
    uint32_t n_failures; /* of servers, after which the text was opened anew */
    uint32_t round;      /* the session's outstanding or next round */
    struct {
        bool known;             /* Opened came, and the server has not refused it since */
        uint32_t server, round; /* where it is; `round` as it was when the text went elsewhere */
        ft_session_id id, secret;
    } session;
    ft_offline offline;
    bool begun;      /* Opened came over some link */
    uint64_t target; /* once it has begun: what makes the text; 0: the server does not say */
    char model[128]; /* from Opened; before as in `how` */
    ft_msg_limits limits;
    uint32_t met;        /* the server that has these limits */
    ft_server_set tried; /* since the last verdict or pause: what they could not do may pass */
    ft_server_set unfit; /* these cannot take this text */
    struct {
        ft_known_us since; /* when the link was lost; not known: Opened has come since */
        int64_t past_us;   /* sum of earlier outages since the last verdict */
        int64_t pause_us;  /* before the next try; doubles */
        uint32_t n_lost;   /* tries since the last verdict that failed */
        int64_t least_us;  /* the shortest that a server asked for since then; 0: none did */
        bool last_round;   /* the time is over: each server is tried once more */
    } outage;
} ft_stream;

/* Plain data: there is nothing to free before the first open and after the close. */
void ft_stream_init(ft_stream *s, const ft_stream_opts *opts);

/* Makes a link and sends Open, without waiting. `open` must be complete for opening the text anew;
 * this function adds what a resume needs. Fails if no link can be made or Open cannot be sent. */
FT_WARN_UNUSED ft_status ft_stream_open(ft_stream *s, ft_msg_open *open, ft_error *err);
/* In READY: sends a draft and goes to WAITING. */
FT_WARN_UNUSED ft_status ft_stream_ask(ft_stream *s, const ft_client_msg *msg, ft_error *err);
/* In WAITING: sends one more draft, for the next round. ft_stream_recv reports a failure. */
void ft_stream_ask_behind(ft_stream *s, const ft_client_msg *msg, const char *what);
/* As ft_link_vtable.recv. */
FT_WARN_UNUSED ft_status ft_stream_recv(ft_stream *s, int64_t timeout_us, ft_error *err,
                                        ft_server_msg **out);
/* A round is over. goes_on: the draft of the next round was already sent. */
void ft_stream_answered(ft_stream *s, bool goes_on);
/* A verdict came: forgets earlier outages. */
void ft_stream_heard(ft_stream *s);

/* While the text is at the fallback target: asks servers, now and then, whether they would take it,
 * and reads their answers. *open as for ft_stream_open. */
void ft_stream_look(ft_stream *s, ft_msg_open *open);
/* Whether the text should leave the fallback target now. */
bool ft_stream_may_leave(const ft_stream *s);
/* Then, in READY and WAITING, between two verdicts: ends the session there and goes to NONE. The
 * next open goes to the server that takes the text. */
void ft_stream_leave(ft_stream *s);
/* Known: with a fallback target, while the text is not there: for how long a server may be silent
 * until it must be asked whether it is alive. */
ft_known_us ft_stream_silence(const ft_stream *s);
/* It is not, and has been silent since then: it has been gone for so long. */
void ft_stream_silent_since(ft_stream *s, int64_t since_us);

/* Opened came. length: of the text, in tokens. run: tokens that the outstanding draft asks for (0:
 * it has nodes). FT_PRECONDITION: the resumed session does not fit the text, or the new one has
 * another target than required. It was told to end, and the text must be opened anew. */
FT_WARN_UNUSED ft_status ft_stream_opened(ft_stream *s, const ft_msg_opened *opened, size_t length,
                                          uint32_t run, ft_error *err);

typedef struct ft_stream_loss {
    bool anew;               /* the session is gone: the text must be opened anew */
    int64_t pause_us;        /* to wait before opening again */
    uint32_t retry_after_ms; /* the server's advice; 0: none */
} ft_stream_loss;

/* Whether Opened came over the present link, and the session is this text's. */
bool ft_stream_accepted(const ft_stream *s);

/* Drops the link after the failure `code`, whose reason is in *err. FT_OK: open again after
 * loss->pause_us. Otherwise the caller reports the returned status and *err: no later try can
 * succeed, or the edge has tried for too long. */
FT_WARN_UNUSED ft_status ft_stream_recover(ft_stream *s, ft_status code, ft_error *err,
                                           ft_stream_loss *loss);

/* Sends Close or Cancel over the link, if there is one, and frees it. */
void ft_stream_close(ft_stream *s, ft_client_kind kind);

/* Asserts the invariants. */
void ft_stream_check(const ft_stream *s);

#endif
