// SPDX-License-Identifier: Apache-2.0
// `foretoken trace --by`. Main thread only; no state beside the caller's.
#include "cmd/trace_by.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plot.h"
#include "learn/trace_by.h"

const char *const ft_trace_key_name[] = {"none",      "confidence", "entropy", "margin",
                                         "deviation", "depth",      "waste",   NULL};
static const char *const *const feature_name = ft_trace_key_name + FT_TRACE_KEY_FEATURES;

/* What WISP says of acceptance (3.3) where a feature rises; it has no figure in numbers. */
static const char *const trend[FT_FEATURES] = {"rises", "falls", "rises", "falls", NULL};

static double share(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

/* null where there is none. */
static json_t *known(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static ft_status open_plot(ft_plot *p, ft_error *err)
{
    const ft_status status = ft_plot_open(p, err);
    if (status == FT_OK)
        fprintf(p->gnuplot, "set xrange [*:*] noextend\nset offsets graph 0.02, graph 0.02\n");
    return status;
}

/* ---- by a feature ---- */

static json_t *feature_json(const ft_trace_by *by, ft_feature key)
{
    json_t *bins = json_array(), *correlations = json_object(), *trends = json_object();
    for (uint32_t i = 0; i < by->n; i++) {
        const ft_trace_bin *b = &by->bin[i];
        json_array_append_new(
            bins, json_pack("{s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f}", "from", b->from, "to",
                            b->to, "mean", b->mean, "nodes", (json_int_t)b->nodes, "accepted",
                            (json_int_t)b->accepted, "acceptance", share(b->accepted, b->nodes),
                            "acceptance_low", b->low, "acceptance_high", b->high));
    }
    for (int f = 0; f < FT_FEATURES; f++) {
        json_object_set_new(correlations, feature_name[f], known(by->pearson[f]));
        if (trend[f])
            json_object_set_new(trends, feature_name[f], json_string(trend[f]));
    }
    return json_pack("{s:s, s:I, s:f, s:o, s:o, s:o}", "by", feature_name[key], "nodes",
                     (json_int_t)by->nodes, "acceptance", share(by->accepted, by->nodes), "bins",
                     bins, "pearson", correlations, "wisp_trend", trends);
}

static void print_feature(const ft_trace_by *by, ft_feature key)
{
    printf("%llu judged nodes, %.1f %% accepted; by %s%s\n\n"
           "%10s %10s %10s %10s %11s   95 %%\n",
           (unsigned long long)by->nodes, 100 * share(by->accepted, by->nodes), feature_name[key],
           key == FT_FEATURE_POSITION ? "" : ", about equally many in each row", "from", "to",
           "mean", "nodes", "acceptance");
    for (uint32_t i = 0; i < by->n; i++) {
        const ft_trace_bin *b = &by->bin[i];
        printf("%10.4g %10.4g %10.4g %10llu %11.3f   %.3f to %.3f\n", b->from, b->to, b->mean,
               (unsigned long long)b->nodes, share(b->accepted, b->nodes), b->low, b->high);
    }
    printf("\n%-12s %8s   correlation with acceptance (Pearson; WISP figure 3)\n", "feature", "");
    for (int f = 0; f < FT_FEATURES; f++) {
        if (isfinite(by->pearson[f]))
            printf("%-12s %+8.3f", feature_name[f], by->pearson[f]);
        else
            printf("%-12s %8s", feature_name[f], "-");
        if (trend[f])
            printf("   WISP: acceptance %s with it", trend[f]);
        printf("\n");
    }
}

/* WISP figure 3: every feature's correlation, and the direction that the paper tells. */
static void draw_correlations(const ft_trace_by *by, FILE *out)
{
    fprintf(out,
            "set xlabel ''\nset xrange [-0.5:%d.5]\nset yrange [-1.1:1.1]\n"
            "set key below\nset style fill solid 0.4\nset boxwidth 0.6\n"
            "set ylabel 'correlation with acceptance (WISP figure 3)'\nset xtics (",
            FT_FEATURES - 1);
    for (int f = 0; f < FT_FEATURES; f++)
        fprintf(out, "%s'%s' %d", f ? ", " : "", feature_name[f], f);
    fprintf(out, ")\nplot '-' using 1:2 title 'ours' with boxes, "
                 "'-' using 1:2 title 'WISP: the direction' with points pointtype 7\n");
    for (int f = 0; f < FT_FEATURES; f++)
        if (isfinite(by->pearson[f]))
            fprintf(out, "%d %g\n", f, by->pearson[f]);
    fprintf(out, "e\n");
    for (int f = 0; f < FT_FEATURES; f++)
        if (trend[f])
            fprintf(out, "%d %d\n", f, strcmp(trend[f], "rises") == 0 ? 1 : -1);
    fprintf(out, "e\n");
}

static ft_status plot_feature(const ft_trace_by *by, const ft_trace_by_opts *o, ft_error *err)
{
    ft_plot p = {.command = "trace", .path = o->plot, .width = 1200, .height = 480};
    ft_status status = open_plot(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot,
            "set multiplot layout 1,2\nset key left top\nset yrange [0:1]\nset xlabel '%s'\n"
            "set ylabel 'share of nodes accepted'\n"
            "plot '-' using 1:2:3:4 title '95 %%' with yerrorbars, "
            "'-' using 1:2 title 'acceptance, correlation %+.3f' with linespoints\n",
            ft_trace_key_name[o->by], by->pearson[o->by - FT_TRACE_KEY_FEATURES]);
    for (int curve = 0; curve < 2; curve++) {
        for (uint32_t i = 0; i < by->n; i++) {
            const ft_trace_bin *b = &by->bin[i];
            fprintf(p.gnuplot, "%g %g %g %g\n", b->mean, share(b->accepted, b->nodes), b->low,
                    b->high);
        }
        fprintf(p.gnuplot, "e\n");
    }
    draw_correlations(by, p.gnuplot);
    fprintf(p.gnuplot, "unset multiplot\n");
    return ft_plot_close(&p, err);
}

static ft_status by_feature(const ft_trace_by_opts *o, ft_error *err, json_t **report)
{
    const ft_feature key = (ft_feature)(o->by - FT_TRACE_KEY_FEATURES);
    ft_trace_by by;
    ft_status status = ft_trace_by_feature(o->path, key, err, &by);
    if (status == FT_OK && by.nodes == 0)
        status = ft_error_set(err, FT_NOT_FOUND, "trace: %.300s has no judged nodes with features",
                              o->path);
    if (status == FT_OK && o->plot)
        status = plot_feature(&by, o, err);
    if (status != FT_OK)
        return status;
    if (o->text)
        print_feature(&by, key);
    *report = feature_json(&by, key);
    return FT_OK;
}

/* ---- by waste ---- */

static json_t *waste_json(const ft_trace_waste *by)
{
    json_t *bins = json_array();
    for (uint32_t i = 0; i < by->n; i++) {
        const ft_trace_waste_bin *b = &by->bin[i];
        json_array_append_new(
            bins,
            json_pack("{s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "wasted_tokens_per_draft",
                      (int)b->wasted_tokens, "texts", (json_int_t)b->texts, "rounds",
                      (json_int_t)b->rounds, "drafted_per_round", share(b->drafted, b->rounds),
                      "wasted_draft_ms_per_round", share(b->waste.wasted_us, b->rounds) / 1e3,
                      "wasted_draft_share", ft_waste_share(&b->waste), "tokens_per_s",
                      ft_trace_waste_speed(b), "expected_tokens_per_s",
                      ft_trace_waste_expected(by, b->wasted_tokens)));
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:o, s:o}", "by", "waste", "texts",
                     (json_int_t)by->sum.texts, "rounds", (json_int_t)by->sum.rounds,
                     "rounds_without_times", (json_int_t)by->unknown_rounds, "wasted_draft_share",
                     ft_waste_share(&by->sum.waste), "tokens_per_s", ft_trace_waste_speed(&by->sum),
                     "pearson", known(by->pearson), "bins", bins);
}

static void print_waste(const ft_trace_waste *by)
{
    printf("%llu texts, %llu rounds whose times are known; %.1f %% of their drafting time is "
           "wasted\n\n%8s %8s %8s %10s %12s %12s %14s\n",
           (unsigned long long)by->sum.texts, (unsigned long long)by->sum.rounds,
           100 * ft_waste_share(&by->sum.waste), "wasted", "texts", "rounds", "drafted",
           "wasted ms", "tokens/s", "eq. (10)");
    for (uint32_t i = 0; i < by->n; i++) {
        const ft_trace_waste_bin *b = &by->bin[i];
        printf("%8u %8llu %8llu %10.2f %12.3f %12.1f %14.1f\n", b->wasted_tokens,
               (unsigned long long)b->texts, (unsigned long long)b->rounds,
               share(b->drafted, b->rounds), share(b->waste.wasted_us, b->rounds) / 1e3,
               ft_trace_waste_speed(b), ft_trace_waste_expected(by, b->wasted_tokens));
    }
    if (isfinite(by->pearson))
        printf("\ncorrelation of wasted tokens a draft with tokens/s: %+.3f (WISP figure 1: "
               "negative)\n",
               by->pearson);
}

/* WISP figure 1: a text's speed over what its drafts waste, and eq. (10) with this file's mean
 * times. */
static ft_status plot_waste(const ft_trace_waste *by, const ft_trace_by_opts *o, ft_error *err)
{
    ft_plot p = {.command = "trace", .path = o->plot, .width = 720, .height = 480};
    ft_status status = open_plot(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key right top\nset yrange [0:*]\n"
                       "set xlabel 'wasted tokens a draft'\nset ylabel 'tokens/s of a text'\n"
                       "plot '-' using 1:2 title 'measured' with linespoints, "
                       "'-' using 1:2 title 'eq. (10), mean times' with lines\n");
    for (int curve = 0; curve < 2; curve++) {
        for (uint32_t i = 0; i < by->n; i++) {
            const ft_trace_waste_bin *b = &by->bin[i];
            fprintf(p.gnuplot, "%u %g\n", b->wasted_tokens,
                    curve ? ft_trace_waste_expected(by, b->wasted_tokens)
                          : ft_trace_waste_speed(b));
        }
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

static ft_status by_waste(const ft_trace_by_opts *o, ft_error *err, json_t **report)
{
    ft_trace_waste by;
    ft_status status = ft_trace_by_waste(o->path, err, &by);
    if (status == FT_OK && by.sum.rounds == 0)
        status = ft_error_set(err, FT_NOT_FOUND,
                              "trace: %.300s has no rounds whose times are known", o->path);
    if (status == FT_OK && o->plot)
        status = plot_waste(&by, o, err);
    if (status != FT_OK)
        return status;
    if (o->text)
        print_waste(&by);
    *report = waste_json(&by);
    return FT_OK;
}

ft_status ft_cmd_trace_by(const ft_trace_by_opts *opts, ft_error *err, json_t **report)
{
    *report = NULL;
    return opts->by == FT_TRACE_KEY_WASTE ? by_waste(opts, err, report)
                                          : by_feature(opts, err, report);
}
