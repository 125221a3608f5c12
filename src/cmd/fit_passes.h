/* SPDX-License-Identifier: Apache-2.0
 * Measures passes of a model for a fit: those that are fitted, and others that no fit has seen. A
 * pass's time is that of its shortest run: its runs are far apart in time, and what other programs
 * add is not the pass's own time. */
#ifndef FT_CMD_FIT_PASSES_H
#define FT_CMD_FIT_PASSES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/flags.h"
#include "cmd/fit_profile.h"
#include "engine/load.h"

/* What is asked of a command that fits. */
typedef struct ft_fit_opts {
    const char *path; /* the model */
    int64_t train, test, runs, seed;
    ft_device_opts device;
    ft_profile_opts profile;
} ft_fit_opts;

/* clang-format off */
#define FT_FIT_OPTS_INIT \
    {.profile = {.max_ctx = 2048, .max_rows = 512, .max_seqs = 32}, .train = 123, .test = 50, \
     .runs = 3, .seed = 1, .device = FT_DEVICE_OPTS_INIT}
/* clang-format on */
extern const ft_flag_group ft_flags_fit; /* of ft_fit_opts */

/* A batch and its runs. */
typedef struct ft_fit_pass {
    ft_profile_batch batch;
    double us, second_us; /* of the shortest run and the second shortest; infinite: there is none */
    double sum_us;        /* of all runs */
    json_t *runs_ms;
} ft_fit_pass;

enum { FT_FIT_TRAIN, FT_FIT_TEST, FT_FIT_PARTS };

/* All-zero: nothing was measured. */
typedef struct ft_fit_passes {
    ft_model *model;
    struct {
        size_t n;
        ft_fit_pass *at; /* [n] */
    } part[FT_FIT_PARTS];
    double noise; /* by how much a run is longer than the shortest of its batch, on average */
} ft_fit_passes;

/* Draws the i-th batch of a part. */
typedef struct ft_fit_draw {
    ft_status (*draw)(const void *ctx, const ft_profile *profile, size_t i, ft_rng *rng,
                      ft_error *err, ft_profile_batch *out);
    const void *ctx;
} ft_fit_draw;

/* Loads the model into opts->profile, draws the batches and times them, with progress on the
 * terminal. who: the command, for messages. The caller deinits *out, also after a failure.
 * FT_INVALID: the passes exceed the model's context. */
FT_WARN_UNUSED ft_status ft_fit_measure(const char *who, ft_fit_opts *opts,
                                        const ft_fit_draw *batches, ft_error *err,
                                        ft_fit_passes *out);
void ft_fit_passes_deinit(ft_fit_passes *passes);

/* Says on standard output how much the runs of a batch differ. */
void ft_fit_print_noise(const ft_fit_passes *passes);

/* The batch and its runs, without what a fit predicts. */
json_t *ft_fit_pass_json(const ft_fit_pass *pass, bool fitted);

#endif
