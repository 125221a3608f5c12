// SPDX-License-Identifier: Apache-2.0
// Rule `exact` (SpecEdge 4.1 with SpecExec's walk): the target's token at each position is drawn as
// if there were no tree, and the tree is followed as long as it holds that token. Invariant: the
// tokens of the path, and `next`, are those of plain decoding with the same logits, sampling and
// positions. So no evidence is needed, and drafts change only how many tokens a walk yields. The
// edge draws with the same noise. No state; the workspace's owner calls.
#include <math.h>

#include "spec/rule.h"

/* Scores to log-chances that the target chooses each candidate.
 *
 * The target will take the token with the largest log p + G, and G is known here: only p is not.
 * The draft's score log q + G misses the target's by log p - log q. If those errors were Gumbel
 * noise of scale 1 / s, then the chance that candidate i ends first would be exactly the softmax of
 * s * score, i.e. proportional to (q exp(G))^s. q alone would be wrong: a likely token with unlucky
 * noise will not be drawn. Here s is 1 and only ranked candidates count. What s is for this pair,
 * and how much is behind the ranked ones, the drafter learns from verdicts (ft_calibration). At
 * temperature 0 there is no noise, the target takes its most probable token, and log q serves. */
static void estimate(float temperature, ft_candidate *c, size_t n)
{
    float sum = 0;
    if (temperature == 0)
        return;
    for (size_t i = 0; i < n; i++)
        sum += expf(c[i].score - c[0].score);
    float log_sum = logf(sum);
    for (size_t i = n; i-- > 0;)
        c[i].logp = c[i].score - c[0].score - log_sum;
}

static void draw(const ft_rule *rule, ft_rule_work *work, const ft_draw *d, ft_draft_children *out,
                 uint8_t *evidence)
{
    ft_candidate c[FT_DRAFT_RANKED];
    size_t n = ft_sampler_rank(work->sampler, d->sampling, ft_rule_draw_logits(work, d),
                               d->position, c, FT_DRAFT_RANKED);
    estimate(d->sampling->temperature, c, n);
    out->n = (uint32_t)n;
    out->n_evidence = 0;
    out->counted = false;
    out->shape = ft_sampler_shape(work->sampler);
    for (size_t i = 0; i < n; i++)
        out->at[i] = (ft_draft_child){.token = c[i].token,
                                      /* rounding may leave it just above 0 */
                                      .logp = c[i].logp < 0 ? c[i].logp : 0};
}

static bool walk(const ft_rule *rule, ft_rule_work *work, const ft_drafted *draft, ft_rows rows,
                 ft_verified *found)
{
    for (;;) {
        int32_t node = found->n_path ? (int32_t)found->path[found->n_path - 1] : -1;
        const float *logits = rows.of(rows.ctx, node);
        if (!logits)
            return false;
        logits = ft_rule_walk_logits(work, draft, found, logits);
        found->next = ft_rule_walk_token(work, draft, found, logits);
        node = ft_tree_find_child(draft->tree, node, found->next);
        if (node < 0)
            return true;
        found->path[found->n_path++] = (uint32_t)node;
    }
}

static ft_rule_terms terms(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s)
{
    return (ft_rule_terms){.trees = true, .adaptive = true, .same_tokens = true};
}

const ft_rule ft_rule_exact = {
    .id = 0, .name = "exact", .terms = terms, .draw = draw, .walk = walk};
