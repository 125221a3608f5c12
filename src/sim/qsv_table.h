/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of Quantize-Sample-and-Verify, section V: every method at every temperature and
 * uplink of a setting, and whether the paper's claims hold there. Where a method has numbers of its
 * own (length, l, threshold, width), the best ones for that temperature and uplink are searched. */
#ifndef FT_SIM_QSV_TABLE_H
#define FT_SIM_QSV_TABLE_H

#include <stdbool.h>

#include "base/progress.h"
#include "sim/qsv.h"

typedef struct ft_qsv_point {
    uint32_t temperature, link; /* indices into the positions' and the config's */
    ft_qsv_way way;             /* of best ways the one that was found */
    ft_qsv_result sum;
    double tokens_per_s;
} ft_qsv_point;

typedef struct ft_qsv_claim {
    char name[112], reason[400]; /* reason: "" where it holds */
    bool holds;
    double margin; /* by how much; below 0 it does not hold */
} ft_qsv_claim;

typedef struct ft_qsv_table_opts {
    const ft_qsv_config *config;
    const ft_positions *positions;
    const ft_policy *policy; /* NULL: neither points nor claims of method policy */
    uint64_t seed;
    bool (*stop)(void);   /* NULL: goes on to the end */
    ft_progress progress; /* in pairs of temperature and uplink */
} ft_qsv_table_opts;

typedef struct ft_qsv_table {
    ft_qsv_point *points; /* [n_points] by temperature, link, method */
    ft_qsv_claim *claims; /* [n_claims] */
    size_t n_points, n_claims;
} ft_qsv_table;

/* FT_INVALID: positions or policy do not fit the setting; FT_CANCELLED; FT_NOMEM. On failure *out
 * is all-zero. */
FT_WARN_UNUSED ft_status ft_qsv_table_make(const ft_qsv_table_opts *opts, ft_error *err,
                                           ft_qsv_table *out);
/* All-zero is legal. */
void ft_qsv_table_deinit(ft_qsv_table *table);

/* The point, NULL: there is none. */
const ft_qsv_point *ft_qsv_table_find(const ft_qsv_table *table, uint32_t temperature,
                                      uint32_t link, ft_qsv_method method);

/* Mean total variation between the target's law and that of the next token, over the texts of a
 * temperature, by the recorded lattice of this row: of quantize, then sample; if `sq`, of sample,
 * then quantize. 0: there is no such text. */
double ft_qsv_law(const ft_positions *positions, uint32_t temperature, uint32_t row, bool sq);

/* The best way of a method; opts has its texts, replays and seed. `numbers`: those that the method
 * does not search are taken from it. */
void ft_qsv_best(const ft_qsv_opts *opts, const ft_qsv_way *numbers, ft_qsv_way *way,
                 ft_qsv_result *sum);

#endif
