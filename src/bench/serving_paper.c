// SPDX-License-Identifier: Apache-2.0
// The papers' numbers as tables and as JSON. Stateless.
#include "bench/serving_paper.h"

#include <stdio.h>

#include "base/num.h"

typedef struct entry {
    int key;
    double value;
} entry;

/* By round-trip time in ms; by the number of devices. */
static const entry depths[] = {{15, 7}, {40, 5}, {50, 4}};
static const entry gains[] = {{2, 0.2045}, {4, 0.2514}, {8, 0.2549}, {16, 0.3003}};

static double value_of(const entry *entries, size_t n, double key)
{
    for (size_t i = 0; i < n; i++)
        if (key == entries[i].key)
            return entries[i].value;
    return 0;
}

int ft_specedge_depth(double rtt_ms)
{
    return (int)value_of(depths, FT_COUNT(depths), rtt_ms);
}

double ft_wisp_predictor_gain(double devices)
{
    return value_of(gains, FT_COUNT(gains), devices);
}

static json_t *table_json(const entry *entries, size_t n)
{
    json_t *out = json_object();
    for (size_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", entries[i].key);
        json_object_set_new(out, name, json_real(entries[i].value));
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
        "chosen_depths", table_json(depths, FT_COUNT(depths)), "chains", "server_throughput_ratio",
        FT_SPECEDGE_CHAIN_THROUGHPUT, "cost_efficiency_ratio", FT_SPECEDGE_CHAIN_COST);
}

json_t *ft_serving_paper_json(void)
{
    return json_pack("{s:o, s:{s:[f, f], s:o}}", "specedge", specedge_json(), "wisp",
                     "predictor_acceptance_gain", 0.34, 0.54, "predictor_goodput_gain",
                     table_json(gains, FT_COUNT(gains)));
}
