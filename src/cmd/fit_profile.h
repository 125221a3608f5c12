/* SPDX-License-Identifier: Apache-2.0
 * Draws and times forward passes: of all the shapes that a verification server meets (WISP appendix
 * C), or of the shapes of a batch of tasks that draft and target compute step by step (Zhu et al.,
 * II-C). */
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
    uint32_t n_out; /* the last of the rows, which have logits */
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

/* Which model of a pair computes a step of a batch of tasks (Zhu et al., II-A). */
typedef enum ft_profile_role { FT_PROFILE_DRAFT, FT_PROFILE_VERIFY } ft_profile_role;

/* Draws a pass of a batch of tasks with texts of different lengths, in which every task has as many
 * new tokens: 1 in a draft, a root and 1 to 10 drafted tokens in a verification. FT_REGIME_COMPUTE:
 * its first pass, which computes the prompts, too. FT_REGIME_MEMORY: a later one. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_profile_draw_step(const ft_profile *profile, ft_profile_role role,
                                              ft_regime regime, ft_rng *rng, ft_error *err,
                                              ft_profile_batch *out);

/* Times a pass of the batch in microseconds. A short pass is repeated, and the shortest time
 * counts. The tokens are drawn anew; making the contexts is not timed. */
FT_WARN_UNUSED ft_status ft_profile_time(ft_profile *profile, const ft_profile_batch *batch,
                                         ft_rng *rng, ft_error *err, double *us);

#endif
