// SPDX-License-Identifier: Apache-2.0
// EdgeLLM III-C: T_c = max over all branches of C_i, and the rule by which alpha follows verdicts.
// Invariant: FT_FALLBACK_LEAST <= alpha <= FT_FALLBACK_MOST. Pure; the caller owns the state.
#include "spec/fallback.h"

#include <assert.h>
#include <math.h>

#define ALPHA_FIRST 0.01f /* the paper's; fig. 12 (a): other beginnings are a little slower */
#define ALPHA_LOWER 0.5f  /* the paper's; fig. 12 (b): others cost up to the 1.4-fold */

ft_fallback ft_fallback_begin(float alpha)
{
    assert(alpha == 0 || (alpha >= FT_FALLBACK_LEAST && alpha <= FT_FALLBACK_MOST));
    return (ft_fallback){.alpha = alpha > 0 ? alpha : ALPHA_FIRST, .fixed = alpha > 0};
}

/* A leaf that is not its parent's best child is no branch's end: the draft has not gone there, the
 * forward behind its parent only named it. The paper does not say what such tokens are. Counted as
 * branches they would keep T_c high however doubtful the tree is. */
float ft_fallback_confidence(const ft_tree *tree)
{
    bool seen[1 + FT_TREE_MAX] = {false}, first[FT_TREE_MAX] = {false};
    float best = -INFINITY;
    for (uint32_t i = 0; i < tree->n; i++) { /* siblings stand in falling order of chance */
        first[i] = !seen[1 + tree->parent[i]];
        seen[1 + tree->parent[i]] = true;
    }
    for (uint32_t i = 0; i < tree->n; i++)
        if (!seen[1 + i] && first[i])
            best = fmaxf(best, tree->cum_logp[i]);
    return tree->n > 0 ? expf(best) : 1;
}

bool ft_fallback_now(const ft_fallback *f, float confidence)
{
    return confidence < f->alpha;
}

/* The tokens of the branch that matches the text best. All branches through the end of the accepted
 * path match as well as each other: the likeliest of them is taken. */
static uint32_t best_matching(const ft_tree *tree, const uint32_t *path, uint32_t n_path)
{
    int32_t at = n_path > 0 ? (int32_t)path[n_path - 1] : -1, next = at;
    uint32_t n = n_path;
    for (;; n++) {
        for (uint32_t i = (uint32_t)(at + 1); i < tree->n; i++)
            if (tree->parent[i] == at && (next == at || tree->cum_logp[i] > tree->cum_logp[next]))
                next = (int32_t)i;
        if (next == at)
            return n;
        at = next;
    }
}

/* Eq. (3). For N_correct < N_all it is printed without alpha and T_c, as (N_all - N_correct) /
 * N_all, which is the exponent of the rule that the prose tells: alpha is divided by the confidence
 * of what stands behind the error. T_c is the product of the tokens' confidences, so the share of
 * it that belongs to N_all - N_correct of N_all tokens is a power of it. */
void ft_fallback_saw(ft_fallback *f, const ft_tree *tree, const uint32_t *path, uint32_t n_path)
{
    if (f->fixed || tree->n == 0)
        return;
    assert(n_path <= tree->n && (n_path == 0 || path[n_path - 1] < tree->n));
    const uint32_t n_all = best_matching(tree, path, n_path);
    const float wrong = (float)(n_all - n_path) / (float)n_all;
    /* T_c of 0 would divide by 0; the quotient is limited anyway. */
    const float t_c = fmaxf(ft_fallback_confidence(tree), FT_FALLBACK_LEAST);
    const float alpha = n_path == n_all ? f->alpha * ALPHA_LOWER : f->alpha / powf(t_c, wrong);
    f->alpha = fminf(fmaxf(alpha, FT_FALLBACK_LEAST), FT_FALLBACK_MOST);
}
