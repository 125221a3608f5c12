/* SPDX-License-Identifier: Apache-2.0
 * Times forward passes of all the shapes that a verification server meets (WISP appendix C): long
 * prompts, small trees behind long contexts, and both in one batch. */
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
} ft_profile_opts;

typedef struct ft_profile ft_profile;

/* Makes an engine and computes max_seqs texts of max_ctx tokens. FT_NOMEM, FT_INVALID. */
FT_WARN_UNUSED ft_status ft_profile_create(const ft_profile_opts *opts, ft_error *err,
                                           ft_profile **out);
void ft_profile_destroy(ft_profile *profile);

typedef enum ft_regime { FT_REGIME_COMPUTE, FT_REGIME_MEMORY, FT_REGIME_MIXED } ft_regime;
#define FT_REGIMES 3
extern const char *const ft_regime_name[FT_REGIMES];

typedef struct ft_profile_part {
    uint32_t rows, cached;
    bool verify; /* all rows have logits; else none has, as in a chunk of a prompt */
} ft_profile_part;

typedef struct ft_profile_batch {
    ft_regime regime;
    ft_profile_part *parts; /* [n_parts], one a sequence */
    uint32_t n_parts;
    ft_pass pass; /* all of it */
} ft_profile_batch;

/* Draws a batch of the regime. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_profile_draw(const ft_profile *profile, ft_regime regime, ft_rng *rng,
                                         ft_error *err, ft_profile_batch *out);
void ft_profile_batch_deinit(ft_profile_batch *batch);

/* Times a pass of the batch in microseconds. A short pass is repeated, and the shortest time
 * counts. The tokens are drawn anew; making the contexts is not timed. */
FT_WARN_UNUSED ft_status ft_profile_time(ft_profile *profile, const ft_profile_batch *batch,
                                         ft_rng *rng, ft_error *err, double *us);

#endif
