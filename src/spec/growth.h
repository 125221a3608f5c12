/* SPDX-License-Identifier: Apache-2.0
 *
 * How a draft tree grows: a pool of candidate nodes as plain data, and pure functions on it. A node
 * is a token proposed behind its parent. It is *computed* once a draft model has read it: then it
 * has a pending number, and its children are in the pool. Leaves of the pool are not computed; most
 * never will be. Knows no engine and no text: a drafter, a server and a simulator grow trees with
 * it alike.
 */
#ifndef FT_SPEC_GROWTH_H
#define FT_SPEC_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/predictor.h"
#include "spec/draft_source.h"
#include "spec/rule.h"
#include "spec/stop.h"
#include "spec/tree.h"

#define FT_GROWTH_MAX 2048 /* nodes of a pool */

/* Where to grow while a verdict is awaited. */
typedef enum ft_ahead {
    /* Where the text most probably goes on: the head first, then what one forward has room for. */
    FT_AHEAD_LIKELIEST,
    FT_AHEAD_HEAD /* below the head alone: SpecEdge 4.2 */
} ft_ahead;

typedef struct ft_draft_params {
    uint32_t budget; /* nodes a tree at most, <= FT_TREE_MAX; 0: never draft */
    uint32_t depth;  /* draft forwards a round at most: the depth of the tree */
    uint32_t width;  /* leaves expanded in one forward; 1 with branch 1: a chain */
    uint32_t branch; /* children considered a node */
    float min_logp;  /* a node whose cumulative log-probability is below this is not drafted */
    ft_ahead ahead;
    /* Ends branches: a node that it predicts to be rejected is neither in the tree nor computed for
     * it (WISP 4.1, eq. (25) for each branch), except the best first token. Borrowed; NULL: none.
     * Pools know one predictor at a time. */
    const ft_predictor *predictor;
    uint32_t round, resolution; /* as in ft_draw (rule.h) */
    ft_stop *stop; /* says when fewer forwards than `depth` are enough, and learns; NULL: nobody */
} ft_draft_params;

/* Chain of n; tree of SpecExec style (best-first by cumulative log-probability). */
ft_draft_params ft_draft_params_chain(uint32_t n);
ft_draft_params ft_draft_params_tree(uint32_t budget, uint32_t depth, uint32_t width);

/* What the terms of the text's rule leave of them. Under a rule that is not adaptive every draft is
 * a chain of `budget` tokens, whatever they are. */
void ft_draft_params_obey(ft_draft_params *params, const ft_rule_terms *terms);

/* Leaves that a draft computes at most, as far as pending numbers reach. */
uint32_t ft_draft_params_leaves(const ft_draft_params *params);

/* How far a source's chances are to be trusted, learned from verdicts: a child's chance is the
 * source's to the power of `sharpness`, what the source leaves for all others the same times
 * exp(rest), and all of it is made to sum to 1. A source that is right more often than it says gets
 * narrow, deep trees. It only orders drafts: text never depends on it. Sharpness 0: as the source
 * says. */
typedef struct ft_calibration {
    float sharpness, rest;
    float weight, rest_weight; /* of what was seen; 0: nothing */
} ft_calibration;

typedef enum ft_judged { FT_JUDGED_NOT, FT_JUDGED_IN, FT_JUDGED_OUT } ft_judged;

typedef struct ft_growth_node {
    int32_t token, parent; /* parent in the pool, -1: the text's last token */
    float logp, cum;       /* the chance of acceptance: given the parent's, and along the path */
    float said;            /* the source's word on logp */
    uint16_t depth;        /* 0 for roots */
    int16_t pending;       /* its number, -1: not computed */
    bool ahead;            /* computed below the head; the owner may take the mark away */
    uint8_t judged;        /* by the predictor, where it was asked: an ft_judged */
} ft_growth_node;

/* A pool; begins with ft_growth_clear. Parents stand before children, and cum never rises from
 * parent to child, so that the best nodes by (cum, pool order) always form a tree. */
typedef struct ft_growth {
    uint32_t n, n_pending, n_emitted, n_early;
    int32_t head;               /* the leaf below which is drafted ahead; -1: none yet */
    ft_calibration calibration; /* of nodes to come; a clear sets it to all-zero */
    ft_growth_node node[FT_GROWTH_MAX];
    ft_shape root_shape;              /* what the source said behind the text's last token */
    ft_shape shape[FT_DRAFT_PENDING]; /* and behind each pending node */
    uint16_t owner[FT_DRAFT_PENDING]; /* the node of each pending number */
    uint16_t emitted[FT_TREE_MAX];    /* the node of each node of the last tree */
    uint16_t early[FT_TREE_MAX];      /* of an early draft, as far as a verdict has left it */
} ft_growth;

/* What bounds a forward besides the parameters. */
typedef struct ft_growth_limits {
    uint32_t leaves; /* in one forward at most */
    uint32_t depth;  /* nodes of this depth and deeper lie behind the context's end */
} ft_growth_limits;

/* Makes it empty. */
void ft_growth_clear(ft_growth *g);

/* The children of a computed node (-1: of the text's last token), the first `branch` of them, as
 * far as the pool has room. */
void ft_growth_add(ft_growth *g, int32_t parent, const ft_draft_children *children,
                   uint32_t branch);

/* What the source's logits said of a node of the pool, in the order of learn/features.h. The
 * confidence is the source's own word, not as calibrated: what it says to one text it says to
 * all. */
void ft_growth_features(const ft_growth *g, uint32_t node, float feature[FT_FEATURES]);

/* Learns that behind `parent`, which is computed (-1: the text's last token), came `token`. */
void ft_growth_saw(const ft_growth *g, int32_t parent, int32_t token, ft_calibration *calibration);

/* The leaves to compute next, best first; returns how many. Only those among the best `budget`
 * nodes can have children in the tree, as a child is never better than its parent; and where the
 * tree is full, only those better than its worst node; and none that the predictor rules out.
 * chosen has room for FT_DRAFT_LEAVES. */
uint32_t ft_growth_choose(ft_growth *g, const ft_draft_params *params,
                          const ft_growth_limits *limits, uint16_t *chosen);

/* The same while a verdict is awaited. FT_AHEAD_HEAD: below the head alone: the head itself while
 * it is not computed, then best-first among its descendants, of which the best params->budget are
 * wanted; min_logp counts from the head. FT_AHEAD_LIKELIEST: the best nodes anywhere, as a node's
 * cum says how probably the text goes through it; the head, the best of all that can be computed,
 * is the first, and nodes that one text in ahead_odds (spec/tuning.h) needs are the last. The
 * predictor is not asked: what is ahead of a verdict costs nobody's time. A forward costs a device
 * about the same for one leaf and for several, so this brings more than the head alone. Leaves
 * room, in pool and pending numbers, for the next draft: params->depth forwards of params->width
 * leaves with params->branch children each. The first call after an emit chooses the head: SpecEdge
 * 4.2's, the emitted tree's leaf of the highest cum (the first of equals). */
uint32_t ft_growth_choose_ahead(ft_growth *g, const ft_draft_params *params,
                                const ft_growth_limits *limits, uint16_t *chosen);

/* chosen[n] were computed, with the next pending numbers. */
void ft_growth_computed(ft_growth *g, const uint16_t *chosen, uint32_t n, bool ahead);

/* Tokens that the tree which an emit would hand out now should bring: its nodes' chances, and the
 * target's own token. */
double ft_growth_tokens(ft_growth *g, const ft_draft_params *params);

/* Hands out the best params->budget nodes as a tree, none below min_logp, in pool order. What
 * SpecEdge's appendix C keeps when it prunes to the tree budget. Forgets the head. */
void ft_growth_emit(ft_growth *g, const ft_draft_params *params, ft_tree *tree);

/* What may be sent before the verdict on the emitted tree: nodes that extend it. The verdict that
 * says a *top*, one whose parent is in the tree, behind that parent makes what hangs below the top
 * the next tree. */
typedef struct ft_growth_early {
    uint32_t budget; /* nodes at most, <= FT_TREE_MAX */
    /* Tokens that coming sooner is worth, less those that a tree drafted after the verdict should
     * bring. A top is sent if this and what hangs below it are more than 0 together. */
    double spare_tok;
} ft_growth_early;

/* Fills tree (node i with parent -1 is a top) and under[] (of each top in order: the emitted tree's
 * node that it is a child of), in pool order. Returns what sending them should gain, in tokens: of
 * each top its chance times what it is worth; 0, and no nodes, where none is worth it. The pool
 * remembers them until the next emit. */
double ft_growth_early_emit(ft_growth *g, const ft_growth_early *early, ft_tree *tree,
                            uint8_t under[FT_TREE_MAX]);

/* After the reroot at a top of the early nodes: those below it become the emitted tree. */
void ft_growth_early_take(ft_growth *g, ft_tree *tree);

/* A verdict as a walk in the pool: the emitted nodes path[n_path], then next[n_next] as far as the
 * pool holds them. nodes[] (room for FT_GROWTH_MAX) gets it. Returns its length; -1: path is no
 * walk from a root of the last tree. */
int ft_growth_walk(const ft_growth *g, const uint32_t *path, uint32_t n_path, const int32_t *next,
                   uint32_t n_next, uint16_t *nodes);

/* Makes the descendants of `root` the pool, with the text's end moved to `root`; nothing is emitted
 * any more. keep[] (room for FT_DRAFT_PENDING) gets the old pending numbers of those that are
 * computed, ascending; returns how many. Of the early nodes those below `root` are remembered. */
uint32_t ft_growth_reroot(ft_growth *g, int32_t root, uint32_t *keep);

/* Asserts the invariants, in debug builds. */
void ft_growth_check(const ft_growth *g);

#endif
