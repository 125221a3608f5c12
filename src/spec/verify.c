// SPDX-License-Identifier: Apache-2.0
// Rule `exact`: the target's token at each position is drawn as if there were no tree, and the tree is
// followed while it holds that token. Invariant: the tokens along the path, and `next`, are those of
// plain decoding with the same logits, sampling and positions. No state; the sampler's owner calls.
#include "spec/verify.h"

void ft_verify_exact(const ft_tree *tree, ft_rows rows, ft_sampler *sampler, const ft_sampling *s,
                     uint32_t position, ft_verified *out)
{
    int32_t node = -1;
    out->n_path = 0;
    for (;;) {
        out->next = ft_sampler_draw(sampler, s, rows.of(rows.ctx, node), position + out->n_path);
        node = ft_tree_find_child(tree, node, out->next);
        if (node < 0)
            return;
        out->path[out->n_path++] = (uint32_t)node;
    }
}
