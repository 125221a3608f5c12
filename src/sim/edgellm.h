/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates EdgeLLM and its baselines on a virtual clock. The drafter (spec/drafter.h), its ways to
 * grow trees and the fallback are the real ones. The draft model and the texts are made up
 * (edgellm_world.h), and computing takes no time but on the clock:
 *
 *   [draft: draft_s a token]* -> verification, verify_s -> verdict -> ...
 *                                 [proactive: proactive_s a token]*
 *
 * Pure: the same options give the same result on every machine. Any thread. */
#ifndef FT_SIM_EDGELLM_H
#define FT_SIM_EDGELLM_H

#include "sim/edgellm_config.h"

/* The methods of the paper's figures 15 and 22, EdgeLLM with one part left out or replaced, and
 * EdgeLLM with another reading of eq. (3). The paper's abbreviations: BNV: trees by the pacer; PP:
 * provisional generation, our proactive drafting; SF: fallback. X(NAME, "name in reports") */
#define FT_EDGELLM_METHOD_LIST(X)                                                               \
    X(STD, "std")                  /* the target alone, a token a pass */                       \
    X(SPL, "spl")                  /* the same, reading while computing */                      \
    X(DRAFT, "draft")              /* the draft model alone: not the target's text */           \
    X(SP, "sp")                    /* chains of a fixed length */                               \
    X(SPECINFER, "specinfer")      /* trees with fixed widths */                                \
    X(BNV, "bnv")                  /* trees by the pacer, with a fixed number of nodes */       \
    X(BNV_PP, "bnv+pp")            /* the same, with proactive drafting */                      \
    X(ALL, "edgellm")              /* trees by the pacer, proactive drafting, fallback */       \
    X(NO_PP, "no proactive")       /* ALL without proactive drafting */                         \
    X(BEST, "best first")          /* ALL, but the tree grows best first */                     \
    X(ANYWHERE, "ahead anywhere")  /* ALL, but drafts ahead where the text likeliest goes on */ \
    X(FIXED, "fixed alpha")        /* ALL, but verdicts do not move alpha */                    \
    X(PRINTED, "alpha as printed") /* ALL, but alpha becomes what eq. (3) prints */             \
    X(MEAN, "alpha over mean")     /* ... is divided by the mean C_i behind the error */
typedef enum ft_edgellm_method {
#define X(name, text) FT_EDGELLM_##name,
    FT_EDGELLM_METHOD_LIST(X)
#undef X
        FT_EDGELLM_METHODS
} ft_edgellm_method;
extern const char *const ft_edgellm_method_name[FT_EDGELLM_METHODS];

/* A method with its numbers. */
typedef struct ft_edgellm_way {
    ft_edgellm_method method;
    uint32_t tok;    /* SP, BNV, BNV_PP: nodes of a draft */
    uint32_t widths; /* SPECINFER: index into the config's */
    float alpha;     /* FIXED */
    bool chain;      /* from ALL on: a branch alone instead of a tree */
} ft_edgellm_way;

typedef struct ft_edgellm_opts {
    const ft_edgellm_config *config; /* borrowed */
    const ft_edgellm_pair *pair;     /* of it */
    uint32_t dataset;                /* of the pair */
    double verify_s;                 /* of a pass */
    uint64_t seed;                   /* of texts */
} ft_edgellm_opts;

/* Sums over all texts. */
typedef struct ft_edgellm_result {
    uint64_t tokens, verifications;
    uint64_t drafted;   /* rows of the draft model, proactive ones not among them */
    uint64_t proactive; /* rows while a pass ran */
    uint64_t kept;      /* of these, rows that a verdict left of use */
    uint64_t errors;    /* verdicts that did not accept a branch to its end */
    uint64_t in_doubt;  /* drafts that alpha ended */
    uint64_t branches;  /* of all drafts: leaves of their trees */
    double draft_s, verify_s;
    double alpha;        /* sum over verifications of the threshold of the fallback */
    uint64_t alpha_most; /* verifications at which it was FT_FALLBACK_MOST */
    double *text_s;      /* [texts] seconds of each */
    uint32_t texts;
} ft_edgellm_result;

/* FT_NOMEM: *out is all-zero. Otherwise the caller owes a deinit. */
FT_WARN_UNUSED ft_status ft_edgellm_run(const ft_edgellm_opts *opts, const ft_edgellm_way *way,
                                        ft_error *err, ft_edgellm_result *out);
/* All-zero is legal. */
void ft_edgellm_result_deinit(ft_edgellm_result *result);

/* Seconds a token. */
double ft_edgellm_s_per_tok(const ft_edgellm_result *result);

/* How many times faster a is than b, with the half width of the 95 % confidence interval. Both were
 * run on the same texts, so their texts are compared in pairs. */
typedef struct ft_edgellm_gain {
    double times, error;
} ft_edgellm_gain;
ft_edgellm_gain ft_edgellm_compare(const ft_edgellm_result *a, const ft_edgellm_result *b);

#endif
