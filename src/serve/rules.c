// SPDX-License-Identifier: Apache-2.0
// The rules that a server offers, and the rule of a session. This file has no state. serve/judge.c
// does the walks.
#include "serve/rules.h"

#include "base/buf.h"

ft_status ft_rules_check(const ft_rule *const *rules, ft_error *err)
{
    uint32_t n = 0;
    for (; rules[n]; n++)
        if (ft_rule_find(rules, rules[n]->id) != rules[n])
            return ft_error_set(err, FT_INVALID, "serve: rules %s and %s have the same id, %u",
                                ft_rule_find(rules, rules[n]->id)->name, rules[n]->name,
                                rules[n]->id);
    if (n == 0 || n > FT_WIRE_RULES_MAX)
        return ft_error_set(err, FT_INVALID, "serve: %u rules: offer 1 to %d", n,
                            FT_WIRE_RULES_MAX);
    return FT_OK;
}

void ft_rules_tell(const ft_rule *const *rules, uint32_t n_vocab, ft_msg_limits *limits)
{
    const size_t most = ft_evidence_most(rules, n_vocab, limits->max_tree);
    for (; *rules; rules++)
        limits->rules[limits->n_rules++] = (*rules)->id;
    limits->max_evidence_bytes =
        most < FT_WIRE_EVIDENCE_MAX ? (uint32_t)most : FT_WIRE_EVIDENCE_MAX;
}

ft_status ft_rules_choose(const ft_rule *const *rules, uint32_t id, ft_error *err,
                          const ft_rule **out)
{
    *out = ft_rule_find(rules, id);
    if (*out)
        return FT_OK;
    ft_buf offered = {0};
    for (const ft_rule *const *r = rules; *r; r++)
        (void)ft_buf_printf(&offered, "%s%u (%s)", r == rules ? "" : ", ", (*r)->id, (*r)->name);
    ft_status status =
        ft_error_set(err, FT_PRECONDITION, "serve: rule %u is not offered here: open with %s", id,
                     ft_buf_str(&offered));
    ft_buf_deinit(&offered);
    return status;
}

ft_status ft_sess_rule_check(const ft_sess_rule *r, const ft_drafted *draft, ft_error *err)
{
    ft_error why = {0};
    ft_status status = ft_rule_check(r->rule, &r->terms, draft, &why);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "serve: %s", why.message);
}
