/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides what the edge does next: speculate with a tree, of how many nodes and how deep, or let
 * the server decode a run of tokens by itself. Pure: measurements come in, a choice comes out; no
 * clock, no thread, no engine. The state is plain data: a generation starts from a copy of what
 * others learnt, and its own is copied back when it ends.
 *
 * Times between rounds count from the *mark* of a verdict: when its draft was sent, plus queue,
 * plus verification. So a draft that is sent X after the mark arrives X after the verdict was
 * given.
 *
 *   choose -> SPECULATE: draft (saw_draft), send, verdict (saw_round) -> choose ...
 *          -> RUN:       send, verdicts (saw_run; saw_shadow if it was asked for) -> choose ...
 */
#ifndef FT_SPEC_CONTROL_H
#define FT_SPEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* How deep to draft. */
typedef enum ft_depth_rule {
    FT_DEPTH_AUTO, /* LATENCY if the controller decides, else the depth that was asked for */
    /* SpecEdge 4.3: drafting and the network take as long as a verification, or as long as the
     * server is busy with other sessions. The edge drafts on while that brings more tokens per
     * time, and ends sooner if rows cost more than they bring. Where the network and one forward
     * take longer, the depth is free. */
    FT_DEPTH_PIPELINE,
    FT_DEPTH_LATENCY, /* the most tokens per time for this session */
    FT_DEPTH_FALLBACK /* until a draft is in doubt (spec/fallback.h) */
} ft_depth_rule;

typedef struct ft_control_opts {
    uint32_t max_budget; /* nodes a tree; 0: runs only */
    uint32_t max_depth;  /* levels a tree */
    uint32_t max_width;  /* nodes a level */
    ft_depth_rule depth_rule;
} ft_control_opts;

/* A straight line that follows measurements. */
typedef struct ft_control_line {
    double x, y, slope; /* the value at x, and its change a unit of x */
    double doubt;       /* variance of the slope, relative to y^2 */
    uint32_t n;         /* measurements, 0: nothing is known */
    bool far;           /* the last one was far from what was expected */
} ft_control_line;

typedef struct ft_control {
    ft_control_opts opts;
    /* What is known. Times in us; 0: not known. */
    ft_control_line draft;  /* time of a draft by its forwards */
    ft_control_line verify; /* time of a verification by its nodes */
    double forwards;        /* a level; below 1 if nodes of old trees are used again */
    double rtt_us, queue_us;
    double others_us;     /* for so long after a mark others keep the server busy; 0: they do not */
    double others_off_us; /* mean deviation of others_us */
    uint32_t alone;       /* rounds in a row in which others did not keep the server busy */
    double price;         /* of a row, in others' tokens, as the server says */
    double hint_us;       /* a token of a run, as the server says */
    double run_us;        /* a token of a run, as measured */
    bool run_far;         /* as in ft_control_line */
    double run_hint_us;   /* hint_us at that time */
    double verify_token_us;     /* run_us after the first run behind the last tree */
    ft_control_line run_verify; /* `verify` after the first tree behind the last run */
    bool warm;                  /* a tree's verdict came */
    /* P(a level is missed | the one before was not), of trees with one node a level:
     * missed / levels. Old counts fade. */
    double missed, levels;
    /* Trees that were sent, and shadows: their number and sums. Old ones fade. */
    struct {
        double n, nodes, levels, path;
    } trees;
    /* The present mode. */
    bool running;           /* runs, not trees */
    uint32_t budget, depth; /* of the best tree */
    bool probe_sloped;      /* what the last probe assumed */
    uint32_t must_tried;    /* trees that were tried because runs are slower than promised */
    /* Time of shadows, and time that probes were expected to lose, less the share that is
     * allowed; and all time so far. */
    double shadow_us, probe_us, past_us;
    /* As of the last choice with depth rule pipeline: the network and one forward take longer than
     * the server is busy meanwhile. So it waits for every draft, and 4.3 has no answer. */
    bool waits;
} ft_control;

/* What the rest of the text and the server allow now. */
typedef struct ft_control_room {
    uint32_t nodes;   /* a tree at most (server's limits and its hint); 0: no drafting now */
    uint32_t depth;   /* levels at most; 0: no drafting now */
    int64_t spent_us; /* since the mark of the last verdict; 0: not known */
    /* A token of the text may take so long by the speed that was asked for; 0: none was. Slower
     * runs are not chosen, unless some trees were tried and look much slower still.
     * ft_control_choose alone looks at it. */
    double promised_us;
} ft_control_room;

typedef struct ft_control_choice {
    bool speculate;
    uint32_t budget, depth; /* of the tree, or of the shadow */
    uint32_t run;           /* without a tree: tokens */
    bool shadow; /* draft a tree during the run, do not send it, and compare it with what comes */
} ft_control_choice;

/* A tree that took no time to draft, and that need not be sent. */
typedef struct ft_control_offer {
    uint32_t nodes;
    double tokens; /* expected from a round with it, the target's own included */
    bool final;    /* the choice is acted on; else it is about whether to ask for another run now */
} ft_control_offer;

typedef struct ft_control_round {
    /* Of the tree that was sent. depth: levels it really has; 0: they tell nothing of other
     * trees. */
    uint32_t nodes, depth;
    uint32_t n_path; /* nodes accepted */
    int64_t draft_us, wait_us, queue_us, verify_us;
    int64_t rtt_us;    /* a sample, < 0: none */
    int64_t others_us; /* the server worked for others after the verdict before; 0: not known */
    uint32_t hint_token_us; /* 0: the server does not say */
} ft_control_round;

/* Nothing is known. */
void ft_control_init(ft_control *control, const ft_control_opts *opts);

/* The depth by SpecEdge 4.3, within [1, max]: the most forwards that take, with the network, no
 * longer than a verification. */
uint32_t ft_control_pipeline_depth(double verify_us, double rtt_us, double forward_us,
                                   uint32_t max);

/* The depth by SpecEdge 4.3 for trees that always have `budget` nodes: max while a time is not
 * known. spent_us: as in ft_control_room. */
uint32_t ft_control_depth_at(ft_control *control, uint32_t budget, uint32_t max, int64_t spent_us);

/* Decides. Counts what it decided: call it once a round. */
ft_control_choice ft_control_choose(ft_control *control, const ft_control_room *room);
/* The same where drafts cost no time: whether this tree pays. A run measures first what a token of
 * it takes. Against the estimates a tree is sent now and then, as its nodes may cost less. */
ft_control_choice ft_control_take(ft_control *control, const ft_control_offer *offer);
/* A node that the text goes through with a lower chance is not worth its row in such a tree. */
double ft_control_least_chance(const ft_control *control);

/* Whether the present tree takes so long to draft that drafting ahead of a verdict can pay on a
 * processor that the target needs, too. */
bool ft_control_drafts_long(const ft_control *control);

/* The time of a draft forward, before any was measured. */
void ft_control_expect_draft(ft_control *control, int64_t forward_us);
/* The time of a verification without nodes, and what a node adds, before any was measured: of an
 * engine in this process. 0: not known. Without the first one the first tokens come by a run, which
 * measures it. */
void ft_control_expect_verify(ft_control *control, int64_t us, int64_t node_us);
/* A draft, or a shadow, of `levels` levels took `forwards` forwards and `us`. Ignored if nothing
 * was drafted. */
void ft_control_saw_draft(ft_control *control, uint32_t levels, uint32_t forwards, int64_t us);
/* A verdict on a tree, or on a round without one. */
void ft_control_saw_round(ft_control *control, const ft_control_round *round);
/* `tokens` of a run took `us`, by the times that the server gives with them: of its passes, and of
 * waiting for these. No network is in it. */
void ft_control_saw_run(ft_control *control, uint32_t tokens, int64_t us, uint32_t hint_token_us);
/* The text went through n_path nodes of a shadow, which took us to draft. */
void ft_control_saw_shadow(ft_control *control, uint32_t nodes, uint32_t depth, uint32_t n_path,
                           int64_t us);
/* The price of a row in a pass, in tokens of others, [0, 1] (sched/price.h): from each verdict. */
void ft_control_saw_price(ft_control *control, double price);
/* A token of a run, as the server says with any answer, also with a verdict whose times tell
 * nothing, as after reading a prompt. 0: it does not say. Only the first one counts: later ones are
 * those of rounds. It does not count where only a warm-up has told what passes take. */
void ft_control_saw_hint(ft_control *control, uint32_t token_us);
/* A round-trip time was measured elsewhere. */
void ft_control_saw_rtt(ft_control *control, int64_t us);

/* What it knows. */
double ft_control_token_us(const ft_control *control);   /* a token of a run; 0: not known */
double ft_control_forward_us(const ft_control *control); /* a draft forward; 0: not known */
double ft_control_row_us(const ft_control *control); /* a node in a verification; 0: not known */
/* For so long after a mark a draft may take: others keep the server busy for a little longer; 0:
 * they do not. */
double ft_control_busy_us(const ft_control *control);
/* From a draft's arrival to its verdict, with a tree of so many nodes; 0: not known. */
double ft_control_answer_us(const ft_control *control, uint32_t nodes);

#endif
