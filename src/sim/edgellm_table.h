/* SPDX-License-Identifier: Apache-2.0
 *
 * All methods on all pairs and datasets of a setting. Pure, except for the progress callback. */
#ifndef FT_SIM_EDGELLM_TABLE_H
#define FT_SIM_EDGELLM_TABLE_H

#include "base/progress.h"
#include "sim/edgellm.h"

typedef struct ft_edgellm_row {
    uint32_t pair, dataset; /* indices */
    ft_edgellm_way way;
    ft_edgellm_result sum;
} ft_edgellm_row;

/* Under another memory budget: how many times faster edgellm is than sp of sp_length. */
typedef struct ft_edgellm_budget {
    uint32_t pair;
    double budget_gb, verify_s;
    ft_edgellm_gain gain; /* mean over the pair's datasets */
} ft_edgellm_budget;

typedef struct ft_edgellm_table_opts {
    const ft_edgellm_config *config;
    uint64_t seed;
    bool claims_only;     /* no rows that no claim needs */
    bool (*stop)(void);   /* NULL: goes on to the end */
    ft_progress progress; /* in runs */
} ft_edgellm_table_opts;

typedef struct ft_edgellm_table {
    ft_edgellm_row *rows; /* [n_rows] by pair, dataset, method */
    size_t n_rows;
    ft_edgellm_budget budgets[FT_EDGELLM_PAIRS * FT_EDGELLM_LIST]; /* by pair, rising */
    uint32_t n_budgets;
} ft_edgellm_table;

/* FT_CANCELLED; FT_NOMEM. On failure *out is all-zero. */
FT_WARN_UNUSED ft_status ft_edgellm_table_make(const ft_edgellm_table_opts *opts, ft_error *err,
                                               ft_edgellm_table *out);
/* All-zero is legal. */
void ft_edgellm_table_deinit(ft_edgellm_table *table);

/* The row of a method with the config's usual numbers (sp_length, tree_tok, the first widths); if
 * `best`, the fastest one of the method. No chains. NULL: there is none. */
const ft_edgellm_row *ft_edgellm_table_find(const ft_edgellm_table *table,
                                            const ft_edgellm_config *config,
                                            const ft_edgellm_row *like, bool best);

/* "sp 4", "specinfer 1,1,3,...", "edgellm, chain". */
void ft_edgellm_way_name(const ft_edgellm_config *config, const ft_edgellm_way *way, char *out,
                         size_t n);

#endif
