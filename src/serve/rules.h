/* SPDX-License-Identifier: Apache-2.0
 *
 * The verification rules that a server offers (spec/rule.h): lists them for clients, chooses one
 * for an Open, and checks a session's drafts. Pure functions.
 */
#ifndef FT_SERVE_RULES_H
#define FT_SERVE_RULES_H

#include "spec/rule.h"
#include "wire/messages.h"

/* The rule of one session. */
typedef struct ft_sess_rule {
    const ft_rule *rule;
    ft_rule_terms terms; /* the rule's terms for the session's sampling */
} ft_sess_rule;

/* FT_INVALID: no rule, too many, or two with the same id. */
FT_WARN_UNUSED ft_status ft_rules_check(const ft_rule *const *rules, ft_error *err);
/* Writes the rules and their limits into *limits, in which max_tree is already set. */
void ft_rules_tell(const ft_rule *const *rules, uint32_t n_vocab, ft_msg_limits *limits);
/* The rule with this id. FT_PRECONDITION: it is not offered; the message lists the offered ones. */
FT_WARN_UNUSED ft_status ft_rules_choose(const ft_rule *const *rules, uint32_t id, ft_error *err,
                                         const ft_rule **out);

/* Checks a draft before anything is computed from it. Not for early drafts. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_sess_rule_check(const ft_sess_rule *r, const ft_drafted *draft,
                                            ft_error *err);

#endif
