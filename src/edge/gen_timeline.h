/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation's part of a timeline (base/timeline.h): what each of its rounds did (SpecEdge,
 * appendix F). Two tracks: what the edge does (reading, drafting, drafting ahead, idle; moments:
 * sent, early draft, verdict, lost), and beside it where the round is meanwhile (network, queue,
 * verification, or a run). The edge measures the network's time as a whole; half of it is drawn on
 * each way. Texts that run at the same time have tracks of their own; later ones use them again.
 *
 * Owned by the generation's thread. Times are arguments, of the edge's clock. Where no timeline was
 * asked for, all calls do nothing. */
#ifndef FT_EDGE_GEN_TIMELINE_H
#define FT_EDGE_GEN_TIMELINE_H

#include "base/known.h"
#include "base/timeline.h"
#include "wire/messages.h"

typedef struct ft_gen_timeline {
    ft_timeline *to;  /* borrowed; NULL: none was asked for */
    uint32_t number;  /* of its two tracks */
    int64_t text;     /* number of the text */
    uint32_t round;   /* the one that is out */
    ft_known_us idle; /* since when the edge waits and does nothing */
    int64_t drawn_us; /* the server's track is drawn until here */
} ft_gen_timeline;

/* A text begins and ends. `to` is borrowed until the end. */
void ft_gen_timeline_begin(ft_gen_timeline *t, ft_timeline *to, uint32_t text);
void ft_gen_timeline_end(ft_gen_timeline *t, int64_t now_us);

/* The draft model has read text. */
void ft_gen_timeline_read(ft_gen_timeline *t, int64_t from_us, int64_t now_us);
/* A tree of so many nodes and levels was drafted for this round, after the draft model's forwards;
 * those that drafted ahead before are not among them. */
typedef struct ft_gen_timeline_draft {
    uint32_t round, nodes, levels, forwards;
} ft_gen_timeline_draft;
void ft_gen_timeline_drafted(ft_gen_timeline *t, int64_t from_us, int64_t now_us,
                             const ft_gen_timeline_draft *draft);
/* A round's draft, or its request of a run, was sent. */
void ft_gen_timeline_sent(ft_gen_timeline *t, int64_t now_us, const ft_msg_draft *draft);
/* While a verdict is awaited: the draft model was at work. ahead: behind the tree that is out. */
void ft_gen_timeline_worked(ft_gen_timeline *t, int64_t from_us, int64_t now_us, bool ahead);
/* There is nothing to do from now on, until one of the other calls. */
void ft_gen_timeline_idle(ft_gen_timeline *t, int64_t now_us);
/* An early draft was sent. */
void ft_gen_timeline_early(ft_gen_timeline *t, int64_t now_us, const ft_msg_draft *early);
/* A verdict came. sent: when its draft was sent; unknown: the round began otherwise, with an early
 * draft, or it is not a run's first. nodes: of its draft; 0: a run. */
void ft_gen_timeline_verdict(ft_gen_timeline *t, int64_t came_us, ft_known_us sent,
                             const ft_msg_verdict *verdict, uint32_t nodes);
/* The stream was lost. */
void ft_gen_timeline_lost(ft_gen_timeline *t, int64_t now_us);

#endif
