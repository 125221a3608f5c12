// SPDX-License-Identifier: Apache-2.0
// The choice of a text's rule; spec/rule_choice.h has the formula. No state.
#include "spec/rule_choice.h"

#include <math.h>

double ft_rule_tokens_per_s(const ft_rule_rounds *rounds, double chance, const ft_uplink_rate *rate)
{
    double best = 0, tokens = 1, reached = 1;
    for (uint32_t n = 0; n <= rounds->most_levels; n++) {
        const double us = n * rounds->forward_us + rate->empty_us +
                          8e6 * (rounds->bytes + n * rounds->level_bytes) / rate->bits_per_s +
                          rounds->verify_us + n * rounds->level_verify_us;
        best = fmax(best, us > 0 ? 1e6 * tokens / us : 0);
        reached *= chance;
        tokens += reached;
    }
    return best;
}

ft_rule_choice ft_rule_choose(const ft_rule_view *v)
{
    const double d = v->distance;
    ft_rule_choice choice = {.reason = FT_RULE_REASON_UNKNOWN};
    if (!v->rate.known && v->texts_unknown >= FT_RULE_TRY_AFTER) {
        choice.rule = FT_RULE_KIND_RATIO;
        choice.reason = FT_RULE_REASON_TRY;
        return choice;
    }
    choice.texts_unknown = v->rate.known ? 0 : v->texts_unknown + 1;
    if (!v->rate.known || !v->distance_known)
        return choice;
    choice.exact_tokens_per_s = ft_rule_tokens_per_s(&v->exact, (1 - d) / (1 + d), &v->rate);
    choice.ratio_tokens_per_s = ft_rule_tokens_per_s(&v->ratio, 1 - d, &v->rate);
    choice.reason = FT_RULE_REASON_FASTER;
    if (choice.ratio_tokens_per_s > choice.exact_tokens_per_s)
        choice.rule = FT_RULE_KIND_RATIO;
    return choice;
}
