/* SPDX-License-Identifier: Apache-2.0
 * `foretoken simulate wisp --sweep`: searches, sweeps and their figures. */
#ifndef FT_CMD_WISP_SWEEP_H
#define FT_CMD_WISP_SWEEP_H

#include "sim/wisp_config.h"

typedef struct ft_wisp_sweep_opts {
    const ft_sim_config *config; /* borrowed */
    const char *config_path;
    uint64_t seed;
    const char *plot; /* file; NULL: none */
    bool json;        /* instead of a table */
} ft_wisp_sweep_opts;

/* Sweeps and prints. Errors as those of sim/wisp.h and base/plot.h; FT_CANCELLED: a signal. */
FT_WARN_UNUSED ft_status ft_cmd_wisp_sweep(const ft_wisp_sweep_opts *opts, ft_error *err);

#endif
