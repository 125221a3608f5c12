/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of every mode: the same prompts, as tokens, with the text that the target makes of
 * each. And lists of measured values. Owned by one thread. */
#ifndef FT_BENCH_LOAD_SET_H
#define FT_BENCH_LOAD_SET_H

#include "bench/prompts.h"
#include "model/vocab.h"

#define FT_BENCH_LOAD_CATEGORIES 16

typedef struct ft_bench_load_prompt {
    uint32_t category; /* number */
    uint32_t number;   /* in the file, of those that are not left out */
    ft_tokens tokens;
    ft_tokens text; /* that follows; empty until it is known */
} ft_bench_load_prompt;

typedef struct ft_bench_load_set {
    ft_bench_load_prompt *prompts; /* [n] */
    uint32_t n, n_categories;
    char category[FT_BENCH_LOAD_CATEGORIES][32]; /* those that find no place are "other" */
    uint32_t longest;                            /* prompt, in tokens */
    uint64_t total;                              /* tokens of all prompts */
    uint32_t skipped;                            /* of the file: too long */
} ft_bench_load_set;

typedef struct ft_bench_load_set_opts {
    const char *path;
    const ft_vocab *vocab;
    uint32_t limit;    /* prompts, spread over the file; 0: all */
    uint32_t each;     /* not 0: so many of every category instead, or all that it has */
    uint32_t longest;  /* longer prompts are left out... */
    uint32_t shortest; /* ...and shorter ones */
    uint32_t multiple; /* prompts come in so many */
} ft_bench_load_set_opts;

/* FT_IO, FT_INVALID (also: too few prompts), FT_NOMEM leave *out empty. */
FT_WARN_UNUSED ft_status ft_bench_load_set_read(const ft_bench_load_set_opts *opts, ft_error *err,
                                                ft_bench_load_set *out);
void ft_bench_load_set_deinit(ft_bench_load_set *set);

/* A growing list. All-zero is an empty one. */
typedef struct ft_bench_load_values {
    double *v; /* [n] */
    size_t n, cap;
    bool failed; /* an append ran out of memory */
} ft_bench_load_values;
void ft_bench_load_values_add(ft_bench_load_values *values, double v);
void ft_bench_load_values_join(ft_bench_load_values *values, const ft_bench_load_values *more);
void ft_bench_load_values_deinit(ft_bench_load_values *values);
double ft_bench_load_values_mean(const ft_bench_load_values *values);
/* The q-quantile; sorts in place. 0 where there is no value. */
double ft_bench_load_values_quantile(ft_bench_load_values *values, double q);

#endif
