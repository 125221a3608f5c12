/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: a text, its KV and the round that is under way. A session outlives its client's handle
 * (serve/handle.h): the handle ends when the stream is lost. The engine thread owns sessions.
 *
 * The state of a session follows from its fields (ft_sess_state):
 *
 *   ENDED     the text has ended; the session holds no KV
 *   DETACHED  the session has no handle and no work
 *   WAITING   a round is under way (round_state.h); tokens may be missing in KV, because they are
 *             not computed yet or were evicted
 *   PREFILL   no round is under way; the server already computes the missing KV
 *   IDLE      all other cases; the session's KV may be evicted for any work
 *
 *            ft_sess_open             ft_draft_take               ft_verdict_give
 *   (none) --------------> PREFILL --------------------> WAITING --------------------> ENDED
 *                             | ft_verdict_give:          |   ^
 *                             v KV has all of the text    |   | ft_draft_take
 *                           IDLE <------------------------/   |
 *                             |          ft_verdict_give      |
 *                             \-------------------------------/
 *
 *   any state --ft_sess_detach--> DETACHED --ft_sess_open: resume--> PREFILL, IDLE or ENDED
 *
 * An idle session uses memory for this struct, the text's array and the engine's sequence. Drafts,
 * trees and verdicts are held only while a round is under way.
 */
#ifndef FT_SERVE_SESSION_H
#define FT_SERVE_SESSION_H

#include <stdbool.h>

#include "base/known.h"
#include "engine/engine.h"
#include "sched/await.h"
#include "sched/gain.h"
#include "serve/handle.h"
#include "serve/record.h"
#include "serve/round_state.h"
#include "serve/rules.h"
#include "serve/text.h"
#include "spec/sampling.h"

typedef struct ft_verifier ft_verifier;
typedef struct ft_own_sess ft_own_sess; /* own_draft.c */
typedef struct ft_tenant ft_tenant;     /* slo.c: a credential with open sessions */

typedef enum ft_sess_state {
    FT_SESS_ENDED,
    FT_SESS_DETACHED,
    FT_SESS_WAITING,
    FT_SESS_PREFILL,
    FT_SESS_IDLE
} ft_sess_state;

/* The session's identity and its owner. */
typedef struct ft_sess_who {
    uint64_t serial;     /* its number in logs */
    ft_client_id client; /* who opened it, and has its place */
    ft_session_id id, secret;
    bool has_nonce;
    ft_session_id nonce; /* of the Open that made it */
    ft_key key;          /* a copy, taken when the session was opened; empty: no key */
    ft_tenant *tenant;   /* it has the credential */
} ft_sess_who;

/* What the client asked for. */
typedef struct ft_sess_asked {
    ft_sampling sampling;
    ft_penalties penalties; /* sampling.penalties, if there are any */
    ft_matcher *matcher;    /* sampling.matcher, owned; NULL: no constraint */
    ft_sess_rule rule;
    uint32_t n_top;             /* top_logprobs */
    bool no_drafts;             /* the server drafts nothing for it */
    ft_token_logprob *logprobs; /* [max_tree + 1], of the last verdict; NULL: not asked for */
} ft_sess_asked;

/* The session's KV. */
typedef struct ft_sess_kv {
    ft_seq *seq;
    bool want;         /* compute missing KV even without a round, if it is behind */
    bool counted;      /* since the KV was last empty, its prefix-cache lookup was counted */
    int64_t spent_us;  /* time of passes that computed missing KV, since it was whole or empty */
    uint32_t read_tok; /* missing tokens that were computed since the last verdict, */
    int64_t read_us;   /* and their share of the time of those passes */
    int64_t turn_us;   /* the end of the session's turn (sched/evict.h) */
    bool next;         /* it computes its missing KV because it was next (ft_evict_next) */
} ft_sess_kv;

/* Times on the verifier's clock. */
typedef struct ft_sess_times {
    int64_t draft_us;     /* since when the round, or the run's next pass, could be computed */
    int64_t waits_us;     /* since when it waits for the engine; gives the order of service */
    int64_t used_us;      /* the last verdict or message */
    int64_t detached_us;  /* valid only while detached */
    ft_known_us answered; /* the last verdict */
    ft_away away;         /* from verdicts to the next drafts */
    ft_known_us rested;   /* when the engine first had nothing to do after that verdict */
} ft_sess_times;

/* The session's promise and the gain of its rounds (slo.c). */
typedef struct ft_sess_slo {
    uint32_t class; /* FT_SLO_NONE: no promise */
    ft_gain gain;   /* of its rounds */
    /* With a promise, while a round is under way: */
    int64_t due_us;    /* when its verdict is due */
    int64_t owed_us;   /* when the promised speed requires more text */
    int64_t budget_us; /* when the verdict is due by its round alone (WISP eq. (6)) */
    /* With a promise: */
    int64_t asked_us;   /* when its Open came */
    uint32_t open_len;  /* the text's length then */
    ft_known_us first;  /* the first verdict */
    uint32_t first_len; /* if `first` is known: the text's length after that verdict */
} ft_sess_slo;

struct ft_sess {
    ft_verifier *verifier;
    ft_sess *prev, *next;
    ft_vsession *handle; /* NULL: detached */
    ft_sess_who who;
    ft_sess_asked asked;
    ft_sess_text text;
    ft_sess_kv kv;
    ft_round round;
    ft_sess_record record;
    ft_sess_times times;
    ft_sess_slo slo;
    ft_own_sess *own; /* NULL: the server drafts nothing for it */
};

/* All sessions of a verifier. */
typedef struct ft_sess_list {
    ft_sess *first, *last; /* oldest first */
    uint64_t next_serial;
} ft_sess_list;

/* The session's present state. */
ft_sess_state ft_sess_state_of(const ft_sess *s);
/* How many of the text's tokens are missing in KV, the last token not counted. */
uint32_t ft_sess_missing(const ft_sess *s);
/* Whether so much KV is missing that it is computed ahead of the next round. Less than a block is
 * computed in the pass of the round. So a session with a short prompt and no round costs nothing.
 */
bool ft_sess_is_behind(const ft_sess *s);
/* Appends the session to the list. */
void ft_sess_link(ft_sess_list *list, ft_sess *s);
/* Removes the session from the list. */
void ft_sess_unlink(ft_sess_list *list, ft_sess *s);

/* Asserts the invariants in debug builds. */
void ft_sess_check(const ft_sess *s);

#endif
