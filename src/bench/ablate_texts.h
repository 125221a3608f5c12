/* SPDX-License-Identifier: Apache-2.0
 *
 * What `bench ablate` needs of real models: texts that the target writes, and what the draft model
 * says along them (bench/load_device.h). One thread. */
#ifndef FT_BENCH_ABLATE_TEXTS_H
#define FT_BENCH_ABLATE_TEXTS_H

#include "bench/ablate.h"
#include "bench/ablate_world.h"
#include "bench/load_set.h"

#define FT_ABLATE_WARMTHS 2 /* temperatures: 0 and 1 */

typedef struct ft_ablate_texts {
    ft_vocab *vocab;
    ft_model *draft;
    ft_bench_load_drafts drafts;
    ft_bench_load_set set[FT_ABLATE_WARMTHS];
    ft_ablate_text *texts[FT_ABLATE_WARMTHS]; /* [set.n] */
} ft_ablate_texts;

/* *out is filled in place, does not move and owes a deinit, also on failure. */
FT_WARN_UNUSED ft_status ft_ablate_texts_make(const ft_bench_ablate_opts *opts, ft_error *err,
                                              ft_ablate_texts *out);
void ft_ablate_texts_deinit(ft_ablate_texts *texts);
/* The world of these texts in which an edge chooses what it drafts. It borrows them. */
ft_ablate_world_opts ft_ablate_texts_world(ft_ablate_texts *texts, const ft_ablate_case *how);

#endif
