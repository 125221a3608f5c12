/* SPDX-License-Identifier: Apache-2.0
 *
 * The state machine of a session's round: states, events, and the table of transitions. It uses no
 * engine, no clock and no session. The engine thread owns a round.
 *
 * A round is one of three kinds:
 *   tree    the edge's draft is a tree; one verdict answers it
 *   early   the draft is also a tree, but it was part of an early draft that the server had kept
 *   run     the server decodes by itself, one verdict a pass, until the run has the asked length
 *
 * Arrows name functions of drafts.c: "take" is ft_draft_take, "answered" is ft_draft_answered:
 *
 *          take: a tree          take: an early draft
 *   NONE ----------------> TREE ----------------------> TREE_EARLY
 *    |                                                     | answered: the early draft fits
 *    |                                                     v    take: an early draft
 *    |                                                   EARLY <---------------------> EARLY_EARLY
 *    |                                                           answered: it fits
 *    |     take: a run           take: the next run
 *    \-------------------> RUN <--------------------> RUN_NEXT
 *                        |   ^   answered: all of it   |   ^
 *                        \---/                         \---/   answered: a part of the run
 *
 *   any round --answered: all of it, and no kept draft becomes the next round--> NONE
 *   any round --answered: the text has ended--> ENDED, for good
 *   any round --ft_draft_withdraw--> NONE
 */
#ifndef FT_SERVE_ROUND_STATE_H
#define FT_SERVE_ROUND_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/messages.h"

typedef enum ft_round_state {
    FT_ROUND_NONE,        /* no round is under way */
    FT_ROUND_TREE,        /* a tree waits for its verdict */
    FT_ROUND_TREE_EARLY,  /* a tree waits for its verdict, and an early draft is kept */
    FT_ROUND_EARLY,       /* a tree that began as part of an early draft waits for its verdict */
    FT_ROUND_EARLY_EARLY, /* as FT_ROUND_EARLY, and another early draft is kept */
    FT_ROUND_RUN,         /* a run waits for its next verdict */
    FT_ROUND_RUN_NEXT,    /* as FT_ROUND_RUN, and the next run was already asked for */
    FT_ROUND_ENDED,       /* the text has ended: there are no more rounds */
    FT_ROUND_STATES
} ft_round_state;

typedef enum ft_round_event {
    FT_ROUND_ON_TREE,     /* a draft with a tree */
    FT_ROUND_ON_RUN,      /* a draft that asks for a run */
    FT_ROUND_ON_NEXT_RUN, /* a draft that asks for the next run while a run is under way */
    FT_ROUND_ON_EARLY,    /* an early draft */
    FT_ROUND_ON_REPEAT,   /* the recorded round is asked for again */
    FT_ROUND_ON_PART,     /* a verdict answers a part of the run */
    FT_ROUND_ON_VERDICT,  /* a verdict answers all of the round; no kept early draft fits it */
    FT_ROUND_ON_FIT,      /* as ON_VERDICT, but the kept early draft has the next round's tree */
    FT_ROUND_ON_END,      /* a verdict ends the text */
    FT_ROUND_ON_WITHDRAW, /* the edge has lost its stream */
    FT_ROUND_EVENTS
} ft_round_event;

/* What an event did, or why it is not allowed. */
typedef enum ft_round_did {
    FT_ROUND_IMPOSSIBLE, /* a defect of the server */
    FT_ROUND_BEGAN,      /* a round has begun */
    FT_ROUND_KEPT,       /* the draft is kept until the round is answered */
    FT_ROUND_DROPPED,    /* the draft came too late and was dropped, which is no error */
    FT_ROUND_REPEATED,   /* the state is unchanged; the record answers */
    FT_ROUND_WENT_ON,    /* the same round is still under way */
    FT_ROUND_CLOSED,     /* no round is under way any more */
    /* Errors of the edge. The state stays as it was. */
    FT_ROUND_BUSY,  /* a round is under way */
    FT_ROUND_TWICE, /* this round has had an early draft */
    FT_ROUND_OVER   /* the text has ended */
} ft_round_did;

/* The nodes of a tree. Borrows the arrays. */
typedef struct ft_nodes {
    uint32_t n;
    const int32_t *token, *parent; /* [n]; not read where n is 0 */
} ft_nodes;

/* The drafts that left the edge together with a round's draft (wire: Draft.together). */
typedef struct ft_round_joint {
    uint32_t together; /* how many, this one among them; 0: it was sent alone */
    uint32_t batch;    /* their number */
    uint32_t taken;    /* of them, in the pass that has just been computed */
} ft_round_joint;

/* Rounds are numbered from 1; the number 0 means that there was no round yet. A field whose comment
 * names no state describes the round under way. It keeps its value when that round is over. */
typedef struct ft_round {
    ft_round_state state;
    uint32_t number;
    uint32_t base;        /* length of the text that its draft extends */
    uint32_t end;         /* a run: the text's length when the run is over; others: base */
    uint32_t n_drafted;   /* nodes of the edge's draft, which early drafts may extend */
    uint32_t next_run;    /* RUN_NEXT: tokens of the next run */
    ft_round_joint joint; /* of its draft */
    uint32_t early_for;   /* the round for which the stream's last early draft was sent */
    ft_nodes nodes;       /* the nodes to verify: the draft's; in a run the server's own tree */
    ft_client_msg *draft; /* owned; tree and early: holds `nodes`. NULL in other states */
    ft_client_msg *early; /* owned; TREE_EARLY, EARLY_EARLY: the kept draft. NULL in others */
} ft_round;

/* What the event would do in the round's state. Changes nothing. */
ft_round_did ft_round_would(const ft_round *round, ft_round_event event);
/* Goes to the next state according to the table. The caller then sets the other fields and calls
 * ft_round_check. An event that is not allowed changes nothing. */
ft_round_did ft_round_step(ft_round *round, ft_round_event event);

/* Whether a round is under way; whether it is a run. */
static inline bool ft_round_waits(const ft_round *round)
{
    return round->state != FT_ROUND_NONE && round->state != FT_ROUND_ENDED;
}
static inline bool ft_round_is_run(const ft_round *round)
{
    return round->state == FT_ROUND_RUN || round->state == FT_ROUND_RUN_NEXT;
}

/* Sets the fields of a round whose state has just become TREE, EARLY or RUN. The caller sets
 * n_drafted of a run. end: `base` for a tree. take_draft: replaces the old draft; NULL: a run. */
void ft_round_begin(ft_round *round, uint32_t number, uint32_t base, uint32_t end,
                    ft_client_msg *take_draft);
/* Frees the drafts that the state does not keep; called after a step that ends a round. */
void ft_round_settle(ft_round *round);

/* Debug builds: asserts that the fields fit the state. */
void ft_round_check(const ft_round *round);

#endif
