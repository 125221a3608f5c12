/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives the verdicts of a computed pass. Called on the engine thread.
 */
#ifndef FT_SERVE_VERDICT_H
#define FT_SERVE_VERDICT_H

#include "serve/state.h"

/* The callback ft_judge_opts.drew. The judge calls it for each token that it draws. */
void ft_verdict_drew(ft_walk *walk, uint32_t i, const float *logits, int32_t token);
/* Walks all trees of the pass. Returns the errors of ft_engine_head. */
FT_WARN_UNUSED ft_status ft_verdict_walk(ft_verifier *v, ft_error *err);
/* Gives the verdicts of the pass, and commits the KV of its prompt chunks. The pass began at
 * started_us, and its walks ended at now_us. */
void ft_verdict_give(ft_verifier *v, int64_t started_us, int64_t now_us);

#endif
