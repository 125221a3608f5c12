/* SPDX-License-Identifier: Apache-2.0
 *
 * The draft model's side of one generation: its drafter, the outstanding tree, and a shadow tree. A
 * failure here ends drafting, for some time or for good, and never the generation.
 *
 *              begin                 read_piece, read_all: all is read
 *     OFF ------------> READING ------------------------------------> ON
 *      ^                ^     |                                        |
 *      |                |     +------------ give_up: pool full --+-----+
 *      |          begin |                                        v
 *      |                +-------- after retry_in verdicts ---- LATER
 *      |
 *      +-- ft_drafting_stop, from any: error, cancelled, the draft's context is full, the end
 *
 * In a run the drafter does not read every new token at once. It reads when many tokens are new,
 * when a shadow is wanted, or before a tree.
 */
#ifndef FT_EDGE_DRAFTING_H
#define FT_EDGE_DRAFTING_H

#include "base/clock.h"
#include "base/progress.h"
#include "edge/engine_lock.h"
#include "edge/stats.h"
#include "engine/engine.h"
#include "model/vocab.h"
#include "spec/drafter.h"
#include "spec/forced.h"
#include "spec/lookup.h"
#include "wire/messages.h"

typedef enum ft_drafting_state {
    FT_DRAFTING_OFF,     /* no drafter; after ON there is none again in this generation */
    FT_DRAFTING_READING, /* the drafter reads the text, in pieces */
    FT_DRAFTING_ON,      /* the drafter has read the text, except perhaps its last tokens */
    FT_DRAFTING_LATER,   /* no drafter: one is made after retry_in verdicts */
    FT_DRAFTING_N_STATES,
    FT_DRAFTING_ILLEGAL = FT_DRAFTING_N_STATES
} ft_drafting_state;

typedef enum ft_drafting_event {
    FT_DRAFTING_BEGIN, /* a drafter was made and must read the text */
    FT_DRAFTING_READ,  /* it has read the text */
    FT_DRAFTING_FULL,  /* the pool has no room, or another drafter is needed */
    FT_DRAFTING_STOP,
    FT_DRAFTING_N_EVENTS
} ft_drafting_event;

/* The state after an event; FT_DRAFTING_ILLEGAL where the event cannot come. */
ft_drafting_state ft_drafting_next(ft_drafting_state state, ft_drafting_event event);

/* The result of one piece of work while a verdict is awaited. */
typedef enum ft_idle {
    FT_IDLE_DONE,  /* there is nothing to do */
    FT_IDLE_MORE,  /* a piece was done: call again */
    FT_IDLE_LOCKED /* there is work, but another generation has locked the draft engine */
} ft_idle;

/* The cost of a draft. */
typedef struct ft_draft_cost {
    uint32_t forwards; /* of the draft model; 0 if all nodes were there already */
    int64_t us;
} ft_draft_cost;

/* A tree that is not sent. It is compared with the tokens of a run, to learn how many of a tree's
 * nodes would be accepted. */
typedef struct ft_shadow {
    enum { FT_SHADOW_NONE, FT_SHADOW_WANTED, FT_SHADOW_OUT } state;
    ft_draft_params params; /* WANTED: to draft it with while the run goes on */
    ft_tree tree;           /* OUT */
    int32_t at;             /* OUT: the node that the text has reached, -1: the root */
    uint32_t path;          /* OUT: nodes on the way there */
    ft_draft_cost cost;     /* OUT */
} ft_shadow;

/* Where an edge's drafts come from. What no lock guards does not change. */
typedef struct ft_draft_origin {
    ft_engine *engine;  /* of the draft model, under `lock`, or NULL */
    ft_rule_work *work; /* with an engine: of all its drafters, under `lock` */
    ft_engine_lock lock;
    ft_draft_source_factory factory; /* used if there is no engine */
    uint32_t n_ctx;         /* the longest text for which the model can draft; 0: there is none */
    uint64_t fingerprint;   /* of the draft model; 0: not known */
    ft_spellings spellings; /* of forced text */
} ft_draft_origin;

typedef struct ft_drafting_opts {
    ft_draft_origin *from; /* borrowed */
    bool model;            /* it drafts */
    ft_lookup_opts lookup; /* n_ctx = 0: the text's n-grams do not. Its prediction is borrowed */
    ft_forced_opts forced; /* n_ctx = 0: what a constraint forces does not */
    ft_clock clock;
    const ft_rule *rule;
    const ft_sampling *sampling;
    const ft_tokens *text;      /* borrowed; its tokens never change, it only grows */
    ft_calibration calibration; /* to start from */
    /* Called between pieces of reading: true ends drafting. */
    bool (*cancelled)(void *ctx);
    void *ctx;
    const ft_progress *progress; /* of reading the prompt, in tokens */
    ft_gen_stats *stats;         /* borrowed; gets the drafters' counts */
} ft_drafting_opts;

typedef struct ft_drafting {
    ft_drafting_opts how;
    ft_drafting_state state;
    ft_drafter *drafter;    /* NULL in OFF and LATER */
    uint32_t known;         /* tokens of the text that the drafter was told */
    ft_tree tree;           /* the outstanding tree; n = 0: none, or another drafter made it */
    ft_draft_params params; /* of this tree */
    bool exhausted;         /* proactive drafting has nothing left to do for this tree */
    ft_shadow shadow;
    uint32_t retry_in, retry_step; /* in verdicts: until the next try; from it to the one after */
    ft_calibration calibration;    /* as the last drafter left it */
} ft_drafting;

/* Whether anything drafts; whether that takes no time. */
bool ft_drafting_can(const ft_drafting_opts *how);
bool ft_drafting_at_once(const ft_drafting_opts *how);

/* OFF; nothing is computed yet. */
void ft_drafting_init(ft_drafting *d, const ft_drafting_opts *opts);
/* Makes a drafter that reads the text, unless there is no room or the sink cancels. */
void ft_drafting_start(ft_drafting *d);
/* From now on drafts follow this rule. A new drafter is made while a verdict is awaited. */
void ft_drafting_set_rule(ft_drafting *d, const ft_rule *rule);
/* Frees the drafter. */
void ft_drafting_stop(ft_drafting *d);
/* Forwards of the draft model so far, of the present drafter. */
uint64_t ft_drafting_forwards(const ft_drafting *d);
/* Whether a draft can be made now. */
bool ft_drafting_ready(ft_drafting *d);
/* Asserts the invariants. */
void ft_drafting_check(const ft_drafting *d);

/* A text of several of one edge that are drafted for at once. */
typedef struct ft_joint_draft {
    ft_drafting *drafting;
    ft_draft_params params;
    ft_draft_cost cost; /* out; its time is that of all drafts */
} ft_joint_draft;

/* Drafts the `tree` of n of them, FT_DRAFT_BATCH at most; the n of a tree is 0 on failure. A
 * forward computes a level of all trees. Each tree is the one that its text would get alone. */
void ft_drafting_draft(ft_joint_draft *joint, size_t n);
/* Call when the text has grown by the verdict's path and next. */
void ft_drafting_advance(ft_drafting *d, const ft_msg_verdict *verdict);
/* The verdict took `nodes` nodes of the early draft. They become d->tree if this drafter made
 * them. */
void ft_drafting_take_early(ft_drafting *d, uint32_t nodes);

/* Drafts a tree behind the text as it is now, which is not sent. Of use where drafts cost no time:
 * the same tree can be drafted again. False: there is no node. */
bool ft_drafting_look(ft_drafting *d, const ft_draft_params *params, ft_tree *tree);

/* The tokens that the draft model expects behind the text while a tree is out; 0: none. */
uint32_t ft_drafting_likeliest(const ft_drafting *d, int32_t *token, uint32_t most);

/* Asks for a shadow, which ft_drafting_idle will draft; nothing if one is out. */
void ft_drafting_want_shadow(ft_drafting *d, const ft_draft_params *params);
/* Drafts the wanted shadow at once. */
void ft_drafting_draft_shadow(ft_drafting *d);
/* The text has grown by `token`. True: the text has left the shadow or reached its end; *over is
 * the shadow, with the path that the text took. */
bool ft_drafting_walk_shadow(ft_drafting *d, int32_t token, ft_shadow *over);

/* Work while a verdict is awaited, at most one draft forward a call. In READING it reads a piece of
 * the text and waits for the lock, as nothing can be drafted before; in LATER it tries to begin. In
 * ON it drafts proactively if a tree is out. Otherwise it reads new text and drafts the wanted
 * shadow. */
ft_idle ft_drafting_idle(ft_drafting *d);

#endif
