/* SPDX-License-Identifier: Apache-2.0
 *
 * How probable the draft model held the text's last tokens, for a draft policy (learn/policy.h).
 * Read from the points of drafts when their verdicts come, so it is a function of the text and of
 * what was sent for it. Under rules without points, and without a policy, nothing is kept.
 */
#ifndef FT_EDGE_CONFIDENCES_H
#define FT_EDGE_CONFIDENCES_H

#include "learn/policy.h"
#include "spec/rule.h"
#include "wire/messages.h"

typedef struct ft_confidences {
    ft_policy_past past;
    const ft_rule *rule;
    ft_rule_work *work; /* NULL: nothing is kept */
} ft_confidences;

/* Of a text that begins, with this rule and terms. policy: NULL: nothing is kept. FT_NOMEM. deinit
 * is owed in any case; all-zero is legal for it. */
FT_WARN_UNUSED ft_status ft_confidences_init(ft_confidences *c, const ft_policy *policy,
                                             const ft_rule *rule, const ft_rule_terms *terms,
                                             uint32_t n_vocab, ft_error *err);
void ft_confidences_deinit(ft_confidences *c);

/* The text has grown by a verdict on this draft, which has no nodes where it was a run. No
 * allocation. */
void ft_confidences_saw(ft_confidences *c, const ft_msg_draft *draft, const ft_msg_verdict *v);

#endif
