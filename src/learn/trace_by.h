/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trace file tells about drafts: how acceptance depends on what the draft's logits were like
 * (WISP figures 2 and 3), and how a text's speed depends on what its drafts wasted (figure 1). */
#ifndef FT_LEARN_TRACE_BY_H
#define FT_LEARN_TRACE_BY_H

#include "learn/trace.h"

#define FT_TRACE_BINS 10 /* of a feature, with about equally many nodes each */

/* Judged nodes whose feature is in a range. */
typedef struct ft_trace_bin {
    double from, to, mean; /* of the feature; both ends are values of nodes in it */
    uint64_t nodes, accepted;
    double low, high; /* 95 % interval of the share that is accepted (Wilson) */
} ft_trace_bin;

typedef struct ft_trace_by {
    uint64_t nodes, accepted; /* judged nodes with features */
    uint32_t n;
    ft_trace_bin bin[FT_TRACE_NODES]; /* [n], rising */
    double pearson[FT_FEATURES]; /* correlation with acceptance; NaN: the feature, or acceptance,
                                    is the same for all nodes */
} ft_trace_by;

/* Equal values are in one bin. FT_FEATURE_POSITION: a bin for each depth. Others may write
 * meanwhile. Errors as ft_trace_each_node, and FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_trace_by_feature(const char *path, ft_feature by, ft_error *err,
                                             ft_trace_by *out);

/* Texts that wasted about equally many tokens a draft. */
typedef struct ft_trace_waste_bin {
    uint32_t wasted_tokens; /* of a draft, the text's mean, rounded */
    uint64_t texts, rounds, drafted, tokens;
    uint64_t us; /* eq. (4): drafting, network, queue and verification of these rounds */
    ft_waste waste;
} ft_trace_waste_bin;

typedef struct ft_trace_waste {
    ft_trace_waste_bin sum;  /* of all; without wasted_tokens */
    uint64_t unknown_rounds; /* whose times are not all known: they are in nothing else */
    uint32_t n;
    ft_trace_waste_bin bin[FT_TRACE_NODES + 1]; /* [n], rising */
    double pearson; /* of wasted tokens a draft with tokens a second, over texts; NaN: as above */
} ft_trace_waste;

/* Errors as ft_trace_each_round. */
FT_WARN_UNUSED ft_status ft_trace_by_waste(const char *path, ft_error *err, ft_trace_waste *out);
/* Tokens a second by eq. (10), if a draft of the file's mean length and times wasted so many
 * tokens; not less than the target's own token a round. */
double ft_trace_waste_expected(const ft_trace_waste *by, double wasted_tokens);
/* Tokens a second. */
double ft_trace_waste_speed(const ft_trace_waste_bin *bin);

#endif
