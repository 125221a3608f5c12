// SPDX-License-Identifier: Apache-2.0
// How well the server predicts what passes cost (sched/cost.h). Passes of a modelled load take
// their true time, with noise. Pure.
#include <math.h>

#include "base/num.h"
#include "base/rng.h"
#include "bench/ablate_internal.h"
#include "bench/ablate_parts.h"
#include "sched/cost.h"

#define NOISE     0.05 /* of passes: sigma of the logarithm */
#define CHUNK     512  /* rows of a prompt in a pass at most */
#define BUDGET_US 100000

static void draw_costs(ft_rng *rng, double us[FT_COST_FACTORS])
{
    us[FT_COST_PASS] = ft_ablate_between(rng, 3000, 60000);
    us[FT_COST_ROW] = ft_ablate_between(rng, 50, 2000);
    us[FT_COST_LOGITS_ROW] = ft_ablate_between(rng, 10, 300);
    us[FT_COST_INTERACTION] = ft_ablate_between(rng, 0.002, 0.1);
    us[FT_COST_CACHED_TOK] = ft_ablate_between(rng, 0.05, 3);
    us[FT_COST_HEAD] = ft_ablate_between(rng, 500, 5000);
}

static bool is_quiet(const ft_ablate_fit_load *l, uint32_t number)
{
    return l->quiet_every && number / l->quiet_every % 2;
}

/* Without prompts. */
static ft_pass draw_rounds(const ft_ablate_fit_load *l, uint32_t number, ft_rng *rng)
{
    const uint32_t grown = 1 + number / 100;
    const uint32_t n =
        l->grows ? (grown < l->sessions ? grown : l->sessions) : 1 + ft_rng_below(rng, l->sessions);
    ft_pass pass = {0};
    if (is_quiet(l, number))
        return ft_pass_plus(pass, 500 + number % 1000, 1, 1);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rows = ft_rng_below(rng, 3) ? 1 + ft_rng_below(rng, 33) : 1;
        pass = ft_pass_plus(pass, (uint32_t)ft_ablate_between(rng, 50, 4000), rows, rows);
    }
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

/* Adds a chunk to the pass: of any length, or as long as the budget allows. Returns how near its
 * time is to the best chunk's, in (0, 1]. */
static double add_chunk(const ft_ablate_fit_load *l, const ft_cost *cost,
                        const double us[FT_COST_FACTORS], ft_pass *pass, ft_rng *rng)
{
    const uint32_t n_past = ft_rng_below(rng, 2000), any = 16 + ft_rng_below(rng, CHUNK - 15);
    const ft_pass before = *pass;
    ft_cost truth;
    *pass = ft_pass_plus(before, n_past, any, 0);
    if (!l->budget)
        return 1;
    ft_cost_init(&truth);
    ft_cost_prime(&truth, us, 0);
    const uint32_t best = ft_cost_rows(&truth, &before, n_past, CHUNK, BUDGET_US);
    const uint32_t rows = ft_cost_rows(cost, &before, n_past, CHUNK, BUDGET_US);
    const ft_pass ideal = ft_pass_plus(before, n_past, best ? best : 1, 0);
    *pass = ft_pass_plus(before, n_past, rows ? rows : 1, 0);
    const double times =
        (true_us(us, pass) - true_us(us, &before)) / (true_us(us, &ideal) - true_us(us, &before));
    return fmin(times, 1 / times);
}

/* What is known when the server starts. */
static void begin(const ft_ablate_fit_load *l, ft_cost *cost, const double us[FT_COST_FACTORS])
{
    double before[FT_COST_FACTORS];
    ft_cost_init(cost);
    if (!l->primed)
        return;
    for (int i = 0; i < FT_COST_FACTORS; i++)
        before[i] = i == FT_COST_ROW ? us[i] * 2 / 3 : us[i];
    ft_cost_prime(cost, before, 0.05);
}

ft_status ft_ablate_fit(const void *how, uint64_t seed, ft_error *err, double *figure)
{
    const ft_ablate_fit_load *l = how;
    ft_rng rng;
    ft_cost cost;
    double alone[FT_COST_FACTORS], us[FT_COST_FACTORS], sum = 0;
    uint32_t counted = 0;
    (void)err;
    ft_rng_init(&rng, seed);
    draw_costs(&rng, alone);
    begin(l, &cost, alone);
    for (uint32_t i = 0; i < l->first + l->passes; i++) {
        const bool slow = l->slow_every && i / l->slow_every % 2;
        for (int k = 0; k < FT_COST_FACTORS; k++)
            us[k] = alone[k] * (slow ? 2 : 1);
        ft_pass pass = draw_rounds(l, i, &rng);
        const bool chunk = ft_rng_unit(&rng) < l->prompts && !is_quiet(l, i);
        double near = chunk ? add_chunk(l, &cost, us, &pass, &rng) : 1;
        const double usual_us = true_us(us, &pass);
        double took_us = usual_us * ft_ablate_noisy(&rng, l->noise > 0 ? l->noise : NOISE);
        if (ft_rng_unit(&rng) < l->spikes)
            took_us *= 4;
        if (!l->budget)
            near = 1 - fmin(fabs((double)ft_cost_predict(&cost, &pass) / usual_us - 1), 0.99);
        if (i >= l->first && (chunk || !l->budget)) {
            sum += near;
            counted++;
        }
        ft_cost_observe(&cost, &pass, (int64_t)took_us);
    }
    *figure = sum / counted;
    return FT_OK;
}
