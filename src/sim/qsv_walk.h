/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of edge-cloud speculative decoding, replayed on positions on a virtual clock
 * (Quantize-Sample-and-Verify, section IV-A). One edge, one text at a time, one uplink.
 *
 * Why a replay has the right law. In a round of quantize, then sample, a draft token y comes from
 * the point q^ and is accepted with probability min(1, p(y) / q^(y)), eq. (1). So token y is
 * accepted with probability min(p(y), q^(y)), and y follows after a rejection with probability
 * p(y) - min(p(y), q^(y)), eq. (2). A replay takes the token x that the target drew from p and
 * accepts it with probability min(1, q^(x) / p(x)): x is accepted with probability
 * min(p(x), q^(x)), and comes after a rejection with probability p(x) - min(p(x), q^(x)). Both are
 * the same, so token and acceptance have the same joint law given the tokens before; by induction
 * so have the text and the numbers of accepted tokens. Length and l must not
 * depend on what is drawn later.
 *
 * Behind the first rejected token a draft is on a text of its own, which nobody recorded. What it
 * costs there (bits of another code than `index`, the length up to a threshold) is taken from the
 * target's text.
 *
 * Plain data; a walk belongs to one thread. Pure: the same walk does the same on every machine. */
#ifndef FT_SIM_QSV_WALK_H
#define FT_SIM_QSV_WALK_H

#include <stdbool.h>

#include "learn/policy.h"
#include "learn/positions.h"
#include "sim/qsv_config.h"

/* How a draft is made and verified. */
typedef enum ft_qsv_kind {
    FT_QSV_QS,    /* tokens are drawn from points and verified against them: rule `ratio` */
    FT_QSV_SQ,    /* tokens are drawn from q and verified against points: biased */
    FT_QSV_WHOLE, /* tokens are drawn from q, which is sent as it is */
    FT_QSV_EXACT  /* rule `exact`: shared noise; only tokens are sent */
} ft_qsv_kind;

/* A draft. Its last level may be cut off by the end of the text. */
typedef struct ft_qsv_draft {
    ft_qsv_kind kind;
    uint32_t length; /* tokens, at least 1; of a tree: levels */
    uint32_t i_l;    /* QS, SQ: index into the config's l */
    uint32_t width;  /* EXACT: nodes of a level, all behind the first of the level before; else 1 */
    double threshold; /* ends where no token has this probability in q; 0: it has its length */
} ft_qsv_draft;

typedef struct ft_qsv_round {
    uint32_t levels, nodes;    /* drafted; a chain has one node a level */
    uint32_t accepted, tokens; /* tokens: accepted ones, and the target's own */
    double bits;               /* sent up */
    /* Times, eq. (9) */
    double draft_ms, up_ms, verify_ms, down_ms;
    /* The mean of `tokens` if acceptance were drawn again and again on this text, eq. (15). */
    double expected;
} ft_qsv_round;

/* A config and the positions that it is simulated on; both borrowed. */
typedef struct ft_qsv_setting {
    const ft_qsv_config *config;
    const ft_positions *positions;
    uint32_t row[FT_QSV_L]; /* of the config's l in the positions' tables */
    uint32_t token_bits;
    /* Of a verification, by the nodes of the draft, as many as there may be; borrowed. NULL: the
     * config's two constants say it. */
    const double *verify_ms;
} ft_qsv_setting;

/* FT_INVALID: the positions have no such l. */
FT_WARN_UNUSED ft_status ft_qsv_setting_init(const ft_qsv_config *config,
                                             const ft_positions *positions, ft_error *err,
                                             ft_qsv_setting *out);

typedef struct ft_qsv_walk {
    const ft_qsv_setting *setting;
    uint64_t seed;
    uint32_t replay;
    ft_line line;
    int64_t now_ns;
    uint32_t text;       /* index into the positions' texts */
    uint32_t at;         /* position of the next token */
    ft_policy_past past; /* as an edge knows it that sent the points of the drafts so far */
} ft_qsv_walk;

/* At time 0 in front of text 0. Acceptance is drawn by seed, replay, text and position, so walks
 * of other methods meet the same luck. A chain's steps are drawn by seed and replay. */
void ft_qsv_walk_init(ft_qsv_walk *walk, const ft_qsv_setting *setting, const ft_qsv_link *link,
                      uint64_t seed, uint32_t replay);
/* Goes to the begin of a text; time and uplink go on. */
void ft_qsv_walk_text(ft_qsv_walk *walk, uint32_t text);
/* True: the text has a further token. */
bool ft_qsv_walk_more(const ft_qsv_walk *walk);
/* What a policy sees here. */
void ft_qsv_walk_state(const ft_qsv_walk *walk, float state[FT_POLICY_INPUTS]);

/* One round; there is a further token. */
void ft_qsv_walk_round(ft_qsv_walk *walk, const ft_qsv_draft *draft, ft_qsv_round *out);
/* A token that the target makes without a draft. */
void ft_qsv_walk_plain(ft_qsv_walk *walk, ft_qsv_round *out);

#endif
