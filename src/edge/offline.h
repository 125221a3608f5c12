/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a text is while no server takes it. An edge may have a *fallback target*, a verifier in its
 * own process (ft_edge_opts.fallback). It is no further server: servers are tried without a pause
 * as soon as the one before has failed, but the fallback target only when no server has taken the
 * text for some time. And a text leaves it again when a server would take it.
 *
 *    AT_SERVER --lose--> GONE --late--> AT_FALLBACK --ask--> ASKING --agree--> BACK
 *        |                                ^   ^  ^             |               |  |
 *        +-------------late---------------+   |  +--refuse-----+----refuse-----+  | leave
 *                                             |                                   v
 *                                             +-----------lose--------------- RETURNING
 *
 *    any --take--> AT_SERVER
 *    AT_FALLBACK, ASKING, BACK --spurn--> GONE
 *
 * The text goes on at the fallback target while a server is asked: by Open, over a link of its own,
 * which is read without waiting. If Opened comes, the server is there and takes this text. Then the
 * text leaves between two verdicts: it is opened anew at that server. If that fails, it is back at
 * the fallback target at once.
 *
 * A stream has one (edge/stream.h). Owned by the generation's thread; no function waits.
 */
#ifndef FT_EDGE_OFFLINE_H
#define FT_EDGE_OFFLINE_H

#include "edge/link.h"
#include "edge/stats.h"

typedef enum ft_offline_state {
    FT_AT_SERVER,   /* a server has the text, or the text was not opened yet */
    FT_GONE,        /* no server has it */
    FT_AT_FALLBACK, /* the fallback target has it, or is to take it next */
    FT_ASKING,      /* the same, and a server has been asked to take it */
    FT_BACK,        /* the same, and that server would take it */
    FT_RETURNING,   /* that server is to take it next */
    FT_OFFLINE_N_STATES,
    FT_OFFLINE_ILLEGAL = FT_OFFLINE_N_STATES /* in the table: the event cannot come */
} ft_offline_state;

typedef enum ft_offline_event {
    FT_OFFLINE_LOSE,   /* the link that the text had, or was to have, is lost */
    FT_OFFLINE_TAKE,   /* a server has taken the text */
    FT_OFFLINE_LATE,   /* none has for too long */
    FT_OFFLINE_SPURN,  /* the fallback target cannot take this text */
    FT_OFFLINE_ASK,    /* a server is asked */
    FT_OFFLINE_REFUSE, /* it does not take the text now, or cannot be reached */
    FT_OFFLINE_AGREE,  /* it does */
    FT_OFFLINE_LEAVE,  /* the text leaves the fallback target */
    FT_OFFLINE_N_EVENTS
} ft_offline_event;

/* The state after an event; FT_OFFLINE_ILLEGAL where the event cannot come. */
ft_offline_state ft_offline_next(ft_offline_state state, ft_offline_event event);

/* All zeros: at a server. */
typedef struct ft_offline {
    ft_offline_state state;
    uint32_t server;  /* that was asked last */
    ft_link *link;    /* over which it was asked: in ASKING and BACK; else NULL */
    int64_t asked_us; /* when */
    int64_t next_us;  /* when the next server may be asked */
} ft_offline;

/* Goes to the state after the event. `link` must already fit that state. */
void ft_offline_happened(ft_offline *o, ft_offline_event event);

/* The text is at the fallback target: AT_FALLBACK, ASKING or BACK. */
bool ft_offline_here(const ft_offline *o);
/* A server may be asked now. */
bool ft_offline_due(const ft_offline *o, int64_t now_us);

/* AT_FALLBACK: asks this server. If that is not possible, the next one is due later. */
void ft_offline_ask(ft_offline *o, uint32_t server, const ft_link_source *source,
                    const ft_msg_open *open, int64_t now_us);
/* Reads what the server has answered, without waiting. FT_OK: nothing new, or it agrees. Else it
 * has refused, with this code; FT_TIMEOUT: it has not answered for too long. */
FT_WARN_UNUSED ft_status ft_offline_look(ft_offline *o, int64_t now_us, ft_gen_stats *stats,
                                         ft_error *err);
/* Ends the server's session and frees the link, if there is one. stats gets its bytes. */
void ft_offline_drop(ft_offline *o, ft_gen_stats *stats);

#endif
