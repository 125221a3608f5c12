/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether our products or ggml's are faster on this machine: measured when a model is loaded, once a
 * weight type and class of widths in a process, a few milliseconds each.
 */
#ifndef FT_ENGINE_GEMM_CHOICE_H
#define FT_ENGINE_GEMM_CHOICE_H

#include "model/pack.h"

#define FT_GEMM_CHOICE_ROWS 4 /* row counts measured: 1, 4, 16, 64 */
extern const uint32_t ft_gemm_choice_rows[FT_GEMM_CHOICE_ROWS];

/* For ft_model_opts. Packed, unless ggml takes a tenth less time in the geometric mean over the row
 * counts: near a tie the answer must not change from run to run, for results would in their last
 * bits. One answer for all row counts of a weight, as a row's result must not depend on the batch; for
 * the same reason floats are packed wherever there is more than the plain kernel. */
bool ft_gemm_choose(enum ggml_type type, int64_t n_in, int64_t n_out,
                    ggml_backend_buffer_type_t rival);

typedef struct ft_gemm_choice {
    enum ggml_type type;
    uint32_t n_in, n_out; /* of the matrix that was measured */
    const char *rival;    /* ggml's buffer type: "CPU", "CPU_REPACK" */
    const char *kernel;   /* ours */
    float ours_us[FT_GEMM_CHOICE_ROWS], ggml_us[FT_GEMM_CHOICE_ROWS]; /* of one thread */
    bool packed;
} ft_gemm_choice;

/* The first `max` that this process has measured; returns how many there are. Any thread. */
size_t ft_gemm_choices(ft_gemm_choice *out, size_t max);

#endif
