// SPDX-License-Identifier: Apache-2.0
// The verification rule that the edge chooses for a text. Info lists the server's rules, so Open is
// refused only if the server was started anew or another server has the same address. Any text may
// go on with the fallback: under every rule the tokens have the target's distribution.
#include "edge/text_rule.h"

#include "base/log.h"
#include "base/num.h"

const ft_rule *ft_text_rule_fallback(void)
{
    return ft_rules_default[0];
}

bool ft_text_rule_is_offered(const ft_rule *rule, const ft_msg_limits *limits)
{
    if (limits->n_rules == 0)
        return rule->id == ft_text_rule_fallback()->id;
    for (uint32_t i = 0; i < limits->n_rules; i++)
        if (limits->rules[i] == rule->id)
            return true;
    return false;
}

void ft_text_rule_warn(const ft_rule *wanted, const ft_msg_limits *limits)
{
    if (!ft_text_rule_is_offered(wanted, limits))
        FT_LOGW("edge", "the server does not offer rule %s: texts follow rule %s", wanted->name,
                ft_text_rule_fallback()->name);
}

void ft_text_rule_init(ft_text_rule *t, const ft_rule *rule, ft_why why, uint32_t n_vocab,
                       const ft_sampling *s)
{
    *t = (ft_text_rule){.rule = rule, .why = why, .terms = rule->terms(rule, n_vocab, s)};
    t->same_tokens = t->terms.same_tokens;
}

void ft_text_rule_deinit(ft_text_rule *t)
{
    ft_buf_deinit(&t->evidence);
}

bool ft_text_rule_refused(ft_text_rule *t, ft_status code, uint32_t n_vocab, const ft_sampling *s,
                          uint32_t n)
{
    const ft_rule *fallback = ft_text_rule_fallback();
    /* FT_INVALID: the first draft was sent together with Open. A server that does not know evidence
     * refuses whichever it reads first. */
    if ((code != FT_PRECONDITION && code != FT_INVALID) || t->rule == fallback)
        return false;
    FT_LOGW("edge", "open was refused: the text goes on with rule %s instead of %s", fallback->name,
            t->rule->name);
    t->rule = fallback;
    t->why = FT_WHY_REFUSED;
    t->terms = fallback->terms(fallback, n_vocab, s);
    t->same_tokens = t->terms.same_tokens && (n == 0 || t->same_tokens);
    return true;
}

uint32_t ft_text_rule_nodes(const ft_text_rule *t, const ft_msg_limits *limits)
{
    const uint32_t nodes = limits->max_tree > 0 ? limits->max_tree : FT_TREE_MAX;
    const uint32_t fit = ft_evidence_nodes(&t->terms, limits->max_evidence_bytes);
    return fit > 0 ? ft_min_u32(nodes, fit)
                   : 1; /* a server takes at least one node with each rule that it offers */
}

void ft_text_rule_cut(ft_msg_draft *draft, uint32_t most)
{
    const ft_drafted drafted = {.evidence = draft->evidence, .n_evidence = draft->n_evidence};
    uint32_t n = 0;
    if (draft->n <= most)
        return;
    draft->n = most;
    if (draft->n_evidence == 0)
        return;
    const uint8_t *last = ft_evidence_of(&drafted, most - 1, &n);
    draft->n_evidence = (uint32_t)(last + n - draft->evidence);
}

ft_status ft_text_rule_evidence(ft_text_rule *t, const ft_drafter *drafter, ft_msg_draft *out)
{
    ft_status status = FT_OK;
    out->n_evidence = 0;
    out->evidence = NULL;
    ft_buf_clear(&t->evidence);
    if (t->terms.evidence_bytes == 0)
        return FT_OK;
    for (uint32_t i = 0; i < out->n && status == FT_OK; i++) {
        uint32_t n;
        const uint8_t *evidence = ft_drafter_evidence(drafter, i, &n);
        status = ft_evidence_append(&t->evidence, evidence, n);
    }
    out->evidence = (const uint8_t *)t->evidence.data;
    out->n_evidence = (uint32_t)t->evidence.len;
    return status;
}
