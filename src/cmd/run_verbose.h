/* SPDX-License-Identifier: Apache-2.0
 *
 * `run --verbose`: what was chosen for draft and target in an answer, as counts and times of it.
 * Main thread. */
#ifndef FT_CMD_RUN_VERBOSE_H
#define FT_CMD_RUN_VERBOSE_H

#include <stdio.h>

#include "edge/edge.h"
#include "serve/verifier.h"

/* Sums at one moment. */
typedef struct ft_run_passes {
    ft_engine_stats draft;
    ft_verifier_stats target;
} ft_run_passes;

/* The sums now. Waits for a text that drafts. */
void ft_run_passes_get(ft_edge *edge, ft_verifier *verifier, ft_run_passes *out);

/* What an answer adds. */
typedef struct ft_run_verbose {
    const ft_run_passes *before, *after;
    const ft_gen_stats *answer;
    int target_threads;
} ft_run_verbose;

/* Two lines: of the draft, and of the target. */
void ft_run_verbose_print(FILE *out, const ft_run_verbose *v);

#endif
