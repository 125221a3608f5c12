// SPDX-License-Identifier: Apache-2.0
// Confidences of a text's tokens. Invariant: `past` has told of judged tokens alone. What is drawn
// for the next draft must not be looked at before its length is chosen (spec/rule.h). Owned by the
// generation's thread.
#include "edge/confidences.h"

ft_status ft_confidences_init(ft_confidences *c, const ft_policy *policy, const ft_rule *rule,
                              const ft_rule_terms *terms, uint32_t n_vocab, ft_error *err)
{
    const ft_rule *const rules[] = {rule, NULL};
    *c = (ft_confidences){.rule = rule};
    if (!policy || !rule->said || terms->evidence_bytes == 0)
        return FT_OK;
    return ft_rule_work_create(rules, n_vocab, err, &c->work);
}

void ft_confidences_deinit(ft_confidences *c)
{
    ft_rule_work_destroy(c->work);
    *c = (ft_confidences){0};
}

/* What the point for a node's place says of the token that came there; below 0: there is none. */
static float said(const ft_confidences *c, const ft_msg_draft *draft, uint32_t node, int32_t token)
{
    const ft_drafted drafted = {.evidence = draft->evidence, .n_evidence = draft->n_evidence};
    uint32_t n = 0;
    if (node >= draft->n || draft->n_evidence == 0)
        return -1;
    const uint8_t *evidence = ft_evidence_of(&drafted, node, &n);
    return c->rule->said(c->rule, c->work, evidence, n, token);
}

/* Drafts with points are chains: the target's own token has the place behind the accepted path. */
void ft_confidences_saw(ft_confidences *c, const ft_msg_draft *draft, const ft_msg_verdict *v)
{
    if (!c->work)
        return;
    for (uint32_t i = 0; i < v->n_path; i++)
        ft_policy_saw(&c->past, said(c, draft, v->path[i], draft->token[v->path[i]]));
    for (uint32_t i = 0; i < v->n_next; i++)
        ft_policy_saw(&c->past, said(c, draft, v->n_path + i, v->next[i]));
}
