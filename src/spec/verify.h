/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification rules: which nodes of a tree the target keeps, and the token behind them. Pure
 * functions of logits; nothing here touches an engine.
 */
#ifndef FT_SPEC_VERIFY_H
#define FT_SPEC_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/sampling.h"
#include "spec/tree.h"

/* All-zero: a walk that has not begun. */
typedef struct ft_verified {
    uint32_t n_path;
    uint32_t path[FT_TREE_MAX]; /* accepted nodes from the root down */
    int32_t next;               /* the target's own token behind the path */
} ft_verified;

/* Where the walk finds logits: of(ctx, -1) for the text's last token, of(ctx, i) for node i; [n_vocab]
 * each; NULL: not yet computed. */
typedef struct ft_rows {
    const float *(*of)(void *ctx, int32_t node);
    void *ctx;
} ft_rows;

/* Rule `exact` (SpecEdge 4.1 with SpecExec's walk; DESIGN.md section 4): at each position draw the
 * target's token and follow the child that equals it. `position`: of the first drafted token in the
 * text, i.e. the text's length. The outcome depends on the target's logits, sampling and position
 * alone; the tree only decides how many tokens one walk yields. The walk goes on from where `found`
 * stands; true: it is over; false: the logits of the node that it has come to, the last of its path,
 * are not there: call again when they are. */
FT_WARN_UNUSED bool ft_verify_exact(const ft_tree *tree, ft_rows rows, ft_sampler *sampler,
                                    const ft_sampling *s, uint32_t position, ft_verified *found);

#endif
