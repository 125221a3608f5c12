/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafters: they make token trees behind a text. Its source says which tokens may follow
 * (draft_source.h). A drafter owns one source, and has the source's thread rule. The source holds
 * the text except its last token, and the nodes of the present tree as pending nodes. So after a
 * verdict the branch that survives is kept, and only new nodes are computed.
 *
 *   create -> reset(prompt) -> draft -> proactive ... -> [verdict] advance(path, next) -> draft ...
 *                               \-> early -> proactive ... -> advance -> early_take -> ...
 */
#ifndef FT_SPEC_DRAFTER_H
#define FT_SPEC_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "spec/draft_source.h"
#include "spec/growth.h"
#include "spec/sampling.h"
#include "spec/tree.h"

typedef struct ft_drafter ft_drafter;

/* A drafter with an empty text. Takes `source`, which must be empty, also on failure. FT_NOMEM
 * leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_drafter_create(ft_draft_source *source, ft_error *err,
                                           ft_drafter **out);
/* Frees its source too. NULL is legal. */
void ft_drafter_destroy(ft_drafter *drafter);

/* Replaces the text by `text` [n], n > 0, and keeps the KV of a common prefix. Computes nothing. */
FT_WARN_UNUSED ft_status ft_drafter_reset(ft_drafter *drafter, const int32_t *text, uint32_t n,
                                          ft_error *err);

/* Reads the text up to its last token but one: at most max_tok tokens a call, so that the caller
 * can stop in between. *left: tokens still to be read; a draft reads them itself. If the text does
 * not fit into the draft model's context or KV pool, *left is 0, as there is nothing to wait
 * for. */
FT_WARN_UNUSED ft_status ft_drafter_prefill(ft_drafter *drafter, uint32_t max_tok, ft_error *err,
                                            uint32_t *left);

/* Drafts a tree behind the text. The tree is smaller than asked for if context or KV pool get full,
 * and has n = 0 if they are full. Nodes that an earlier call computed are used again; where draws
 * depend on the round, only if all that there are were drawn for this round and resolution and are
 * in the tree. So a tree does not depend on how much was drafted ahead. */
FT_WARN_UNUSED ft_status ft_drafter_draft(ft_drafter *drafter, const ft_draft_params *params,
                                          ft_error *err, ft_tree *tree);

/* The same for n drafters whose sources share a group. One forward computes a level of all trees
 * (of FT_DRAFT_BATCH drafters at a time). Each tree is the one that its drafter would draft alone.
 * params [n], trees [n]. A full KV pool ends one drafter's growth and not the others'. Allocates
 * only in the sources. On failure all trees are empty. */
FT_WARN_UNUSED ft_status ft_drafters_draft(ft_drafter *const *drafters, size_t n,
                                           const ft_draft_params *params, ft_error *err,
                                           ft_tree *const *trees);

/* Features of a node of the last drafted tree (learn/features.h), until its verdict. */
void ft_drafter_features(const ft_drafter *drafter, uint32_t node, float feature[FT_FEATURES]);

/* The evidence (rule.h) of a node of the last drafted tree, borrowed until its verdict. *n: its
 * bytes; 0: there is none. */
const uint8_t *ft_drafter_evidence(const ft_drafter *drafter, uint32_t node, uint32_t *n);

/* Proactive drafting (SpecEdge 4.2) while the verdict on the last drafted tree is awaited: one
 * forward that grows the pool as params->proactive says (ft_growth_choose_proactive). The tree that
 * was handed out does not change. Leaves room in the pool for the next draft, and a part of a KV
 * pool that is shared. Where draws depend on the round, they are for the round after
 * params->round. *more: another call would compute something; false if the best nodes are
 * computed, or if pool, KV pool or context are full. */
FT_WARN_UNUSED ft_status ft_drafter_proactive(ft_drafter *drafter, const ft_draft_params *params,
                                              ft_error *err, bool *more);

/* An early draft: nodes that extend the last drafted tree (ft_growth_early_emit). */
double ft_drafter_early(ft_drafter *drafter, const ft_growth_early *early, ft_tree *tree,
                        uint8_t under[FT_TREE_MAX]);

/* The tokens that most probably follow the text, as far as it has drafted: ft_growth_likeliest. */
uint32_t ft_drafter_likeliest(const ft_drafter *drafter, int32_t *token, uint32_t most);

/* Call after the advance by a verdict that took the early draft: *tree is the part of it that
 * follows the verdict, and is now the last drafted tree. n = 0: nothing of it follows. */
void ft_drafter_early_take(ft_drafter *drafter, ft_tree *tree);

/* The verdict on the last drafted tree: the text grows by the accepted nodes path[n_path] and by
 * the target's own tokens next[n_next]. What was drafted below the text's new end is kept.
 * FT_INVALID: path is no walk from a root of the last tree; nothing changes. */
FT_WARN_UNUSED ft_status ft_drafter_advance(ft_drafter *drafter, const uint32_t *path,
                                            uint32_t n_path, const int32_t *next, uint32_t n_next,
                                            ft_error *err);

/* From now on the drafter learns from verdicts how far its source's chances can be trusted. It
 * starts from `from` (copied), which another has learned; all-zero: nothing. */
void ft_drafter_calibrate(ft_drafter *drafter, const ft_calibration *from);
/* What it has learned; all-zero: it does not learn. */
ft_calibration ft_drafter_calibration(const ft_drafter *drafter);

typedef struct ft_drafter_stats {
    uint64_t forwards, rows; /* of the source, the proactive ones among them */
    uint64_t nodes;          /* handed out in trees */
    uint64_t reused_nodes;   /* computed nodes that a verdict left in the pool */
    /* Of proactive drafting: its forwards, the nodes that they computed, and those of these that a
     * verdict took into the text or left in the pool. */
    uint64_t proactive_forwards, proactive_nodes, proactive_kept;
    /* For SpecEdge eq. (1): verdicts on trees whose expansion leaf was computed; those of them
     * whose accepted path ended in that leaf; those of these whose next token was a child of it. */
    uint64_t leaves, aligned, matched;
} ft_drafter_stats;
/* Sums since creation. */
void ft_drafter_get_stats(const ft_drafter *drafter, ft_drafter_stats *out);

#endif
