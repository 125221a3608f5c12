/* SPDX-License-Identifier: Apache-2.0
 *
 * What an edge's own choice of drafts costs over the best fixed choice, on the virtual clock of
 * bench/ablate_world.h. One thread. */
#ifndef FT_BENCH_ABLATE_REGRET_H
#define FT_BENCH_ABLATE_REGRET_H

#include <jansson.h>

#include "bench/ablate_texts.h"
#include "bench/bench.h"

/* Lives `lives` seeds in a condition with each choice. *row: condition, lives, tokens/s of
 * `default` and of each fixed choice, `best` (the fastest one), and `regret` and `regret_first` as
 * in bench/local.h. FT_CANCELLED: it was stopped; errors of the edge; then *row is NULL. */
FT_WARN_UNUSED ft_status ft_ablate_regret(ft_ablate_texts *texts, const ft_ablate_case *how,
                                          int64_t lives, ft_bench_stop stop, ft_error *err,
                                          json_t **row);

#endif
