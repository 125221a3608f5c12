/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafters: from the text so far to a token tree, with a draft model. One drafter = one sequence of
 * the draft engine; the engine's owner thread calls it. The draft's KV holds the text except its last
 * token, plus the nodes of the present tree as pending nodes, so that after a verdict the surviving
 * branch is kept and only new nodes are computed.
 *
 *   create -> reset(prompt) -> draft -> [verdict] advance(path, next) -> draft -> ...
 */
#ifndef FT_SPEC_DRAFTER_H
#define FT_SPEC_DRAFTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/progress.h"
#include "engine/engine.h"
#include "spec/sampling.h"
#include "spec/tree.h"

typedef struct ft_draft_params {
    uint32_t budget; /* nodes a tree at most, <= FT_TREE_MAX; 0: never draft */
    uint32_t depth;  /* draft forwards a round at most: the depth of the tree */
    uint32_t width;  /* leaves expanded in one forward; 1 with branch 1: a chain */
    uint32_t branch; /* children considered a node */
    float min_logp;  /* a node whose cumulative log-probability is below this is not drafted */
} ft_draft_params;

/* Chain of n; tree of SpecExec style (best-first by cumulative log-probability). */
ft_draft_params ft_draft_params_chain(uint32_t n);
ft_draft_params ft_draft_params_tree(uint32_t budget, uint32_t depth, uint32_t width);

typedef struct ft_drafter ft_drafter;

/* A drafter with an empty text, which draws as `s` says (copied). The engine is borrowed and outlives
 * it. FT_INVALID (sampling), FT_NOMEM leave *out NULL. */
FT_WARN_UNUSED ft_status ft_drafter_create(ft_engine *engine, const ft_sampling *s, ft_error *err,
                                           ft_drafter **out);
/* Frees its sequence too. NULL is legal. */
void ft_drafter_destroy(ft_drafter *drafter);

/* Makes `text` [n], n > 0, the text; keeps the KV of a common prefix. Computes nothing yet. */
FT_WARN_UNUSED ft_status ft_drafter_reset(ft_drafter *drafter, const int32_t *text, uint32_t n,
                                          ft_error *err);

/* Brings the KV up to the text's last token but one, in chunks; at most max_tok tokens a call, so
 * that the caller can stop in between. *left: tokens still missing. draft() does the rest itself.
 * Where the text does not fit into the draft's context or KV pool, *left is 0: nothing to wait for. */
FT_WARN_UNUSED ft_status ft_drafter_prefill(ft_drafter *drafter, uint32_t max_tok, ft_error *err,
                                            uint32_t *left);

/* Drafts a tree behind the text. *tree is filled; n = 0 where context or KV pool are full, less than
 * asked for where they get full. Nodes that an earlier call computed are used again. */
FT_WARN_UNUSED ft_status ft_drafter_draft(ft_drafter *drafter, const ft_draft_params *params,
                                          ft_error *err, ft_tree *tree);

/* The verdict on the last drafted tree: the text grows by the accepted nodes path[n_path] and by
 * next[n_next] (the target's own tokens). What was drafted below the text's new end is kept.
 * FT_INVALID: path is no walk from a root of the last tree; nothing changes. */
FT_WARN_UNUSED ft_status ft_drafter_advance(ft_drafter *drafter, const uint32_t *path,
                                            uint32_t n_path, const int32_t *next, uint32_t n_next,
                                            ft_error *err);

typedef struct ft_drafter_stats {
    uint64_t forwards, rows; /* of the draft model */
    uint64_t nodes;          /* handed out in trees */
    uint64_t reused_nodes;   /* computed nodes that outlived a verdict */
} ft_drafter_stats;
/* Sums since creation. */
void ft_drafter_get_stats(const ft_drafter *drafter, ft_drafter_stats *out);

#endif
