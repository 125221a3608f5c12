/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches how many servers a number of devices needs: the fewest at which at most epsilon of the
 * texts of each class are late. Each step runs a whole simulation. Pure, except for the callbacks.
 */
#ifndef FT_SIM_FLEET_SEARCH_H
#define FT_SIM_FLEET_SEARCH_H

#include "sim/fleet.h"

typedef struct ft_fleet_search {
    ft_fleet_opts opts; /* without n_servers and accident */
    uint32_t guess;     /* servers to begin with; 0: none is known */
    /* Called before each number of servers is tried. false: the search stops. */
    bool (*trying)(void *ctx, const struct ft_fleet_search *search, uint32_t n_servers);
    void *ctx;
} ft_fleet_search;

/* The number is exact up to 100 servers, and above that to 1 in 100. FT_CANCELLED: stopped.
 * FT_EXHAUSTED: a server for each device is not enough. Else as ft_fleet_run. */
FT_WARN_UNUSED ft_status ft_fleet_needed(const ft_fleet_search *search, ft_error *err,
                                         uint32_t *n_servers, ft_fleet_result *out);

#endif
