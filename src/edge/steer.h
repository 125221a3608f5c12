/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the next round: a tree of drafted tokens, or a run of tokens that the server makes by
 * itself. The controller (spec/control.h) decides; this file gives it what was measured. No clock,
 * no link: times and verdicts are arguments.
 *
 * With a fixed draft (automatic false) every round has a tree if one can be drafted. The controller
 * only chooses the length of runs in the other rounds.
 *
 * A policy sees judged tokens and the rate alone. So under rule `ratio` length and l never depend
 * on what is drawn for the round (spec/rule.h).
 */
#ifndef FT_EDGE_STEER_H
#define FT_EDGE_STEER_H

#include "base/known.h"
#include "learn/policy.h"
#include "spec/control.h"
#include "spec/growth.h"
#include "spec/measured.h"
#include "wire/messages.h"

typedef struct ft_steer_opts {
    ft_draft_params draft; /* limits of a tree; with a fixed draft the tree itself */
    bool automatic;
    bool predictor_if_pays;  /* draft.predictor ends drafts where that was measured to pay */
    const ft_policy *policy; /* as in ft_edge_opts */
    bool drafts;  /* of this text there are some; else the controller chooses runs alone */
    bool at_once; /* they cost no time: with `automatic` the caller asks by offers */
    float asked_tokens_per_s; /* the speed that the text asks a server for; 0: none */
} ft_steer_opts;

/* Where a text's target is. What a verification costs there, and how often it agrees, is learnt
 * apart. */
typedef enum ft_place { FT_PLACE_SERVER, FT_PLACE_FALLBACK, FT_PLACES } ft_place;

/* What was learnt of a place. */
typedef struct ft_steer_learnt {
    ft_control control;
    /* When a draft is deep enough, if its depth rule asks that. */
    ft_depth depth;
    ft_fallback fallback;
    ft_measured predictor; /* with predictor_if_pays */
} ft_steer_learnt;

typedef struct ft_steer {
    ft_steer_opts how;
    ft_place place;        /* of the present round */
    ft_steer_learnt other; /* of the other place */
    ft_control control;    /* what was learnt of this one */
    ft_depth depth;
    ft_fallback fallback;
    ft_measured predictor;
    bool may_fall_back; /* `fallback` may end the last draft that was chosen */
    bool hint_no_trees; /* the server's last message asked for runs */
    /* The choice of the next round, kept while `chosen`. In a run it is made when half of the run
     * has come. */
    bool chosen;
    ft_control_choice choice;
    bool told;         /* a verdict of this text has told the price of rows */
    bool by_policy;    /* the last answer's length and l are a policy's */
    bool by_predictor; /* a predictor may end the last draft that was chosen */
    bool compares;     /* that is being measured */
    struct {
        uint32_t levels;
        int64_t drafted_us; /* time to draft it */
        uint32_t forwards;  /* of the draft model, to draft it */
        double expected;    /* tokens it should bring, with the target's own */
    } tree;                 /* the outstanding tree */
    struct {
        uint32_t tokens;
        int64_t us; /* of the passes that brought them, and of waiting for these */
    } run;          /* the outstanding run, so far as it is not learnt */
} ft_steer;

/* A new text, at a server, starts from what others have learnt. */
void ft_steer_init(ft_steer *s, const ft_steer_opts *opts, const ft_steer_learnt learnt[FT_PLACES]);
/* What is known now. */
void ft_steer_get_learnt(const ft_steer *s, ft_steer_learnt learnt[FT_PLACES]);
/* The text goes on at this place. Nothing changes if it is there already. */
void ft_steer_go(ft_steer *s, ft_place place);

typedef struct ft_steer_ask {
    uint32_t most;     /* tokens by which the text can grow, > 0 */
    uint32_t round;    /* the next one */
    uint32_t max_tree; /* the most nodes that the server takes; 0: no tree can be drafted now */
    const ft_rule_terms *terms; /* of the text's rule */
    double lacks_tok;           /* of what the text should have by its promise; < 0: it has more */
    ft_known_us spent;          /* since the mark of the last verdict (spec/control.h) */
    double early_us; /* by which a round is shorter that begins with an early draft, times the share
                        of rounds for which one is sent */
    /* For the policy: of the text, borrowed; and the uplink's rate, 0: not known. */
    const ft_policy_past *past;
    double uplink_bits_per_s;
} ft_steer_ask;

/* Chooses the next round. Fills *params if it has a tree or wants a shadow. The answer stays the
 * same while `chosen` is set: the caller unsets it when it has acted on the choice. Where drafts
 * carry points, the policy chooses their length and l anew each time; the controller still chooses
 * whether to draft. No allocation. */
ft_control_choice ft_steer_choose(ft_steer *s, const ft_steer_ask *ask, ft_draft_params *params);

/* Chooses the next round where drafts cost no time: what to draft, which the caller does, and then
 * what to do with it. ahead: tokens of the present run that are still to come before it; 0: none,
 * and the choice is acted on. */
void ft_steer_want(ft_steer *s, const ft_steer_ask *ask, uint32_t ahead, ft_draft_params *params);
ft_control_choice ft_steer_take(ft_steer *s, const ft_steer_ask *ask, uint32_t ahead,
                                const ft_tree *tree);

/* Learns the cost of a draft. cold: the text's first draft, whose cold caches distort the time. */
void ft_steer_drafted(ft_steer *s, const ft_tree *tree, uint32_t forwards, int64_t us, bool cold);

/* Learns from Opened and any verdict about the server. Call it before the functions below. */
void ft_steer_heard(ft_steer *s, const ft_msg_hints *hints);

typedef struct ft_steer_times {
    ft_known_us round; /* from the draft's sending to the verdict */
    ft_known_us rtt;   /* the network's part of it */
} ft_steer_times;

/* Learns from a verdict on a tree of so many nodes. */
void ft_steer_saw_tree(ft_steer *s, const ft_msg_verdict *verdict, uint32_t nodes,
                       const ft_steer_times *times);
/* Learns from a verdict on this tree whether drafts were sent too late or too early. */
void ft_steer_saw_path(ft_steer *s, const ft_tree *tree, const ft_msg_verdict *verdict);
/* Learns from a verdict of a run, by the server's own times: what an edge sees between two verdicts
 * has its own scheduler's and the network's noise in it. */
void ft_steer_saw_run(ft_steer *s, const ft_msg_verdict *verdict, const ft_steer_times *times);
/* Learns from a shadow that the text has left, or gone through: `path` of its nodes were text. */
void ft_steer_saw_shadow(ft_steer *s, const ft_tree *shadow, uint32_t path, int64_t took_us);

#endif
