/* SPDX-License-Identifier: Apache-2.0
 * Profiling forward passes of all the shapes that a verification server meets (WISP appendix C): long
 * prompts, small trees behind long contexts, both in one batch. */
#ifndef FT_CMD_FIT_PROFILE_H
#define FT_CMD_FIT_PROFILE_H

#include "base/rng.h"
#include "engine/engine.h"
#include "model/model.h"
#include "sched/cost.h"

typedef struct ft_profile_opts {
    const ft_model *model;
    ft_kv_type kv_type;
    int n_threads;
    uint32_t max_rows, max_ctx, max_seqs; /* of a batch; of a sequence; sequences of a batch */
    uint32_t runs;                        /* timed passes of a batch; the fastest counts */
} ft_profile_opts;

typedef struct ft_profile ft_profile;

/* An engine and one computed text of max_ctx tokens. FT_NOMEM, FT_INVALID. */
FT_WARN_UNUSED ft_status ft_profile_create(const ft_profile_opts *opts, ft_error *err,
                                           ft_profile **out);
void ft_profile_destroy(ft_profile *profile);

typedef enum ft_regime { FT_REGIME_COMPUTE, FT_REGIME_MEMORY, FT_REGIME_MIXED } ft_regime;
#define FT_REGIMES 3
extern const char *const ft_regime_name[FT_REGIMES];

/* Draws a batch of the regime and times it: its shape and the microseconds of a pass, undisturbed by
 * other programs as far as one of its runs was. Each sequence's
 * context is memory of its own. */
FT_WARN_UNUSED ft_status ft_profile_batch(ft_profile *profile, ft_regime regime, ft_rng *rng,
                                          ft_error *err, ft_pass *pass, double *us);

#endif
