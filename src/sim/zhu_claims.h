/* SPDX-License-Identifier: Apache-2.0
 *
 * The paper's claims beside what comes out: by how much less time its scheme takes than a
 * benchmark. Nothing is fitted to them. Pure, except for the watch. */
#ifndef FT_SIM_ZHU_CLAIMS_H
#define FT_SIM_ZHU_CLAIMS_H

#include "sim/zhu_figures.h"

#define FT_ZHU_CLAIMS 8

typedef struct ft_zhu_claim {
    char name[96], reading[480];
    uint32_t figure;
    char panel;
    double paper;      /* % */
    ft_zhu_range ours; /* %, over cells */
} ft_zhu_claim;

typedef struct ft_zhu_claims {
    ft_zhu_claim at[FT_ZHU_CLAIMS];
    uint32_t n;
} ft_zhu_claims;

/* The claims of opts->figure (0: of all) in one reading. As ft_zhu_table_make. */
FT_WARN_UNUSED ft_status ft_zhu_claims_make(const ft_zhu_opts *opts, ft_error *err,
                                            ft_zhu_claims *out);

#endif
