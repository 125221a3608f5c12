/* SPDX-License-Identifier: Apache-2.0
 *
 * The verification rule of a text (spec/rule.h): which one the server offers, the evidence that a
 * draft carries, and whether a text that is opened anew keeps its tokens. No thread of its own.
 */
#ifndef FT_EDGE_TEXT_RULE_H
#define FT_EDGE_TEXT_RULE_H

#include "edge/stats.h"
#include "spec/drafter.h"
#include "spec/rule.h"
#include "wire/messages.h"

/* The fallback: the rule that every server offers. */
const ft_rule *ft_text_rule_fallback(void);

/* Whether the server offers it. */
bool ft_text_rule_is_offered(const ft_rule *rule, const ft_msg_limits *limits);
/* Logs a warning if it does not. */
void ft_text_rule_warn(const ft_rule *wanted, const ft_msg_limits *limits);

typedef struct ft_text_rule {
    const ft_rule *rule;
    ft_why why;
    ft_rule_terms terms; /* for the text's sampling */
    bool same_tokens;    /* see ft_gen_stats */
    ft_buf evidence;     /* of the outstanding draft */
} ft_text_rule;

/* deinit frees the evidence. */
void ft_text_rule_init(ft_text_rule *t, const ft_rule *rule, ft_why why, uint32_t n_vocab,
                       const ft_sampling *s);
void ft_text_rule_deinit(ft_text_rule *t);

/* The stream ended with `code` before Opened. True: the rule may be the cause, and the text, which
 * has `n` generated tokens, goes on with the fallback. */
bool ft_text_rule_refused(ft_text_rule *t, ft_status code, uint32_t n_vocab, const ft_sampling *s,
                          uint32_t n);

/* The most nodes of a draft that the server takes. */
uint32_t ft_text_rule_nodes(const ft_text_rule *t, const ft_msg_limits *limits);
/* Leaves the draft's first nodes, at most so many. Parents stand before children, so they are a
 * tree. Their evidence stays as it is. */
void ft_text_rule_cut(ft_msg_draft *draft, uint32_t most);
/* Writes the evidence of the drafter's last tree, of out->n nodes, into *out, which borrows it.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_text_rule_evidence(ft_text_rule *t, const ft_drafter *drafter,
                                               ft_msg_draft *out);

#endif
