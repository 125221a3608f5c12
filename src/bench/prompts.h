/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompt files for benchmarks: JSON Lines, one object a line, with either "turns": [text, ...] (as
 * Spec-Bench has it; the first turn is taken) or "prompt": text; "question_id" and "category" are
 * optional.
 */
#ifndef FT_BENCH_PROMPTS_H
#define FT_BENCH_PROMPTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_bench_prompt {
    int64_t question_id; /* the line's number where the file gives none */
    char *category;      /* "" where the file gives none */
    char *text;
} ft_bench_prompt;

typedef struct ft_bench_prompts {
    ft_bench_prompt *items; /* [n] */
    size_t n;
} ft_bench_prompts;

/* Reads the file. If it has more than `most` (0: no limit) prompts, keeps so many, evenly spread,
 * so that a sorted file gives all categories. FT_IO, FT_INVALID (which line and why), FT_NOMEM
 * leave *out empty. The caller deinits *out. */
FT_WARN_UNUSED ft_status ft_bench_prompts_load(const char *path, size_t most, ft_error *err,
                                               ft_bench_prompts *out);
/* Keeps the prompts of these categories ("a,b"; NULL: of all), at most `most` of them (0: no
 * limit): the first of each category, then the second of each, and so on. FT_INVALID: no prompt has
 * such a category; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_prompts_keep(ft_bench_prompts *prompts, const char *categories,
                                               size_t most, ft_error *err);
void ft_bench_prompts_deinit(ft_bench_prompts *prompts);

#endif
