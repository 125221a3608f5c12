// SPDX-License-Identifier: Apache-2.0
// Sweeps over the number of devices. The runs are those of the search: the same seeds and times.
// So a sweep and a search see the same share at the same number. Stateless.
#include "sim/wisp_sweep.h"

#include "base/num.h"

static const struct {
    const char *name;
    ft_sim_mode mode;
    const ft_sched_policy *policy;
} ways[FT_SIM_WAYS] = {
#define X(id, text, mode, policy) [FT_SIM_WAY_##id] = {text, FT_SIM_MODE_##mode, policy},
    FT_SIM_WAY_LIST(X)
#undef X
};

#define X(id, text, mode, policy) [FT_SIM_WAY_##id] = text,
const char *const ft_sim_way_name[FT_SIM_WAYS] = {FT_SIM_WAY_LIST(X)};
#undef X

ft_sim_search ft_sim_way_search(ft_sim_way way, const ft_sim_config *of, ft_sim_config *config)
{
    *config = *of;
    config->policy = ways[way].policy;
    return (ft_sim_search){.config = config, .mode = ways[way].mode};
}

size_t ft_sim_sweep_numbers(uint32_t capacity, uint32_t out[FT_SIM_SWEEP_MOST])
{
    const uint32_t to = capacity * FT_SIM_SWEEP_STEPS / FT_SIM_SWEEP_OF;
    const uint32_t last = ft_max_u32(to, capacity + FT_SIM_SWEEP_NEAR);
    size_t found = 0;
    uint32_t step = 1;
    for (uint32_t n = 1; n <= ft_min_u32(last, FT_SIM_DEVICES_MAX); n++) {
        const bool near = n + FT_SIM_SWEEP_NEAR >= capacity && n <= capacity + FT_SIM_SWEEP_NEAR;
        while (step < FT_SIM_SWEEP_STEPS && capacity * step / FT_SIM_SWEEP_OF < n)
            step++;
        if (near || n == capacity * step / FT_SIM_SWEEP_OF)
            out[found++] = n;
    }
    return found;
}

ft_status ft_sim_wisp_sweep(const ft_sim_search *search, uint32_t capacity, ft_error *err,
                            ft_sim_curve *out)
{
    uint32_t numbers[FT_SIM_SWEEP_MOST];
    const size_t n = ft_sim_sweep_numbers(capacity, numbers);
    *out = (ft_sim_curve){.capacity = capacity};
    for (size_t i = 0; i < n; i++) {
        ft_sim_capacity tried;
        ft_status status = ft_sim_wisp_try(search, numbers[i], err, &tried);
        if (status != FT_OK)
            return status;
        ft_sim_sweep_point *p = &out->at[out->n++];
        *p = (ft_sim_sweep_point){.n = numbers[i], .slow = tried.slow};
        for (int c = 0; c < FT_SIM_CLASSES; c++)
            if (tried.at.texts[c] > 0)
                p->slow_of[c] = (double)tried.at.slow[c] / (double)tried.at.texts[c];
    }
    return FT_OK;
}

ft_sim_crossing ft_sim_curve_crossing(const ft_sim_curve *curve, double epsilon)
{
    ft_sim_crossing out = {0};
    for (size_t i = 0; i < curve->n && curve->at[i].slow <= epsilon; i++)
        out.below = curve->at[i].n;
    for (size_t i = curve->n; i > 0 && curve->at[i - 1].slow > epsilon; i--)
        out.above = curve->at[i - 1].n;
    return out;
}

/* ---- rounds ---- */

/* Each of the rounds so far is among those that are kept with the same chance. */
static void keep(void *ctx, const ft_sim_round *round)
{
    ft_sim_plane *p = ctx;
    const uint64_t at = (uint64_t)(ft_rng_unit(&p->rng) * (double)++p->n_seen);
    if (p->n < FT_SIM_PLANE_POINTS)
        p->at[p->n++] = *round;
    else if (at < FT_SIM_PLANE_POINTS)
        p->at[at] = *round;
}

ft_status ft_sim_wisp_plane(const ft_sim_search *search, uint32_t n, ft_error *err,
                            ft_sim_plane *out)
{
    ft_sim_opts opts = {.config = search->config,
                        .mode = search->mode,
                        .class = search->class,
                        .n_devices = n,
                        .seed = search->seed,
                        .on_round = keep,
                        .ctx = out};
    *out = (ft_sim_plane){.n_devices = n};
    ft_rng_init(&out->rng, search->seed);
    ft_sim_wisp_times(&opts);
    return ft_sim_wisp_run(&opts, err, &out->result);
}
