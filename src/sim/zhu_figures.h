/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures 6 to 9 of Zhu et al.: which points they have, and what comes out over many cells. Pure,
 * except for the watch. */
#ifndef FT_SIM_ZHU_FIGURES_H
#define FT_SIM_ZHU_FIGURES_H

#include "sim/zhu.h"

#define FT_ZHU_FIRST_FIGURE 6
#define FT_ZHU_LAST_FIGURE  9

typedef struct ft_zhu_row {
    uint32_t figure;
    char panel;
    const char *x_name; /* "acceptance" */
    double x;
    ft_zhu_point point;
    uint32_t schemes;                                       /* a bit for each that the figure has */
    ft_zhu_range total_s[FT_ZHU_SCHEMES];                   /* over cells */
    double inf_s[FT_ZHU_SCHEMES];                           /* medians; NAN: none */
    double length[FT_ZHU_SCHEMES], batches[FT_ZHU_SCHEMES]; /* medians */
} ft_zhu_row;

typedef struct ft_zhu_opts {
    const ft_zhu_config *config;
    ft_zhu_reading reading;
    uint64_t seed;   /* of the first cell; the next has the next */
    uint32_t figure; /* 0: all */
    ft_plan_watch watch;
} ft_zhu_opts;

typedef struct ft_zhu_table {
    ft_zhu_row *rows; /* [n] figure by figure, panel by panel */
    uint32_t n;
} ft_zhu_table;

/* FT_NOMEM, FT_CANCELLED, or as ft_zhu_cell_run; *out is all-zero then. Otherwise the caller owes a
 * deinit. */
FT_WARN_UNUSED ft_status ft_zhu_table_make(const ft_zhu_opts *opts, ft_error *err,
                                           ft_zhu_table *out);
/* All-zero is legal. */
void ft_zhu_table_deinit(ft_zhu_table *table);

/* All cells of a point. *samples: [seeds], which the caller frees. As above. */
FT_WARN_UNUSED ft_status ft_zhu_cells(const ft_zhu_opts *opts, const ft_zhu_point *point,
                                      uint32_t wanted, ft_error *err, ft_zhu_cell **samples);

#endif
