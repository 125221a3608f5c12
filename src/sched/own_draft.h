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

#include "base/known.h"
#include "sched/cost.h"

#define FT_OWN_CLASSES 12 /* of how many sessions are drafted for: 1, 2-3, 4-7, ... */
#define FT_OWN_LEVELS  32 /* of a tree that are told apart */

/* What the next pass would be. Times as the cost model predicts them; 0: not known. */
typedef struct ft_own_load {
    uint32_t sessions; /* to draft for, > 0 */
    double others;     /* tokens that the pass brings other sessions in any case */
    int64_t plain_us;  /* of the pass with one row of each of them */
    int64_t tree_us;   /* of the pass with a tree of each of them */
} ft_own_load;

typedef struct ft_own_draft {
    uint32_t n_verdicts; /* since drafting was last tried, up to the number that decides */
    double tokens;       /* of such a verdict on a tree of ours, on average */
    ft_mean draft_us[FT_OWN_CLASSES]; /* of drafting for so many sessions */
    /* The measured time of passes over the predicted time: [0] without trees, [1] with trees. The
     * cost model follows the machine's load slowly. */
    ft_mean off[2];
    bool on;         /* drafting pays by the estimates, as of the last choice */
    uint32_t since;  /* tokens of runs without a draft since it was on or tried */
    double token_us; /* of a run, as of the last choice; 0: not known */
    /* How much to draft. depth 0: no nodes were chosen yet. */
    double nodes;                /* kept nodes of a session's tree, smoothed */
    uint32_t depth;              /* levels that are drafted */
    double level[FT_OWN_LEVELS]; /* expected tokens of a session's kept nodes by level, smoothed */
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

/* Lowers the most that a drafter may draft to what is worth drafting. */
void ft_own_draft_size(const ft_own_draft *own, uint32_t *budget, uint32_t *depth);
/* How many of the nodes to keep; they are those of all sessions, the likeliest first. Keeps the
 * number with the most expected tokens per time of drafting and pass. Learns from that how many
 * levels to draft next time. */
uint32_t ft_own_draft_keep(ft_own_draft *own, const ft_own_node *nodes, uint32_t n,
                           const ft_own_pass *pass);
/* Whether to draft for the next pass. Call it once a pass: it counts. */
bool ft_own_draft_choose(ft_own_draft *own, const ft_own_load *load);
/* A pass for runs, with trees of ours or without, took `us`. */
void ft_own_draft_saw_pass(ft_own_draft *own, bool trees, int64_t expected_us, int64_t us);
/* Drafting for so many sessions took `us`. */
void ft_own_draft_saw_draft(ft_own_draft *own, uint32_t sessions, int64_t us);
/* A tree brought so many tokens, the target's own included. */
void ft_own_draft_saw_verdict(ft_own_draft *own, uint32_t tokens);

/* Nodes that a session's tree is expected to keep, of a budget. */
uint32_t ft_own_draft_nodes(const ft_own_draft *own, uint32_t budget);
/* Tokens that a verdict on an edge's tree brings on average: eq. (5) over all rounds so far. */
double ft_own_draft_edge_tok(uint64_t accepted, uint64_t rounds);

/* The draft model must also read a prompt before it can draft behind it. */
#define FT_OWN_READ_MIN 16 /* tokens, a KV block; the draft's first forward reads fewer than that */
/* Tokens to read before a pass, from FT_OWN_READ_MIN to `most`, if reading may delay the pass by
 * budget_us (0: no limit). tok_us: time of a token, as ft_own_read_saw measures it. */
uint32_t ft_own_read_tok(const ft_mean *tok_us, int64_t budget_us, uint32_t most);
/* Reading n tokens took `us`. */
void ft_own_read_saw(ft_mean *tok_us, uint32_t n, int64_t us);

#endif
