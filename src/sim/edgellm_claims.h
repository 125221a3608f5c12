/* SPDX-License-Identifier: Apache-2.0
 *
 * The paper's claims beside what comes out. They are computed from a table's rows; nothing is
 * fitted to them. Pure; any thread. */
#ifndef FT_SIM_EDGELLM_CLAIMS_H
#define FT_SIM_EDGELLM_CLAIMS_H

#include "sim/edgellm_table.h"

#define FT_EDGELLM_CLAIMS 32

/* `paper` and `ours` are the least and the greatest over datasets. */
typedef struct ft_edgellm_claim {
    char name[80], reading[480];
    double paper[2]; /* NAN: not given */
    double ours[2];
    double error; /* half width of the widest 95 % interval of `ours`; NAN: none */
} ft_edgellm_claim;

typedef struct ft_edgellm_claims {
    ft_edgellm_claim at[FT_EDGELLM_CLAIMS];
    uint32_t n;
} ft_edgellm_claims;

/* Those about the classes of pairs that the config has. `table` is the config's. */
void ft_edgellm_claims_make(const ft_edgellm_config *config, const ft_edgellm_table *table,
                            ft_edgellm_claims *out);

#endif
