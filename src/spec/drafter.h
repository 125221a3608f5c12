/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafters: from the text so far to a token tree. Which tokens may follow is a source's to say
 * (draft_source.h): the draft model's, a recording's. One drafter = one source; its thread rule is
 * the source's. The source holds the text except its last token, plus the nodes of the present tree
 * as pending nodes, so that after a verdict the surviving branch is kept and only new nodes are
 * computed.
 *
 *   create -> reset(prompt) -> draft -> ahead ... -> [verdict] advance(path, next) -> draft -> ...
 *                                        \-> early -> ahead ... -> advance -> early_take -> ...
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

/* A drafter with an empty text over `source`, which must be empty too and is taken, also on
 * failure. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_drafter_create(ft_draft_source *source, ft_error *err,
                                           ft_drafter **out);
/* Frees its source too. NULL is legal. */
void ft_drafter_destroy(ft_drafter *drafter);

/* Makes `text` [n], n > 0, the text; keeps the KV of a common prefix. Computes nothing yet. */
FT_WARN_UNUSED ft_status ft_drafter_reset(ft_drafter *drafter, const int32_t *text, uint32_t n,
                                          ft_error *err);

/* Brings the KV up to the text's last token but one, in chunks; at most max_tok tokens a call, so
 * that the caller can stop in between. *left: tokens still missing. draft() does the rest itself.
 * Where the text does not fit into the draft's context or KV pool, *left is 0: nothing to wait
 * for. */
FT_WARN_UNUSED ft_status ft_drafter_prefill(ft_drafter *drafter, uint32_t max_tok, ft_error *err,
                                            uint32_t *left);

/* Drafts a tree behind the text. *tree is filled; n = 0 where context or KV pool are full, less
 * than asked for where they get full. Nodes that an earlier call computed are used again. */
FT_WARN_UNUSED ft_status ft_drafter_draft(ft_drafter *drafter, const ft_draft_params *params,
                                          ft_error *err, ft_tree *tree);

/* The same for n different drafters whose sources share a group: a level of all trees is one
 * forward (FT_DRAFT_BATCH drafters at a time), and each tree is the one that its drafter would
 * draft alone. params [n], trees [n]. A full KV pool ends one drafter's growth, not the others'. No
 * allocation but of the sources' own. Where it fails, all trees are empty. */
FT_WARN_UNUSED ft_status ft_drafters_draft(ft_drafter *const *drafters, size_t n,
                                           const ft_draft_params *params, ft_error *err,
                                           ft_tree *const *trees);

/* What the source said of a node of the last drafted tree (learn/features.h), until its verdict is
 * told. */
void ft_drafter_features(const ft_drafter *drafter, uint32_t node, float feature[FT_FEATURES]);

/* The evidence (rule.h) of a node of the last drafted tree, until its verdict is told; borrowed.
 * *n: its bytes; 0: there is none. */
const uint8_t *ft_drafter_evidence(const ft_drafter *drafter, uint32_t node, uint32_t *n);

/* Proactive drafting (SpecEdge 4.2), while the verdict on the last drafted tree is awaited: one
 * forward that grows the pool where params->ahead says. The first call computes the *head*, the
 * tree's leaf of the highest cumulative log-probability; its children are the first tokens drafted
 * ahead. The tree itself stays as it was handed out.
 *
 * Below the head alone, params->budget is how many nodes are wanted there (SpecEdge: as many as the
 * tree's), and min_logp counts from the head; width and branch are as in a draft. With
 * params->depth and width the call leaves room in the pool for the draft to come, and some of a KV
 * pool that others share. *more: a further call would compute something; false where the head's
 * best nodes are computed, or pool, KV or context are full. */
FT_WARN_UNUSED ft_status ft_drafter_ahead(ft_drafter *drafter, const ft_draft_params *params,
                                          ft_error *err, bool *more);

/* What of the pool extends the last drafted tree, to be sent before its verdict
 * (ft_growth_early_emit). */
double ft_drafter_early(ft_drafter *drafter, const ft_growth_early *early, ft_tree *tree,
                        uint8_t under[FT_TREE_MAX]);

/* After the advance by a verdict that took the early nodes behind itself for the next round: *tree
 * is these and the last drafted tree, n = 0 where the verdict left none. */
void ft_drafter_early_take(ft_drafter *drafter, ft_tree *tree);

/* The verdict on the last drafted tree: the text grows by the accepted nodes path[n_path] and by
 * next[n_next] (the target's own tokens). What was drafted below the text's new end is kept.
 * FT_INVALID: path is no walk from a root of the last tree; nothing changes. */
FT_WARN_UNUSED ft_status ft_drafter_advance(ft_drafter *drafter, const uint32_t *path,
                                            uint32_t n_path, const int32_t *next, uint32_t n_next,
                                            ft_error *err);

/* From now on the drafter learns from verdicts how far its source's chances can be trusted,
 * beginning with what another has learned (copied; all-zero: nothing). */
void ft_drafter_calibrate(ft_drafter *drafter, const ft_calibration *from);
/* What it has learned; all-zero: it does not. */
ft_calibration ft_drafter_calibration(const ft_drafter *drafter);

/* The expected gain of drafting ahead, SpecEdge eq. (1), is
 *
 *     P_align * P_match|align * (T_draft / H_expan - 1)      tokens a round
 *
 * with H_expan = 1 head, P_align = aligned / heads, P_match|align = matched / aligned and T_draft =
 * ahead_nodes / heads: the head among them gives the first token drafted ahead, which the target's
 * own token must match, hence the - 1. */
typedef struct ft_drafter_stats {
    uint64_t forwards, rows; /* of the source, those ahead among them */
    uint64_t nodes;          /* handed out in trees */
    uint64_t reused_nodes;   /* computed nodes that outlived a verdict */
    uint64_t ahead_forwards; /* by ft_drafter_ahead */
    uint64_t ahead_nodes;    /* computed by them, heads included */
    uint64_t ahead_kept; /* of these, those that a verdict took into the text or left in the pool */
    uint64_t heads;      /* verdicts on rounds whose head was computed */
    uint64_t aligned;    /* of these, those whose accepted path ended in the head */
    uint64_t matched;    /* of these, those whose next token was a child of the head */
} ft_drafter_stats;
/* Sums since creation. */
void ft_drafter_get_stats(const ft_drafter *drafter, ft_drafter_stats *out);

#endif
