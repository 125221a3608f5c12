// SPDX-License-Identifier: Apache-2.0
// Eight claims of section IV. Stateless.
#include "sim/zhu_claims.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"

#define OTHER_LENGTH 2 /* of maximum batches, which the reading tells beside the best length */

/* A claim, and what its point sets; 0: as the setting. */
typedef struct setting {
    uint32_t figure;
    char panel;
    ft_plan_baseline against;
    uint32_t pair, tasks, in_most, out_most;
    double bandwidth_mhz, paper;
} setting;

static const setting claims[FT_ZHU_CLAIMS] = {{7, 'b', FT_PLAN_NO_PIPELINE, 1, 0, 512, 0, 0, 31.6},
                                              {7, 'c', FT_PLAN_NO_PIPELINE, 1, 0, 0, 1792, 0, 30.7},
                                              {8, 'a', FT_PLAN_MAXIMUM, 1, 90, 0, 0, 0, 21.4},
                                              {8, 'b', FT_PLAN_HEURISTIC, 1, 0, 1792, 0, 0, 19.6},
                                              {8, 'c', FT_PLAN_HEURISTIC, 1, 0, 0, 1024, 0, 20.5},
                                              {9, 'a', FT_PLAN_UNIFORM, 0, 100, 0, 0, 25, 44.9},
                                              {9, 'b', FT_PLAN_UNIFORM, 1, 100, 0, 0, 25, 29.3},
                                              {9, 'c', FT_PLAN_UNIFORM, 2, 100, 0, 0, 25, 25.2}};

static ft_zhu_point point_of(const ft_zhu_config *c, const setting *of)
{
    ft_zhu_point point = ft_zhu_point_of(c, of->pair);
    point.tasks = of->tasks ? of->tasks : point.tasks;
    point.in_most = of->in_most ? of->in_most : point.in_most;
    point.out_most = of->out_most ? of->out_most : point.out_most;
    point.bandwidth_mhz = of->bandwidth_mhz > 0 ? of->bandwidth_mhz : point.bandwidth_mhz;
    return point;
}

static void name_of(const ft_zhu_config *c, const setting *of, char *out, size_t size)
{
    const char *against = ft_plan_baseline_name[of->against];
    if (of->bandwidth_mhz > 0)
        snprintf(out, size, "less than %s: %u tasks, %g MHz, %s", against, of->tasks,
                 of->bandwidth_mhz, c->pair[of->pair].name);
    else if (of->tasks)
        snprintf(out, size, "less than %s: %u tasks", against, of->tasks);
    else if (of->in_most)
        snprintf(out, size, "less than %s: longest input %u", against, of->in_most);
    else
        snprintf(out, size, "less than %s: longest output %u", against, of->out_most);
}

/* By how many percent the plan takes less than the benchmark. */
static ft_zhu_range gain_of(const ft_zhu_cell *samples, uint32_t n, ft_plan_baseline against)
{
    double values[FT_ZHU_SEEDS_MAX];
    for (uint32_t i = 0; i < n; i++)
        values[i] = 100 * (1 - samples[i].total_s[FT_ZHU_PLANNED] /
                                   samples[i].total_s[FT_ZHU_BASELINE(against)]);
    return ft_zhu_range_of(values, n);
}

/* The median length, or number of batches, of a scheme. */
static double median_of(const ft_zhu_cell *samples, uint32_t n, uint32_t scheme, bool batches)
{
    double values[FT_ZHU_SEEDS_MAX];
    for (uint32_t i = 0; i < n; i++)
        values[i] = batches ? samples[i].batches[scheme] : samples[i].length[scheme];
    return ft_zhu_range_of(values, n).median;
}

/* What maximum batches lose if each drafts OTHER_LENGTH tokens, while the plan has its own length.
 * */
static ft_status gain_of_other_length(const ft_zhu_opts *opts, const ft_zhu_point *point,
                                      const ft_zhu_cell *samples, ft_error *err, double *median)
{
    const uint32_t n = (uint32_t)opts->config->k[FT_ZHU_SEEDS];
    const uint32_t maximum = FT_ZHU_BASELINE(FT_PLAN_MAXIMUM);
    double values[FT_ZHU_SEEDS_MAX];
    ft_zhu_cell *other;
    ft_zhu_point changed = *point;
    changed.length_least = OTHER_LENGTH;
    *median = NAN;
    if (opts->config->k[FT_ZHU_LENGTH_MOST] < OTHER_LENGTH)
        return FT_OK;
    ft_status status = ft_zhu_cells(opts, &changed, 1u << maximum, err, &other);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        values[i] = 100 * (1 - samples[i].total_s[FT_ZHU_PLANNED] / other[i].total_s[maximum]);
    *median = status == FT_OK ? ft_zhu_range_of(values, n).median : NAN;
    free(other);
    return status;
}

/* The sentence that is the same for all claims, and how this one comes out. */
static void read_claim(const ft_zhu_opts *opts, const ft_zhu_claim *claim, const char *why,
                       char *out, size_t size)
{
    const char *outcome = claim->ours.median >= claim->paper ? "Our median reaches the paper's"
                          : claim->ours.high >= claim->paper
                              ? "Our median is below the paper's figure, our 90 % value reaches it"
                              : "Not reached";
    snprintf(out, size, "g0 = -30 dBm is read as a factor of %g, %s. %s.%s", opts->reading.g0,
             opts->reading.own_outputs ? "each task has its own output"
                                       : "each output is the longest (III-B)",
             outcome, why);
}

static ft_status make_claim(const ft_zhu_opts *opts, const setting *of, ft_error *err,
                            ft_zhu_claim *out)
{
    const uint32_t n = (uint32_t)opts->config->k[FT_ZHU_SEEDS];
    const uint32_t scheme = FT_ZHU_BASELINE(of->against);
    const ft_zhu_point point = point_of(opts->config, of);
    double other = NAN;
    char why[320] = "";
    ft_zhu_cell *samples;
    *out = (ft_zhu_claim){.figure = of->figure, .panel = of->panel, .paper = of->paper};
    ft_status status = ft_zhu_cells(opts, &point, 1u << scheme, err, &samples);
    if (status != FT_OK)
        return status;
    out->ours = gain_of(samples, n, of->against);
    if (of->against == FT_PLAN_MAXIMUM) {
        status = gain_of_other_length(opts, &point, samples, err, &other);
        snprintf(why, sizeof why,
                 " The plan drafts %g tokens a round in %g batches, this benchmark %g in %g. So "
                 "little but padding differs. If it may not draft less than %d, the plan takes "
                 "%.1f %% less.",
                 median_of(samples, n, FT_ZHU_PLANNED, false),
                 median_of(samples, n, FT_ZHU_PLANNED, true), median_of(samples, n, scheme, false),
                 median_of(samples, n, scheme, true), OTHER_LENGTH, other);
    }
    name_of(opts->config, of, out->name, sizeof out->name);
    read_claim(opts, out, why, out->reading, sizeof out->reading);
    free(samples);
    return status;
}

ft_status ft_zhu_claims_make(const ft_zhu_opts *opts, ft_error *err, ft_zhu_claims *out)
{
    ft_status status = FT_OK;
    *out = (ft_zhu_claims){0};
    for (size_t i = 0; i < FT_COUNT(claims) && status == FT_OK; i++)
        if (opts->figure == 0 || opts->figure == claims[i].figure)
            status = make_claim(opts, &claims[i], err, &out->at[out->n++]);
    return status;
}
