/* SPDX-License-Identifier: Apache-2.0
 *
 * How a draft tree grows: a pool of candidate nodes, and pure functions on it. A node is a token
 * that is proposed behind its parent. Once the draft model has read it, the node is *computed*: it
 * has a pending number, and its children are in the pool. Leaves of the pool are not computed, and
 * most of them never will be. The pool is plain data. It knows no engine and no text.
 */
#ifndef FT_SPEC_GROWTH_H
#define FT_SPEC_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/predictor.h"
#include "spec/draft_source.h"
#include "spec/rule.h"
#include "spec/depth.h"
#include "spec/fallback.h"
#include "spec/tree.h"

#define FT_GROWTH_MAX 2048 /* nodes of a pool */

/* Where the pool grows while a verdict is awaited. */
typedef enum ft_proactive {
    FT_PROACTIVE_LIKELIEST, /* where the text most probably continues */
    FT_PROACTIVE_LEAF       /* below the expansion leaf only: SpecEdge 4.2 */
} ft_proactive;

#define FT_GROW_LEVELS 16 /* levels whose width can be given */

/* How a tree grows. */
typedef enum ft_grow {
    FT_GROW_BEST,  /* best first: the likeliest nodes (SpecExec) */
    FT_GROW_PACER, /* the likelier a branch, the longer it gets (EdgeLLM III-B, grow_order.h) */
    FT_GROW_FIXED  /* each node of a level has the same number of children (SpecInfer) */
} ft_grow;

typedef struct ft_draft_params {
    uint32_t budget; /* nodes a tree at most, <= FT_TREE_MAX; 0: never draft */
    uint32_t depth;  /* draft forwards a round at most, which is the depth of what is not forced */
    uint32_t levels; /* of the tree at most; 0: any number */
    uint32_t width;  /* leaves that one forward expands; 1 with branch 1: a chain */
    uint32_t branch; /* children of a node that are considered */
    /* A node with a lower cumulative log-probability is not drafted, except the best first token.
     * Proactive drafting at FT_PROACTIVE_LIKELIEST has its own limit. */
    float min_logp;
    /* Of drafts that grow best first. Once a tree should bring so many tokens, the target's own
     * included, a node with a lower cumulative log-probability than surplus_logp does not join it.
     * 0: there is no such number. */
    float enough_tok, surplus_logp;
    /* Of drafts. While a verdict is awaited, and in early drafts, all trees grow best first. */
    ft_grow grow;
    /* With FT_GROW_FIXED: the children of the text's last token, then those of each node of the
     * first level, and so on; at most `branch`. 0 ends the tree. */
    uint8_t children[FT_GROW_LEVELS];
    ft_proactive proactive;
    /* Ends branches: a node that it predicts to be rejected is neither computed nor in the tree
     * (WISP 4.1, eq. (25) for each branch), except the best first token. Borrowed; NULL: none. A
     * pool knows one predictor at a time. */
    const ft_predictor *predictor;
    uint32_t round, resolution; /* as in ft_draw (rule.h) */
    /* Ends a draft before `depth` forwards, and learns what they are worth; NULL: nothing does. */
    ft_depth *deep_enough;
    const ft_fallback *fallback; /* ends it too; NULL: nothing does */
    /* Asks the owner to set min_logp anew for each draft, by what a row costs (depth.h). The owner
     * of a controller decides by itself. */
    bool weigh_rows;
} ft_draft_params;

/* A chain of n tokens; a tree as in SpecExec (best first by cumulative log-probability). */
ft_draft_params ft_draft_params_chain(uint32_t n);
ft_draft_params ft_draft_params_tree(uint32_t budget, uint32_t depth, uint32_t width);

/* Restricts the parameters to what the text's rule allows, and fills in its resolution. If the rule
 * is not adaptive, every draft is a chain of `budget` tokens, whatever the tokens are. */
void ft_draft_params_obey(ft_draft_params *params, const ft_rule_terms *terms);

/* The most leaves that a draft computes. */
uint32_t ft_draft_params_leaves(const ft_draft_params *params);

/* How far a source's chances can be trusted, learned from verdicts. The chance of a child is the
 * source's chance to the power of `sharpness`. The chance of all tokens that are not children is
 * what the source leaves for them, to the same power, times exp(rest). Then all chances are scaled
 * to sum to 1. So a source that is right more often than it says gets narrow, deep trees. Text does
 * not depend on it: it only orders drafts. Sharpness 0, and of children that are counted: the
 * source's chances are used as they are. */
typedef struct ft_calibration {
    float sharpness, rest;
    float weight, rest_weight; /* of what was seen; 0: nothing */
} ft_calibration;

typedef enum ft_judged { FT_JUDGED_NOT, FT_JUDGED_IN, FT_JUDGED_OUT } ft_judged;

typedef struct ft_growth_node {
    int32_t token, parent; /* parent in the pool, -1: the text's last token */
    float logp, cum;       /* log chance of acceptance: given the parent's; of the whole path */
    float said;            /* logp as the source gave it */
    uint16_t depth;        /* 0 for roots */
    int16_t pending;       /* its number, -1: not computed */
    bool proactive;        /* computed while a verdict was awaited; the owner may clear this */
    uint8_t judged;        /* by the predictor, if it was asked: an ft_judged */
    bool counted;          /* as in ft_draft_children */
} ft_growth_node;

/* A pool; ft_growth_clear makes an empty one. Parents stand before their children, and no child has
 * a higher cum than its parent. So the best nodes by (cum, pool order) always form a tree. */
typedef struct ft_growth {
    uint32_t n, n_pending, n_emitted, n_early;
    int32_t expansion_leaf;     /* below which proactive drafting begins; -1: none yet */
    ft_calibration calibration; /* of new nodes; ft_growth_clear sets it to all-zero */
    /* As of the last ft_growth_choose: cum of the node that the next one displaces; -INFINITY:
     * there is room, or nodes do not join best first */
    float displaced;
    ft_growth_node node[FT_GROWTH_MAX];
    ft_shape shape[1 + FT_DRAFT_PENDING]; /* of the source's distributions, by ft_growth_place */
    uint16_t owner[FT_DRAFT_PENDING];     /* the node of each pending number */
    uint16_t emitted[FT_TREE_MAX];        /* the node of each node of the last tree */
    uint16_t early[FT_TREE_MAX];          /* of an early draft, without what a verdict removed */
} ft_growth;

/* What bounds a forward besides the parameters. */
typedef struct ft_growth_limits {
    uint32_t leaves; /* in one forward at most */
    uint32_t depth;  /* nodes this deep or deeper are behind the end of the context */
} ft_growth_limits;

/* Makes it empty. */
void ft_growth_clear(ft_growth *g);

/* Adds the first `branch` children of a computed node (-1: of the text's last token), as many as
 * the pool has room for. */
void ft_growth_add(ft_growth *g, int32_t parent, const ft_draft_children *children,
                   uint32_t branch);

/* Where data on the tokens behind a computed node is kept: 0 for those behind the text's last token
 * (node -1), 1 + k for those behind pending node k. */
uint32_t ft_growth_place(const ft_growth *g, int32_t node);

/* Features of a node (learn/features.h) from the source's logits. The confidence is the source's
 * own, without calibration, so it means the same in every text. */
void ft_growth_features(const ft_growth *g, uint32_t node, float feature[FT_FEATURES]);

/* Learns from the token that came behind a computed node (-1: behind the text's last token). */
void ft_growth_saw(const ft_growth *g, int32_t parent, int32_t token, ft_calibration *calibration);

/* The leaves to compute next, best first; returns how many. A child is never better than its
 * parent, so only leaves among the best `budget` nodes can get children into the tree. If the tree
 * is full, a leaf must be better than its worst node, which is `displaced`. The predictor may
 * exclude leaves. chosen has room for FT_DRAFT_LEAVES.
 *
 * If another order than best first says which nodes are in the tree, the leaves come in that order,
 * without those whose children could not join the tree. */
uint32_t ft_growth_choose(ft_growth *g, const ft_draft_params *params,
                          const ft_growth_limits *limits, uint16_t *chosen);

/* The same while a verdict is awaited. The first call after an emit chooses the expansion leaf: the
 * emitted tree's leaf with the highest cum (the first of equals), as in SpecEdge 4.2.
 *
 * FT_PROACTIVE_LEAF: the expansion leaf itself while it is not computed, then its descendants, best
 * first, of which the best params->budget are wanted; min_logp counts from the expansion leaf.
 *
 * FT_PROACTIVE_LIKELIEST: the best nodes anywhere, down to those that one text in proactive_odds
 * (tuning.h) goes through. Behind a best-first tree the expansion leaf is among them. A forward
 * costs a device about the same for one leaf and for several, so this brings more.
 *
 * The predictor is not asked, because this work delays nobody. It leaves room in the pool for the
 * next draft: params->depth forwards of params->width leaves with params->branch children each. */
uint32_t ft_growth_choose_proactive(ft_growth *g, const ft_draft_params *params,
                                    const ft_growth_limits *limits, uint16_t *chosen);

/* chosen[n] were computed and get the next pending numbers. */
void ft_growth_computed(ft_growth *g, const uint16_t *chosen, uint32_t n, bool proactive);

/* T_c (fallback.h) of the tree that an emit would hand out now. */
float ft_growth_confidence(ft_growth *g, const ft_draft_params *params);

/* Hands out the best params->budget nodes, or those that params->grow takes, as a tree, in pool
 * order, none below min_logp but the best first token. The best ones are
 * those that SpecEdge's appendix C keeps when it prunes to the tree budget. Forgets the expansion
 * leaf. */
void ft_growth_emit(ft_growth *g, const ft_draft_params *params, ft_tree *tree);

/* An early draft: nodes that extend the emitted tree and are sent before its verdict. A *top* is an
 * early node whose parent is in the emitted tree. If the verdict continues from that parent with
 * the top, the nodes below the top become the next tree. */
typedef struct ft_growth_early {
    uint32_t budget; /* nodes at most, <= FT_TREE_MAX */
    /* What the time saved is worth in tokens, less the expected tokens of a tree that is drafted
     * after the verdict. A top is sent if this plus the expected tokens below it is above 0. */
    double spare_tok;
} ft_growth_early;

/* Fills tree, in pool order (a node with parent -1 is a top), and under[]: for each top in order,
 * its parent in the emitted tree. Returns the expected gain of sending them, in tokens: the sum
 * over tops of their chance times their worth. 0 and no nodes if none is worth sending. The pool
 * remembers the nodes until the next emit. */
double ft_growth_early_emit(ft_growth *g, const ft_growth_early *early, ft_tree *tree,
                            uint8_t under[FT_TREE_MAX]);

/* Call after the reroot at a top: the early nodes below it become the emitted tree. */
void ft_growth_early_take(ft_growth *g, ft_tree *tree);

/* The likeliest continuation of the text: from each node the likeliest of its children, as far as
 * the pool has any. Fills token[] with `most` tokens at most, and returns how many. */
uint32_t ft_growth_likeliest(const ft_growth *g, int32_t *token, uint32_t most);

/* Finds the nodes of a verdict in the pool: the emitted nodes path[n_path], then the tokens
 * next[n_next] as far as the pool has them. Fills nodes[] (room for FT_GROWTH_MAX) and returns how
 * many; -1: path is no walk from a root of the last tree. */
int ft_growth_walk(const ft_growth *g, const uint32_t *path, uint32_t n_path, const int32_t *next,
                   uint32_t n_next, uint16_t *nodes);

/* The text now ends with `root`: keeps only its descendants. Nothing is emitted any more. keep[]
 * (room for FT_DRAFT_PENDING) gets the old pending numbers of the computed ones, ascending; returns
 * how many. Of the early nodes, those below `root` stay. */
uint32_t ft_growth_reroot(ft_growth *g, int32_t root, uint32_t *keep);

/* Asserts the invariants in debug builds. */
void ft_growth_check(const ft_growth *g);

#endif
