// SPDX-License-Identifier: Apache-2.0
// The papers' numbers as tables and as JSON. Stateless.
#include "bench/serving_paper.h"

#include <stdio.h>

#include "base/num.h"

static const struct {
    int rtt_ms, depth;
} depths[] = {{15, 7}, {40, 5}, {50, 4}};

static const struct {
    int devices;
    double gain;
} gains[] = {{2, 0.2045}, {4, 0.2514}, {8, 0.2549}, {16, 0.3003}};

int ft_specedge_depth(double rtt_ms)
{
    for (size_t i = 0; i < FT_COUNT(depths); i++)
        if (rtt_ms == depths[i].rtt_ms)
            return depths[i].depth;
    return 0;
}

double ft_wisp_predictor_gain(double devices)
{
    for (size_t i = 0; i < FT_COUNT(gains); i++)
        if (devices == gains[i].devices)
            return gains[i].gain;
    return 0;
}

static json_t *depths_json(void)
{
    json_t *out = json_object();
    for (size_t i = 0; i < FT_COUNT(depths); i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", depths[i].rtt_ms);
        json_object_set_new(out, name, json_integer(depths[i].depth));
    }
    return out;
}

static json_t *gains_json(void)
{
    json_t *out = json_object();
    for (size_t i = 0; i < FT_COUNT(gains); i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", gains[i].devices);
        json_object_set_new(out, name, json_real(gains[i].gain));
    }
    return out;
}

static json_t *specedge_json(void)
{
    const double spec_ms = FT_SPECEDGE_SPEC_MS;
    return json_pack(
        "{s:f, s:f, s:{s:f, s:f, s:f, s:f}, s:{s:f, s:f}, s:f, s:[f, f], s:[f, f], s:o, s:{s:f, "
        "s:f}}",
        "server_throughput_ratio", FT_SPECEDGE_THROUGHPUT, "cost_efficiency_ratio",
        FT_SPECEDGE_COST, "itl_ratio", "mean", FT_SPECEDGE_ITL, "15", FT_SPECEDGE_15_MS / spec_ms,
        "50", FT_SPECEDGE_50_MS / spec_ms, "65", FT_SPECEDGE_65_MS / spec_ms,
        "layer_split_itl_ratio", "15", FT_SPECEDGE_SPLIT_15_MS / FT_SPECEDGE_15_MS, "50",
        FT_SPECEDGE_SPLIT_50_MS / FT_SPECEDGE_50_MS, "tokens_per_verify_gain",
        FT_SPECEDGE_PER_VERIFY - 1, "server_time_saved", 1 - FT_SPECEDGE_TIME_MOST,
        1 - FT_SPECEDGE_TIME_LEAST, "speedup", FT_SPECEDGE_SPEEDUP_LEAST, FT_SPECEDGE_SPEEDUP_MOST,
        "chosen_depths", depths_json(), "chains", "server_throughput_ratio",
        FT_SPECEDGE_CHAIN_THROUGHPUT, "cost_efficiency_ratio", FT_SPECEDGE_CHAIN_COST);
}

json_t *ft_serving_paper_json(void)
{
    return json_pack("{s:o, s:{s:[f, f], s:o}}", "specedge", specedge_json(), "wisp",
                     "predictor_acceptance_gain", 0.34, 0.54, "predictor_goodput_gain",
                     gains_json());
}
