// SPDX-License-Identifier: Apache-2.0
// The search for servers. It assumes that the share of late texts falls with the number of servers.
// Stateless.
#include "sim/fleet_search.h"

#include <math.h>

#define STEP_GUESSED 1.06 /* a guess from fewer devices is off by a few in 100 */

/* The next number to try: `low` is too few, `high` is enough; 0: not known. */
static uint32_t next(const ft_fleet_search *search, uint32_t low, uint32_t high, double step)
{
    const uint32_t most = search->opts.n_devices;
    if (low == 0)
        return (uint32_t)fmin(high - 1, ceil(high / step));
    if (high > 0)
        return low + (high - low) / 2;
    const double up = fmax(low + 1, floor(low * step));
    return up < most ? (uint32_t)up : most;
}

ft_status ft_fleet_needed(const ft_fleet_search *search, ft_error *err, uint32_t *n_servers,
                          ft_fleet_result *out)
{
    const double epsilon = search->opts.config->server.k[FT_SIM_EPSILON];
    const double step = search->guess ? STEP_GUESSED : 2;
    ft_fleet_opts opts = search->opts;
    uint32_t low = 0, high = 0;
    opts.accident = false;
    opts.n_servers = search->guess && search->guess < opts.n_devices ? search->guess : 1;
    *n_servers = 0;
    while (high != 1 && (low == 0 || high == 0 || high - low > 1 + high / 100)) {
        ft_fleet_result tried;
        if (!search->trying(search->ctx, search, opts.n_servers))
            return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
        ft_status status = ft_fleet_run(&opts, err, &tried);
        if (status != FT_OK)
            return status;
        if (ft_fleet_late_share(&tried.part[FT_FLEET_PART_BEFORE]) <= epsilon) {
            high = *n_servers = opts.n_servers;
            *out = tried;
        } else if (opts.n_servers >= opts.n_devices)
            return ft_error_set(err, FT_EXHAUSTED,
                                "simulate: %u devices: even a server for each is not enough",
                                opts.n_devices);
        else
            low = opts.n_servers;
        opts.n_servers = next(search, low, high, step);
    }
    return FT_OK;
}
