/* SPDX-License-Identifier: Apache-2.0
 *
 * What the edge does next: speculate, with a tree of how many nodes and how deep, or let the server
 * decode a run of tokens by itself. Pure: what was measured comes in, a choice comes out; no clock,
 * no thread, no engine. The state is plain data: copy it to begin a generation with what others
 * learnt, copy it back when it ends.
 *
 *   choose -> SPECULATE: draft (saw_draft), send, verdict (saw_round) -> choose ...
 *          -> RUN:       send, verdicts (saw_run; saw_shadow if it was asked for) -> choose ...
 */
#ifndef FT_SPEC_CONTROL_H
#define FT_SPEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/busy.h"

#define FT_CONTROL_LEVELS 16 /* of a tree that are told apart; deeper ones are like the last */
#define FT_CONTROL_WIDTHS 6  /* classes of nodes a level: 1, 2, 4, ... */

/* How deep to draft. */
typedef enum ft_depth_rule {
    FT_DEPTH_AUTO, /* PIPELINE while others keep the server busy, else LATENCY */
    /* SpecEdge 4.3: drafting and the network take as long as a verification, or, once it is known,
     * as the server is busy with other sessions (spec/busy.h). */
    FT_DEPTH_PIPELINE,
    FT_DEPTH_LATENCY /* most tokens per time for this session */
} ft_depth_rule;

typedef struct ft_control_opts {
    uint32_t max_budget; /* nodes a tree; 0: runs only */
    uint32_t min_budget; /* no smaller trees where the server allows so many; 0: 1 */
    uint32_t max_depth;  /* levels a tree */
    uint32_t max_width;  /* nodes a level that the drafter can make; 0: 8 */
    ft_depth_rule depth_rule;
    bool no_runs; /* always speculate where there is room for a node */
} ft_control_opts;

/* A straight line through measurements, which follows them. */
typedef struct ft_control_line {
    double x, y, slope; /* the value at x, and its change a unit of x */
    double doubt;       /* variance of the slope, relative to y^2 */
    uint32_t n;         /* measurements, 0: nothing is known */
} ft_control_line;

/* A ratio of what came to what was expected; old counts fade. */
typedef struct ft_control_ratio {
    double came, expected;
} ft_control_ratio;

typedef struct ft_control {
    ft_control_opts opts;
    /* Times in us; 0: not known. */
    ft_control_line draft;  /* of a draft by its forwards */
    ft_control_line verify; /* of a verification by its nodes */
    double forwards; /* a level drafted: below 1 where what is left of old trees serves again */
    double rtt_us, queue_us;
    double queued; /* share of rounds that waited for others */
    bool busy;
    ft_busy others;             /* until when others keep it so */
    double hint_us;             /* the server's word on a token of a run */
    double price;               /* of a row, in others' tokens, as the server says */
    double run_us;              /* a token of a run, as measured... */
    double run_hint_us;         /* ...and what the server said then... */
    ft_control_line run_verify; /* ...and verifications took */
    double round_ref_us;        /* run_us just after the last verification; 0: no run since */
    /* P(a level is missed | the one before was not) = miss * width * level */
    ft_control_ratio recent; /* misses lately, to find out when they change */
    ft_control_ratio miss, width[FT_CONTROL_WIDTHS], level[FT_CONTROL_LEVELS];
    bool warm; /* a tree's verdict came */
    /* The present mode. */
    bool running;                  /* runs */
    uint32_t budget, depth;        /* of the last trees that were not trials */
    uint32_t rounds;               /* in this mode */
    uint32_t trials;               /* of neighbouring trees, so far */
    uint32_t since_run;            /* rounds since a run was measured */
    bool probe_sloped;             /* what the last of these took for possible */
    uint32_t probe_in, probe_step; /* runs until a tree is tried against the estimates */
    double
        loss_us; /* what speculating has cost over runs, forgiven with time: never above a limit */
    double shadow_us; /* drafts that were not sent, forgiven with time */
} ft_control;

/* What the rest of the text and the server allow now. */
typedef struct ft_control_room {
    uint32_t nodes;   /* a tree at most (server's limits and its hint); 0: no drafting now */
    uint32_t depth;   /* levels at most; 0: no drafting now */
    int64_t spent_us; /* since the mark of the last verdict (spec/busy.h); 0: not known */
} ft_control_room;

typedef struct ft_control_choice {
    bool speculate;
    uint32_t budget, depth; /* speculate or shadow: the tree */
    uint32_t run;           /* else: tokens */
    bool shadow; /* with a run: draft such a tree, don't send it, and compare it with what comes */
} ft_control_choice;

typedef struct ft_control_round {
    uint32_t nodes, depth; /* of the tree that was sent: levels it really has */
    uint32_t n_path;       /* nodes accepted */
    int64_t draft_us, wait_us, queue_us, verify_us;
    int64_t rtt_us;         /* a sample, < 0: none */
    int64_t others_us;      /* kept the server busy behind the verdict before; 0: not known */
    uint32_t hint_token_us; /* 0: the server does not say */
} ft_control_round;

/* Nothing is known. */
void ft_control_init(ft_control *control, const ft_control_opts *opts);
/* A new text: what things cost is kept, acceptance counts for little. */
void ft_control_new_text(ft_control *control);

/* Depth by SpecEdge 4.3, the most forwards that with the network take no longer than a
 * verification, within [1, max]. */
uint32_t ft_control_pipeline_depth(double verify_us, double rtt_us, double forward_us,
                                   uint32_t max);

/* The depth by FT_DEPTH_PIPELINE and by what was measured, for who drafts trees of `budget` nodes
 * whatever they cost: max while a time is not known. spent_us: as in ft_control_room. */
uint32_t ft_control_depth_at(ft_control *control, uint32_t budget, uint32_t max, int64_t spent_us);

/* Decides. Counts what it decided: call it once a step. */
ft_control_choice ft_control_choose(ft_control *control, const ft_control_room *room);

/* What a draft forward takes, for all one knows before the first. */
void ft_control_expect_draft(ft_control *control, int64_t forward_us);
/* A draft of `levels` levels took `forwards` forwards (fewer where old nodes served again) and
 * `us`. Shadows too. Ignored where nothing was drafted. */
void ft_control_saw_draft(ft_control *control, uint32_t levels, uint32_t forwards, int64_t us);
/* A verdict on a tree, or on a round without one. */
void ft_control_saw_round(ft_control *control, const ft_control_round *round);
/* `tokens` of a run came within `us`, which hold no network time: counted from the first verdict of
 * the run (its tokens left out), or, if the run was sent ahead, from the last one of the run
 * before. */
void ft_control_saw_run(ft_control *control, uint32_t tokens, int64_t us, uint32_t hint_token_us);
/* Of a tree that was not sent the text that came followed a path of n_path nodes; drafting took
 * us. */
void ft_control_saw_shadow(ft_control *control, uint32_t nodes, uint32_t depth, uint32_t n_path,
                           int64_t us);
/* What a row of the server's passes costs others, in tokens, [0, 1] (sched/price.h): as each
 * verdict says. */
void ft_control_saw_price(ft_control *control, double price);
/* A round-trip time measured elsewhere. */
void ft_control_saw_rtt(ft_control *control, int64_t us);

/* What it believes, for statistics. */
double ft_control_token_us(const ft_control *control);   /* a token of a run; 0: not known */
double ft_control_forward_us(const ft_control *control); /* a draft forward; 0: not known */
/* From a draft's arrival to its verdict, with a tree of so many nodes; 0: not known. */
double ft_control_answer_us(const ft_control *control, uint32_t nodes);

#endif
