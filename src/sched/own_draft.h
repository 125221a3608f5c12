/* SPDX-License-Identifier: Apache-2.0
 *
 * For a server with its own draft model: decides whether to draft for the runs of the next pass,
 * how much, and which of the drafted nodes are worth a row of the target's pass. Pure; no clock.
 * State is plain data, all-zero at first.
 *
 *   choose -> drafting: saw_draft, keep, then saw_verdict for each tree -> choose ...
 *          -> not -> choose ...
 */
#ifndef FT_SCHED_OWN_DRAFT_H
#define FT_SCHED_OWN_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/cost.h"

#define FT_OWN_CLASSES 12 /* of how many sessions are drafted for: 1, 2-3, 4-7, ... */
#define FT_OWN_LEVELS  32 /* of a tree that are told apart */

/* What the next pass would be. The cost model's times; 0: not known. */
typedef struct ft_own_load {
    uint32_t sessions; /* to draft for, > 0 */
    double others;     /* tokens that the pass brings other sessions in any case */
    int64_t plain_us;  /* of the pass with one row of each of them */
    int64_t tree_us;   /* of the pass with a tree of each of them */
} ft_own_load;

typedef struct ft_own_draft {
    double tokens;                   /* of a verdict on a tree of ours, smoothed */
    double draft_us[FT_OWN_CLASSES]; /* of drafting for so many sessions, smoothed */
    uint32_t n_verdicts, n_drafts[FT_OWN_CLASSES];
    /* What such passes took over what the cost model said, smoothed: without trees, and with. It is
     * straight, and one row may be dearer or cheaper than its line. */
    double off[2][FT_OWN_CLASSES];
    uint32_t n_passes[2][FT_OWN_CLASSES];
    bool on;         /* what pays by the estimates, as of the last choice */
    bool probing;    /* a draft against the estimates is under way */
    uint32_t wait;   /* choices between probes */
    uint32_t since;  /* choices since it last went against the estimates */
    double token_us; /* of a run, as of the last choice; 0: not known */
    /* How much. 0: nothing was kept yet. */
    double nodes;                /* kept of a session's tree, smoothed */
    uint32_t depth;              /* levels that are drafted */
    double level[FT_OWN_LEVELS]; /* tokens expected of a session's nodes kept there, smoothed */
    double came, expected;       /* accepted nodes, and the sum of their chances; old ones fade */
} ft_own_draft;

/* A drafted node. */
typedef struct ft_own_node {
    float p;        /* the chance that it is accepted, as the drafter believes */
    uint16_t level; /* 0: roots */
} ft_own_node;

/* The pass that nodes may join. */
typedef struct ft_own_pass {
    uint32_t sessions;   /* whose nodes they are */
    double others;       /* tokens that it brings other sessions in any case */
    ft_pass without;     /* its shape without any of the nodes */
    uint32_t n_past;     /* of a session, about */
    double out;          /* rows with logits a node, about */
    int64_t draft_us;    /* what drafting took */
    uint32_t depth_most; /* levels that may be drafted */
    const ft_cost *cost; /* borrowed */
} ft_own_pass;

/* What to ask of the drafter, of what it may do at most. */
void ft_own_draft_size(const ft_own_draft *own, uint32_t *budget, uint32_t *depth);
/* How many of the nodes, of all sessions and best first, to keep: those that bring most tokens a
 * time, T_draft + T_pass over all of them. Learns from that how many levels to draft next time. */
uint32_t ft_own_draft_keep(ft_own_draft *own, const ft_own_node *nodes, uint32_t n,
                           const ft_own_pass *pass);
/* Whether to draft. Counts: call it once a pass. */
bool ft_own_draft_choose(ft_own_draft *own, const ft_own_load *load);
/* A pass with so many sessions in runs, with trees of ours or without, took `us`. */
void ft_own_draft_saw_pass(ft_own_draft *own, uint32_t sessions, bool trees, int64_t expected_us,
                           int64_t us);
/* Drafting for so many sessions took `us`. */
void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us);
/* A tree whose nodes' chances summed to `expected` brought so many tokens, the target's own
 * included. */
void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens, double expected);

/* Nodes that a session's tree is expected to keep, of a budget. */
uint32_t ft_own_draft_nodes(const ft_own_draft *own, uint32_t budget);
/* Tokens that a verdict on an edge's tree brings on average: eq. (5) over all rounds so far. */
double ft_own_draft_edge_tok(uint64_t accepted, uint64_t rounds);

/* Prompts must be read by the draft model, too, before it can draft behind them. */
#define FT_OWN_READ_MIN 16 /* tokens, a KV block: fewer are left to the draft's first forward */
typedef struct ft_own_read {
    bool known;
    double tok_us; /* mean of recent readings */
} ft_own_read;

/* Tokens to read before a pass that this may delay by budget_us (0: by any time): from
 * FT_OWN_READ_MIN to `most`. prompts: the target has prompts to compute in that time, too. */
uint32_t ft_own_read_tok(const ft_own_read *read, int64_t budget_us, bool prompts, uint32_t most);
/* Reading n tokens took `us`. */
void ft_own_read_saw(ft_own_read *read, uint32_t n, int64_t us);

#endif
