// SPDX-License-Identifier: Apache-2.0
// Rounds of both rules, as their controllers and drafts have measured them. Of a rule without texts
// yet the other's times count, and its points are as large as they can be. The edge owns the state,
// under its mutex.
#include "edge/rule_auto.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/num.h"
#include "edge/text_rule.h"

#define NODE_BYTES 4 /* of a node's token and parent, where none was sent yet */

ft_status ft_rule_auto_empty_bytes(ft_error *err, uint64_t *out)
{
    const ft_client_msg msg = {.kind = FT_CLIENT_DRAFT, .draft = {.round = 1, .base = 1, .run = 1}};
    uint8_t *bytes = NULL;
    size_t n = 0;
    ft_status status = ft_client_msg_encode(&msg, err, &bytes, &n);
    free(bytes);
    *out = ft_wire_message_bytes(n);
    return status;
}

/* Levels of a draft at most. Without `automatic` a draft has all of them. */
static void set_levels(const struct ft_edge *edge, const ft_rule_terms *terms, ft_rule_rounds *r)
{
    const ft_draft_params *draft = &edge->how.draft;
    const ft_msg_limits *limits = &edge->limits;
    const uint32_t nodes = limits->max_tree > 0 ? limits->max_tree : FT_TREE_MAX;
    r->most_levels = ft_min_u32(ft_min_u32(draft->depth, draft->budget), nodes);
    r->most_levels =
        ft_min_u32(r->most_levels, ft_evidence_nodes(terms, limits->max_evidence_bytes));
    r->least_levels = edge->how.automatic ? 0 : r->most_levels;
}

static ft_rule_rounds rounds_of(const struct ft_edge *edge, ft_rule_kind kind, ft_warmth warmth,
                                const ft_rule_terms *terms)
{
    const ft_rule_seen *seen = &edge->learnt[kind][warmth].seen;
    const ft_control *c = &ft_edge_nearest(edge, kind, warmth)->at[FT_PLACE_SERVER].control;
    const double wide = seen->levels > 0 ? seen->nodes / seen->levels : 1;
    ft_rule_rounds r = {.bytes = (double)edge->empty_bytes,
                        .level_bytes = wide * NODE_BYTES + terms->evidence_bytes,
                        .verify_us = ft_control_answer_us(c, 0),
                        .level_verify_us = wide * ft_control_row_us(c),
                        .forward_us = c->forwards * ft_control_forward_us(c)};
    if (seen->sized > 0)
        r.level_bytes = seen->sized_bytes / seen->sized;
    set_levels(edge, terms, &r);
    return r;
}

void ft_rule_auto_choose(struct ft_edge *edge, const ft_sampling *sampling, ft_uplink_rate rate,
                         ft_edge_start *start)
{
    static const ft_why whys[] = {[FT_RULE_REASON_UNKNOWN] = FT_WHY_UNKNOWN,
                                  [FT_RULE_REASON_TRY] = FT_WHY_TRY,
                                  [FT_RULE_REASON_FASTER] = FT_WHY_FASTER};
    const ft_rule *rules[FT_RULE_KINDS] = {ft_text_rule_fallback(), edge->how.rule};
    const uint32_t n_vocab = (uint32_t)ft_vocab_size(edge->how.vocab);
    const ft_warmth warmth = ft_warmth_of(sampling);
    const ft_control *exact =
        &ft_edge_nearest(edge, FT_RULE_KIND_EXACT, warmth)->at[FT_PLACE_SERVER].control;
    ft_rule_view view = {.rate = rate,
                         .texts_unknown = edge->texts_unknown,
                         .run_us = edge->how.automatic ? ft_control_token_us(exact) : 0};
    start->rule = rules[FT_RULE_KIND_EXACT];
    start->why = FT_WHY_GREEDY;
    if (sampling->temperature == 0)
        return;
    for (uint32_t i = 0; i < FT_RULE_KINDS; i++) {
        const ft_rule_terms terms = rules[i]->terms(rules[i], n_vocab, sampling);
        view.rounds[i] = rounds_of(edge, (ft_rule_kind)i, warmth, &terms);
        view.seen[i] = edge->learnt[i][warmth].seen;
    }
    const ft_rule_choice choice = ft_rule_choose(&view);
    edge->texts_unknown = choice.texts_unknown;
    start->rule = rules[choice.rule];
    start->why = whys[choice.reason];
    FT_LOGD("edge",
            "rule=%s reason=%s mbit=%.3f exact_tokens_per_s=%.1f ratio_tokens_per_s=%.1f "
            "point_bytes=%.0f",
            start->rule->name, ft_why_name[start->why], rate.known ? rate.bits_per_s / 1e6 : 0,
            choice.tokens_per_s[0], choice.tokens_per_s[1],
            view.rounds[FT_RULE_KIND_RATIO].level_bytes);
}
