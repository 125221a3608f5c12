// SPDX-License-Identifier: Apache-2.0
// How well the server predicts what passes cost (sched/cost.h). Passes of a modelled load take
// their true time, with noise. Pure.
#include <math.h>

#include "base/num.h"
#include "base/rng.h"
#include "bench/ablate_internal.h"
#include "bench/ablate_parts.h"
#include "sched/cost.h"

#define NOISE 0.05 /* of passes: sigma of the logarithm */

static double between(ft_rng *rng, double least, double most)
{
    return least * pow(most / least, ft_rng_unit(rng));
}

static void draw_costs(ft_rng *rng, double us[FT_COST_FACTORS])
{
    us[FT_COST_PASS] = between(rng, 3000, 60000);
    us[FT_COST_ROW] = between(rng, 50, 2000);
    us[FT_COST_LOGITS_ROW] = between(rng, 10, 300);
    us[FT_COST_INTERACTION] = between(rng, 0.002, 0.1);
    us[FT_COST_CACHED_TOK] = between(rng, 0.05, 3);
    us[FT_COST_HEAD] = between(rng, 500, 5000);
}

static ft_pass draw_pass(const ft_ablate_fit_load *l, uint32_t number, ft_rng *rng)
{
    const uint32_t grown = 1 + number / 100;
    const uint32_t n =
        l->grows ? (grown < l->sessions ? grown : l->sessions) : 1 + ft_rng_below(rng, l->sessions);
    ft_pass pass = {0};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rows = ft_rng_below(rng, 3) ? 1 + ft_rng_below(rng, 33) : 1;
        pass = ft_pass_plus(pass, (uint32_t)between(rng, 50, 4000), rows, rows);
    }
    if (ft_rng_unit(rng) < l->prompts)
        pass = ft_pass_plus(pass, ft_rng_below(rng, 2000), 16 + ft_rng_below(rng, 497), 0);
    return pass;
}

static double true_us(const double us[FT_COST_FACTORS], const ft_pass *pass)
{
    double n[FT_COST_FACTORS], sum = 0;
    ft_pass_factors(pass, n);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        sum += n[i] * us[i];
    return sum;
}

ft_status ft_ablate_fit(const void *how, uint64_t seed, ft_error *err, double *figure)
{
    const ft_ablate_fit_load *l = how;
    ft_rng rng;
    ft_cost cost;
    double us[FT_COST_FACTORS], off = 0;
    (void)err;
    ft_rng_init(&rng, seed);
    draw_costs(&rng, us);
    ft_cost_init(&cost);
    for (uint32_t i = 0; i < l->first + l->passes; i++) {
        const ft_pass pass = draw_pass(l, i, &rng);
        double usual_us = true_us(us, &pass);
        if (l->slow_every && i / l->slow_every % 2)
            usual_us *= 2;
        double took_us = usual_us * ft_ablate_noisy(&rng, NOISE);
        if (ft_rng_unit(&rng) < l->spikes)
            took_us *= 4;
        if (i >= l->first)
            off += fmin(fabs((double)ft_cost_predict(&cost, &pass) - usual_us) / usual_us, 0.99);
        ft_cost_observe(&cost, &pass, (int64_t)took_us);
    }
    *figure = 1 - off / l->passes;
    return FT_OK;
}
