// SPDX-License-Identifier: Apache-2.0
// Rule `exact`: the target's token at each position is drawn as if there were no tree, and the tree is
// followed while it holds that token. Invariant: the tokens along the path, and `next`, are those of
// plain decoding with the same logits, sampling and positions. No state; the sampler's owner calls.
#include "spec/verify.h"

bool ft_verify_exact(const ft_tree *tree, ft_rows rows, ft_sampler *sampler, const ft_sampling *s,
                     uint32_t position, ft_verified *found)
{
    for (;;) {
        int32_t node = found->n_path ? (int32_t)found->path[found->n_path - 1] : -1;
        const float *logits = rows.of(rows.ctx, node);
        if (!logits)
            return false;
        found->next = ft_sampler_draw(sampler, s, logits, position + found->n_path);
        node = ft_tree_find_child(tree, node, found->next);
        if (node < 0)
            return true;
        found->path[found->n_path++] = (uint32_t)node;
    }
}
