// SPDX-License-Identifier: Apache-2.0 The search for capacity. It assumes that the share of slow
// texts grows with the number of devices, which is true except for the differences between seeds.
// Stateless.
#include "sim/wisp_search.h"

void ft_sim_result_add(ft_sim_result *to, const ft_sim_result *r)
{
    for (int i = 0; i < FT_SIM_CLASSES; i++) {
        to->texts[i] += r->texts[i];
        to->slow[i] += r->slow[i];
        to->slow_from_first[i] += r->slow_from_first[i];
        for (int k = 0; k < FT_LATE_CAUSES; k++)
            to->late[i][k] += r->late[i][k];
    }
    for (int i = 0; i < FT_SPIKE_CAUSES; i++)
        to->spike[i] += r->spike[i];
    if (to->counted_us == 0 || r->kv_blocks_least < to->kv_blocks_least)
        to->kv_blocks_least = r->kv_blocks_least;
    if (r->most_rows > to->most_rows)
        to->most_rows = r->most_rows;
#define F(name) to->name += r->name;
    FT_SIM_COUNTS(F)
#undef F
}

static double slow_share(const ft_sim_result *r)
{
    double worst = 0;
    for (int i = 0; i < FT_SIM_CLASSES; i++)
        if (r->texts[i] > 0 && (double)r->slow[i] / (double)r->texts[i] > worst)
            worst = (double)r->slow[i] / (double)r->texts[i];
    return worst;
}

ft_status ft_sim_wisp_try(const ft_sim_search *search, uint32_t n, ft_error *err,
                          ft_sim_capacity *out)
{
    ft_sim_opts opts = {
        .config = search->config, .mode = search->mode, .class = search->class, .n_devices = n};
    *out = (ft_sim_capacity){.n = n};
    if (search->trying)
        search->trying(search->ctx, search, n);
    ft_sim_wisp_times(&opts);
    for (uint32_t i = 0; i < (uint32_t)search->config->k[FT_SIM_SEEDS]; i++) {
        ft_sim_result r;
        opts.seed = search->seed + i;
        ft_status status = ft_sim_wisp_run(&opts, err, &r);
        if (status != FT_OK)
            return status;
        ft_sim_result_add(&out->at, &r);
    }
    out->slow = slow_share(&out->at);
    out->goodput = (double)out->at.tokens * 1e6 / (double)out->at.counted_us;
    out->busy = (double)out->at.busy_us / (double)out->at.counted_us;
    return FT_OK;
}

ft_status ft_sim_wisp_capacity(const ft_sim_search *search, ft_error *err, ft_sim_capacity *out)
{
    uint32_t low = 0, high = 0; /* low is held, high is not; 0: not known */
    uint32_t n = search->guess ? search->guess : 1;
    *out = (ft_sim_capacity){0};
    n = n < FT_SIM_DEVICES_MAX ? n : FT_SIM_DEVICES_MAX;
    while (low < FT_SIM_DEVICES_MAX && (high == 0 || high - low > 1)) {
        ft_sim_capacity tried;
        ft_status status = ft_sim_wisp_try(search, n, err, &tried);
        if (status != FT_OK)
            return status;
        if (tried.slow <= search->config->k[FT_SIM_EPSILON]) {
            low = n;
            *out = tried;
        } else
            high = n;
        if (high == 0)
            n = n < FT_SIM_DEVICES_MAX / 2 ? 2 * n : FT_SIM_DEVICES_MAX;
        else
            n = low + (high - low) / 2;
    }
    return FT_OK;
}
