/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rule a text is opened with: `exact` with trees, or `ratio` with chains whose nodes carry a
 * point of the draft's distribution each. By expected tokens a second at the uplink's rate:
 *
 *   tokens of a round   1 + a + a^2 + ... + a^levels   (Leviathan et al., Fast inference from
 *                       transformers via speculative decoding, 2023, eq. (1))
 *   time of a round     drafting + empty round trip + 8 * bytes / rate + verification
 *
 * each at the number of levels that is best for it. With d, the total variation distance between
 * draft and target, the chance a of one more level is
 *
 *   ratio   1 - d               what its rule accepts
 *   exact   (1 - d) / (1 + d)   at least: draws by shared noise agree so often (Daliri, Musco and
 *                               Suresh, Coupling without communication, 2024); a tree's further
 *                               children agree oftener
 *
 * So `ratio` accepts more for the same d, and takes more bytes. While the rate is not known it is
 * `exact`; after FT_RULE_TRY_AFTER such texts one is opened with `ratio`, whose large messages tell
 * the rate.
 *
 * Pure: values come in, a choice comes out. */
#ifndef FT_SPEC_RULE_CHOICE_H
#define FT_SPEC_RULE_CHOICE_H

#include "spec/uplink.h"

#define FT_RULE_TRY_AFTER 20

typedef enum ft_rule_kind { FT_RULE_KIND_EXACT, FT_RULE_KIND_RATIO } ft_rule_kind;

typedef enum ft_rule_reason {
    FT_RULE_REASON_UNKNOWN, /* the rate or the distance is not known */
    FT_RULE_REASON_TRY,     /* the rate was not known for long */
    FT_RULE_REASON_FASTER
} ft_rule_reason;

/* Rounds of a rule: what they take without levels, and what each level adds. */
typedef struct ft_rule_rounds {
    uint32_t most_levels;
    double bytes, level_bytes;
    double verify_us, level_verify_us;
    double forward_us; /* drafting a level */
} ft_rule_rounds;

typedef struct ft_rule_view {
    ft_uplink_rate rate;    /* its empty_us must be known with it */
    uint32_t texts_unknown; /* opened with `exact` since the last try, the rate not known */
    bool distance_known;
    double distance; /* total variation, [0, 1] */
    ft_rule_rounds exact, ratio;
} ft_rule_view;

typedef struct ft_rule_choice {
    ft_rule_kind rule;
    ft_rule_reason reason;
    double exact_tokens_per_s, ratio_tokens_per_s; /* expected; 0: not computed */
    uint32_t texts_unknown;                        /* for the next text's view */
} ft_rule_choice;

/* The most tokens a second of such rounds, if one more level is accepted with this chance. */
double ft_rule_tokens_per_s(const ft_rule_rounds *rounds, double chance,
                            const ft_uplink_rate *rate);

/* The rule of the next text. Of equal speeds: `exact`, whose text is a function of prompt and
 * seed. */
ft_rule_choice ft_rule_choose(const ft_rule_view *view);

#endif
