/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates ways to choose drafts on positions (sim/qsv_walk.h says what a round is and why the
 * replay has the right law): tokens per second on one uplink, summed over texts and replays. Pure;
 * any thread. */
#ifndef FT_SIM_QSV_H
#define FT_SIM_QSV_H

#include "sim/qsv_walk.h"

/* X(NAME, "name in reports") */
#define FT_QSV_METHOD_LIST(X)                                                                \
    X(PLAIN, "plain")         /* the target alone */                                         \
    X(POLICY, "policy")       /* a draft policy chooses length and l */                      \
    X(FIXED, "fixed")         /* always the same length and l */                             \
    X(THRESHOLD, "threshold") /* up to where q is unsure; the same l */                      \
    X(HEURISTIC, "heuristic") /* length + step if all were accepted, else as many as were */ \
    X(SQ, "sample-quantize")  /* fixed, but sampled before it is quantized */                \
    X(WHOLE, "uncompressed")  /* q is sent as it is */                                       \
    X(CHAIN, "exact chain")   /* shared noise, a chain of tokens */                          \
    X(TREE, "exact tree")     /* shared noise, the first tokens of each level */
typedef enum ft_qsv_method {
#define X(name, text) FT_QSV_METHOD_##name,
    FT_QSV_METHOD_LIST(X)
#undef X
        FT_QSV_METHODS
} ft_qsv_method;
extern const char *const ft_qsv_method_name[FT_QSV_METHODS];

/* A method with its numbers. */
typedef struct ft_qsv_way {
    ft_qsv_method method;
    uint32_t length;         /* most tokens of a draft; HEURISTIC: of the first; not of POLICY */
    uint32_t i_l;            /* index into the config's l */
    uint32_t width;          /* TREE: nodes of a level, 2 or more */
    double threshold;        /* THRESHOLD */
    const ft_policy *policy; /* POLICY: for the config's l and lengths (ft_qsv_check_policy) */
} ft_qsv_way;

typedef struct ft_qsv_opts {
    const ft_qsv_setting *setting;
    const ft_qsv_link *link;
    const uint32_t *texts; /* [n_texts] indices of those to replay */
    size_t n_texts;
    uint32_t replays;
    uint64_t seed;
} ft_qsv_opts;

/* Sums. */
typedef struct ft_qsv_result {
    uint64_t rounds, levels, nodes, accepted, tokens;
    uint64_t l_sum; /* of l, over nodes that have one */
    double bits, draft_ms, up_ms, verify_ms, down_ms;
} ft_qsv_result;

/* FT_INVALID: its choices are not those of the config. */
FT_WARN_UNUSED ft_status ft_qsv_check_policy(const ft_qsv_config *config, const ft_policy *policy,
                                             ft_error *err);

/* Runs a way; eq. (10) is the sum of the times. */
void ft_qsv_run(const ft_qsv_opts *opts, const ft_qsv_way *way, ft_qsv_result *out);
double ft_qsv_tokens_per_s(const ft_qsv_result *result);

#endif
