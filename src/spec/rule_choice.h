/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rule a text is opened with: `exact` with trees, or `ratio` with chains whose nodes carry a
 * point of the draft's distribution each. By expected tokens a second at the uplink's rate:
 *
 *   tokens of a round   1 + a + a^2 + ... + a^levels   (Leviathan, Kalman and Matias, Fast
 *                       inference from transformers via speculative decoding, ICML 2023, eq. (1))
 *   time of a round     drafting + empty round trip + 8 * bytes / rate + verification
 *
 * each at the number of levels that is best for it. a is the chance of one more level. It is
 * measured, from drafts that were verified under the rule. Of a rule without such drafts it follows
 * from the other's. With d, the total variation distance between draft and target:
 *
 *   ratio   accepts a token with chance 1 - d
 *   exact   draws of both sides by the same Gumbel noise agree with chance (1 - d) / (1 + d) at
 *           least (Daliri, Musco and Suresh, Coupling without communication and drafter-invariant
 *           speculative decoding, arXiv 2408.07978). No two draws agree with more than 1 - d.
 *           With a tree's further children some child agrees oftener.
 *
 * So an edge that has seen acceptance under `ratio` knows d, and what `exact` reaches at least. An
 * edge that has seen the first children of its trees agree with chance c knows that d is at least
 * (1 - c) / (1 + c): `ratio` accepts at most 2 c / (1 + c). The edge hopes for that, opens texts
 * with `ratio` if it would pay, and knows better with each.
 *
 * `ratio` accepts more for the same d, and takes more bytes. Before any point was seen, each is
 * taken for as large as the rule allows. While the rate is not known, the rule is `exact`. After
 * FT_RULE_TRY_AFTER such texts one is opened with `ratio`, whose large messages tell the rate. The
 * same happens while the points are not known and could be small enough.
 *
 * All measurements are means over recent texts: prompts and temperatures are not told apart.
 *
 * Pure: values come in, a choice comes out. */
#ifndef FT_SPEC_RULE_CHOICE_H
#define FT_SPEC_RULE_CHOICE_H

#include "spec/tree.h"
#include "spec/uplink.h"

#define FT_RULE_TRY_AFTER 20

typedef enum ft_rule_kind { FT_RULE_KIND_EXACT, FT_RULE_KIND_RATIO, FT_RULE_KINDS } ft_rule_kind;

/* What became of the drafts under one rule. All-zero: nothing is known. Old drafts fade. */
typedef struct ft_rule_seen {
    double levels, nodes;      /* of drafts */
    double reached, passed;    /* levels that the text came to; that it went through */
    double parents, agreed;    /* nodes with children that the text came to; whose likeliest child
                                  became text */
    double sized, sized_bytes; /* levels of drafts whose bytes are known; bytes of these levels */
} ft_rule_seen;

/* A verdict on a tree's first n nodes: path[n_path] became text. bytes: of its message, less those
 * of an empty one; 0: not known. */
void ft_rule_saw(ft_rule_seen *seen, const ft_tree *tree, uint32_t n, const uint32_t *path,
                 uint32_t n_path, uint64_t bytes);
/* Whether there were enough drafts to count with the chances. */
bool ft_rule_is_seen(const ft_rule_seen *seen);

typedef enum ft_rule_reason {
    FT_RULE_REASON_UNKNOWN, /* the rate, or how drafts fare, is not known */
    FT_RULE_REASON_TRY,     /* something was not known for long */
    FT_RULE_REASON_FASTER
} ft_rule_reason;

/* Rounds of a rule: what they take without levels, and what each level adds. */
typedef struct ft_rule_rounds {
    uint32_t least_levels, most_levels;
    double bytes, level_bytes;
    double verify_us, level_verify_us;
    double forward_us; /* drafting a level */
} ft_rule_rounds;

typedef struct ft_rule_view {
    ft_uplink_rate rate;
    uint32_t texts_unknown;           /* of the last choice */
    double run_us;                    /* a token of a run, under any rule; 0: there are none */
    ft_rule_seen seen[FT_RULE_KINDS]; /* by ft_rule_kind */
    ft_rule_rounds rounds[FT_RULE_KINDS];
} ft_rule_view;

typedef struct ft_rule_choice {
    ft_rule_kind rule;
    ft_rule_reason reason;
    double tokens_per_s[FT_RULE_KINDS]; /* expected; 0: not computed */
    uint32_t texts_unknown;             /* for the next text's view */
} ft_rule_choice;

/* The most tokens a second of such rounds, if one more level is accepted with this chance. */
double ft_rule_tokens_per_s(const ft_rule_rounds *rounds, double chance,
                            const ft_uplink_rate *rate);

/* The chance of one more level under a rule; the view has seen drafts of one rule at least. */
double ft_rule_chance(const ft_rule_view *view, ft_rule_kind rule);

/* The rule of the next text. Of equal speeds: `exact`, whose text is a function of prompt and
 * seed. */
ft_rule_choice ft_rule_choose(const ft_rule_view *view);

#endif
