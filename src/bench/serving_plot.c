// SPDX-License-Identifier: Apache-2.0
// Draws by gnuplot from the report alone. Each panel writes its points as named blocks of data, and
// then one plot of them. The paper's numbers are those of its text and tables; its figures give no
// others. Stateless.
#include "bench/serving_plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/plot.h"
#include "bench/serving_paper.h"

#define PANELS_MAX    8
#define PAPER_DEEPEST 7     /* of the depths in figure 10 */
#define PAPER_RTT_MS  14.07 /* of the paper's measurements, but for figures 10 and 11 */

typedef struct drawing {
    FILE *out;
    const json_t *report;
    const json_t *settings; /* of the report */
    char rtt[24];           /* the key of the time that is nearest to the paper's */
} drawing;

static double number(const json_t *o, const char *a, const char *b, const char *c)
{
    const json_t *v = json_object_get(o, a);
    v = b ? json_object_get(v, b) : v;
    return json_number_value(c ? json_object_get(v, c) : v);
}

static const json_t *cell_of(const json_t *setting, const char *mode, const char *rtt)
{
    return json_object_get(json_object_get(json_object_get(setting, "modes"), mode), rtt);
}

static bool has(const json_t *setting, const char *mode)
{
    return json_object_get(json_object_get(setting, "modes"), mode) != NULL;
}

/* The cells of the first mode, by round-trip time. */
static json_t *rtts_of(const json_t *setting)
{
    json_t *modes = json_object_get(setting, "modes");
    return json_object_iter_value(json_object_iter(modes));
}

static void find_rtt(drawing *d)
{
    const json_t *cell;
    const char *rtt;
    double best = INFINITY;
    json_object_foreach(rtts_of(d->report), rtt, cell)
    {
        const double off = fabs(strtod(rtt, NULL) - PAPER_RTT_MS);
        if (off < best)
            snprintf(d->rtt, sizeof d->rtt, "%s", rtt);
        best = fmin(best, off);
    }
}

/* How many values of a setting's field there are. */
static size_t values_of(const drawing *d, const char *key)
{
    size_t n = 0, i;
    const json_t *s;
    json_array_foreach((json_t *)d->settings, i, s)
    {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || json_equal(json_object_get(s, key),
                                      json_object_get(json_array_get(d->settings, k), key));
        n += !seen;
    }
    return n;
}

/* A setting that differs from the first in this field at most; any depth that edges chose. */
static bool varies_only(const drawing *d, const json_t *setting, const char *key)
{
    static const char *const keys[] = {"batch", "shape", "draft_ms", "pipeline_depth"};
    const json_t *first = json_array_get(d->settings, 0);
    for (size_t i = 0; i < FT_COUNT(keys); i++)
        if (strcmp(keys[i], key) != 0 &&
            !json_equal(json_object_get(setting, keys[i]), json_object_get(first, keys[i])))
            return false;
    return true;
}

/* Without early drafts a round cannot be shorter than the network and the verification. */
static double least_itl(const json_t *cell, const char *rtt)
{
    return (strtod(rtt, NULL) + number(cell, "verify_ms_p50", NULL, NULL)) /
           number(cell, "tokens_per_verify", NULL, NULL);
}

/* ---- Table 1: the headline ---- */

static void draw_headline(const drawing *d)
{
    const json_t *r = d->report;
    fprintf(d->out, "$headline << EOD\n");
    fprintf(d->out, "\"tokens/s\" %g %g %g\n", number(r, "server_throughput_ratio", d->rtt, NULL),
            number(r, "bound", d->rtt, NULL), FT_SPECEDGE_THROUGHPUT);
    fprintf(d->out, "\"tokens/$\" %g %g %g\n", number(r, "cost_efficiency_ratio", d->rtt, NULL),
            number(r, "cost_bound", d->rtt, NULL), FT_SPECEDGE_COST);
    /* early drafts hide the network, so only the verification is left */
    fprintf(d->out, "\"ITL\" %g %g %g\n", number(r, "itl_ratio", "edge+pipeline", d->rtt),
            least_itl(cell_of(r, "edge+pipeline", d->rtt), "0") /
                number(cell_of(r, "server-spec", d->rtt), "itl_ms", "mean", NULL),
            FT_SPECEDGE_ITL);
    /* No bound: a run's times do not limit this figure. */
    fprintf(d->out, "\"tokens/verification\" %g NaN %g\nEOD\n",
            1 + number(json_object_get(r, "tokens_per_verify_gain"), "over_server_spec",
                       "edge+pipeline", d->rtt),
            FT_SPECEDGE_PER_VERIFY);
    fprintf(d->out,
            "set title 'edge+pipeline over server-spec, %s ms (table 1, figure 9)'\n"
            "set style data histograms\nset style histogram clustered\nset xlabel ''\n"
            "set ylabel 'ratio'\nset yrange [0:*]\n"
            "plot $headline using 2:xtic(1) title 'ours', '' using 3 title 'bound', "
            "'' using 4 title 'SpecEdge'\n",
            d->rtt);
}

/* ---- figure 7: the server's time ---- */

/* Of each mode: the time that the server needs if it does nothing but verify. Of modes whose edges
 * draft: SpecEdge's reduction of server-spec's time. */
static void write_times_beside(const drawing *d)
{
    const json_t *by_rtt;
    const char *mode;
    const double spec_ms =
        number(cell_of(d->report, "server-spec", d->rtt), "busy_ms_per_token", NULL, NULL);
    int at = 0;
    fprintf(d->out, "$verifying << EOD\n");
    json_object_foreach(json_object_get(d->report, "modes"), mode, by_rtt)
    {
        const json_t *c = json_object_get(by_rtt, d->rtt);
        fprintf(d->out, "%d %g", at++,
                number(c, "busy_ms_per_token", NULL, NULL) *
                    number(c, "verifying_share", NULL, NULL) /
                    (1 - number(c, "idle_share", NULL, NULL)));
        if (strncmp(mode, "edge", 4) == 0 && spec_ms > 0)
            fprintf(d->out, " %g %g %g\n",
                    (FT_SPECEDGE_TIME_LEAST + FT_SPECEDGE_TIME_MOST) / 2 * spec_ms,
                    FT_SPECEDGE_TIME_LEAST * spec_ms, FT_SPECEDGE_TIME_MOST * spec_ms);
        else
            fprintf(d->out, " NaN NaN NaN\n");
    }
    fprintf(d->out, "EOD\n");
}

static void draw_times(const drawing *d)
{
    static const char *const shares[] = {"drafting_share", "verifying_share", "other_share",
                                         "idle_share"};
    const json_t *by_rtt;
    const char *mode;
    fprintf(d->out, "$times << EOD\n");
    json_object_foreach(json_object_get(d->report, "modes"), mode, by_rtt)
    {
        const json_t *c = json_object_get(by_rtt, d->rtt);
        const double all_ms =
            number(c, "busy_ms_per_token", NULL, NULL) / (1 - number(c, "idle_share", NULL, NULL));
        fprintf(d->out, "\"%s\"", mode);
        for (size_t i = 0; i < FT_COUNT(shares); i++)
            fprintf(d->out, " %g", all_ms * number(c, shares[i], NULL, NULL));
        fputc('\n', d->out);
    }
    fprintf(d->out, "EOD\n");
    write_times_beside(d);
    fprintf(d->out,
            "set title 'server time of a token, %s ms (figure 7)'\nset style data histograms\n"
            "set style histogram rowstacked\nset xlabel ''\nset ylabel 'ms a token'\n"
            "set yrange [0:*]\n"
            "plot $times using 2:xtic(1) title 'drafting', '' using 3 title 'verifying', "
            "'' using 4 title 'other', '' using 5 title 'idle', "
            "$verifying using 1:2 with points pointtype 2 title 'bound: verifying alone', "
            "'' using 1:3:4:5 with yerrorbars pointtype 7 title 'SpecEdge: 40 to 50 %% less work "
            "than server-spec'\n",
            d->rtt);
}

/* ---- figure 11: round-trip times ---- */

/* What each way needs at least, over server-spec: edge+proactive the network and a verification;
 * layer-split a round trip for each token. */
static void write_least_itls(const drawing *d)
{
    const json_t *c;
    const char *rtt;
    fprintf(d->out, "$least << EOD\n");
    json_object_foreach(rtts_of(d->report), rtt, c)
    {
        const json_t *it = cell_of(d->report, "edge+proactive", rtt);
        const double spec_ms =
            number(cell_of(d->report, "server-spec", rtt), "itl_ms", "mean", NULL);
        if (spec_ms <= 0)
            continue;
        fprintf(d->out, "%s %g", rtt, strtod(rtt, NULL) / spec_ms);
        if (it)
            fprintf(d->out, " %g\n", least_itl(it, rtt) / spec_ms);
        else
            fprintf(d->out, " NaN\n");
    }
    fprintf(d->out, "EOD\n");
}

static void draw_rtts(const drawing *d)
{
    static const char *const modes[] = {"layer-split", "edge", "edge+proactive", "edge+early",
                                        "edge+pipeline"};
    const json_t *c;
    const char *rtt;
    for (size_t m = 0; m < FT_COUNT(modes); m++) {
        fprintf(d->out, "$rtt%zu << EOD\n", m);
        json_t *by_rtt = json_object_get(json_object_get(d->report, "itl_ratio"), modes[m]);
        json_object_foreach(by_rtt, rtt, c)
        {
            fprintf(d->out, "%s %g\n", rtt, json_number_value(c));
        }
        fprintf(d->out, "EOD\n");
    }
    write_least_itls(d);
    fprintf(d->out,
            "$paper << EOD\n15 %g\n50 %g\n65 %g\nEOD\n$paper_split << EOD\n15 %g\n50 %g\nEOD\n"
            "set title 'ITL over server-spec (figure 11)'\nset xlabel 'round trip, ms'\n"
            "set ylabel 'ratio'\nset yrange [0:*]\nplot ",
            FT_SPECEDGE_15_MS / FT_SPECEDGE_SPEC_MS, FT_SPECEDGE_50_MS / FT_SPECEDGE_SPEC_MS,
            FT_SPECEDGE_65_MS / FT_SPECEDGE_SPEC_MS, FT_SPECEDGE_SPLIT_15_MS / FT_SPECEDGE_SPEC_MS,
            FT_SPECEDGE_SPLIT_50_MS / FT_SPECEDGE_SPEC_MS);
    for (size_t m = 0; m < FT_COUNT(modes); m++)
        if (has(d->report, modes[m]))
            fprintf(d->out, "$rtt%zu with linespoints title '%s', ", m, modes[m]);
    if (has(d->report, "edge+proactive"))
        fprintf(d->out, "$least using 1:3 with lines dashtype 2 title 'edge+proactive: network "
                        "and verification alone', ");
    if (has(d->report, "layer-split"))
        fprintf(d->out, "$least using 1:2 with lines dashtype 3 title 'layer-split: a round trip "
                        "a token alone', ");
    fprintf(d->out, "$paper with points pointtype 7 title 'SpecEdge'");
    if (has(d->report, "layer-split"))
        fprintf(d->out, ", $paper_split with points pointtype 5 title 'their layer-split'");
    fputc('\n', d->out);
}

/* ---- figure 10: draft depths ---- */

/* Throughput by depth at one round-trip time, and what it would be if the server never waited. */
static void write_depths(const drawing *d, size_t number_of, const char *rtt)
{
    const json_t *s;
    size_t i;
    fprintf(d->out, "$depth%zu << EOD\n", number_of);
    json_array_foreach((json_t *)d->settings, i, s)
    {
        const json_t *c = cell_of(s, "edge+pipeline", rtt);
        if (varies_only(d, s, "pipeline_depth") &&
            strcmp(json_string_value(json_object_get(s, "pipeline_depth")), "fixed") == 0)
            fprintf(d->out, "%g %g %g\n", number(s, "depth", NULL, NULL),
                    number(c, "tokens_per_core_s", NULL, NULL),
                    number(c, "tokens_per_busy_s", NULL, NULL));
    }
    fprintf(d->out, "EOD\n");
}

static void draw_depths(const drawing *d)
{
    const json_t *by_rtt =
        json_object_get(json_array_get(json_object_get(d->report, "chosen_depths"), 0), "rtt_ms");
    const json_t *at;
    const char *rtt;
    size_t n = 0;
    json_object_foreach((json_t *)by_rtt, rtt, at)
    {
        write_depths(d, n, rtt);
        fprintf(d->out, "$chosen%zu << EOD\n%g %g\nEOD\n", n, number(at, "chosen", NULL, NULL),
                number(at, "tokens_per_core_s", NULL, NULL));
        if (ft_specedge_depth(strtod(rtt, NULL)))
            fprintf(d->out,
                    "set arrow from %d, graph 0 to %d, graph 0.08 backhead linecolor %zu\n"
                    "set label 'SpecEdge, %s ms' at %d, graph 0.1 rotate by 90\n",
                    ft_specedge_depth(strtod(rtt, NULL)), ft_specedge_depth(strtod(rtt, NULL)),
                    n + 1, rtt, ft_specedge_depth(strtod(rtt, NULL)));
        n++;
    }
    fprintf(d->out,
            "set title 'edge+pipeline by draft depth (figure 10; circles: what edges chose, "
            "dashed: a server that never waits)'\nset xlabel 'draft forwards'\n"
            "set xrange [0:%g]\n"
            "set ylabel 'tokens per core-second'\nset yrange [0:*]\nplot ",
            fmax(PAPER_DEEPEST, number(json_array_get(d->settings, 0), "depth", NULL, NULL)) + 1);
    n = 0;
    json_object_foreach((json_t *)by_rtt, rtt, at)
    {
        fprintf(d->out,
                "%s$depth%zu using 1:2 with linespoints linecolor %zu title '%s ms', "
                "'' using 1:3 with lines dashtype 2 linecolor %zu notitle, "
                "$chosen%zu with points pointtype 6 pointsize 2 linecolor %zu notitle",
                n ? ", " : "", n, n + 1, rtt, n + 1, n, n + 1);
        n++;
    }
    fprintf(d->out, "\nunset arrow\nunset label\nset xrange [*:*]\n");
}

/* ---- figure 6: batches ---- */

/* Dollars a million tokens. */
static double price_of(const json_t *cell)
{
    return 1e6 / number(cell, "tokens_per_dollar", NULL, NULL);
}

static void draw_batches(const drawing *d)
{
    static const char *const modes[] = {"plain", "server-spec", "edge+proactive", "edge+pipeline"};
    const json_t *s;
    size_t i;
    for (size_t m = 0; m < FT_COUNT(modes); m++) {
        fprintf(d->out, "$batch%zu << EOD\n", m);
        json_array_foreach((json_t *)d->settings, i, s)
        {
            const json_t *c = cell_of(s, modes[m], d->rtt);
            if (c && varies_only(d, s, "batch"))
                fprintf(d->out, "%g %g %g\n", number(c, "itl_ms", "mean", NULL), price_of(c),
                        number(s, "batch", NULL, NULL));
        }
        fprintf(d->out, "EOD\n");
    }
    fprintf(d->out, "$bounds << EOD\n");
    json_array_foreach((json_t *)d->settings, i, s)
    {
        const json_t *c = cell_of(s, "edge+pipeline", d->rtt);
        if (c && varies_only(d, s, "batch"))
            fprintf(d->out, "%g %g\n", number(c, "itl_ms", "mean", NULL),
                    price_of(cell_of(s, "server-spec", d->rtt)) /
                        number(s, "cost_bound", d->rtt, NULL));
    }
    fprintf(d->out,
            "EOD\nset title 'cost over ITL by batch, %s ms (figure 6; SpecEdge on average: cost / "
            "1.91, ITL -11 %%)'\nset xlabel 'ITL, ms'\nset ylabel 'dollars a million tokens'\n"
            "set yrange [0:*]\nplot ",
            d->rtt);
    for (size_t m = 0; m < FT_COUNT(modes); m++)
        if (has(d->report, modes[m]))
            fprintf(d->out,
                    "$batch%zu using 1:2 with linespoints title '%s', "
                    "'' using 1:2:3 with labels offset 0,1 notitle, ",
                    m, modes[m]);
    fprintf(d->out,
            "$bounds with lines dashtype 2 title 'bound', $batch1 using ($1*%g):($2/%g) "
            "with points pointtype 7 title 'SpecEdge: its gains over our server-spec'\n",
            FT_SPECEDGE_ITL, FT_SPECEDGE_COST);
}

/* ---- figure 12: devices ---- */

/* What the speedup would be if a round took its network and its verification alone. */
static void write_device_bounds(const drawing *d, const char *mode)
{
    const json_t *s;
    size_t i;
    fprintf(d->out, "$device_bound << EOD\n");
    json_array_foreach((json_t *)d->settings, i, s)
    {
        const json_t *c = cell_of(s, mode, d->rtt), *plain = cell_of(s, "plain", d->rtt);
        if (c && plain && varies_only(d, s, "draft_ms"))
            fprintf(d->out, "%g %g\n", number(s, "forward_ms", NULL, NULL),
                    number(plain, "itl_ms", "mean", NULL) / least_itl(c, d->rtt));
    }
    fprintf(d->out, "EOD\n");
}

static void draw_devices(const drawing *d)
{
    static const char *const modes[] = {"server-spec", "edge", "edge+proactive", "edge+early",
                                        "edge+pipeline"};
    const char *bound = has(d->report, "edge+proactive") ? "edge+proactive" : "edge";
    const json_t *s;
    size_t i;
    for (size_t m = 0; m < FT_COUNT(modes); m++) {
        fprintf(d->out, "$device%zu << EOD\n", m);
        json_array_foreach((json_t *)d->settings, i, s)
        {
            const json_t *c = cell_of(s, modes[m], d->rtt);
            if (c && varies_only(d, s, "draft_ms"))
                fprintf(d->out, "%g %g\n", number(s, "forward_ms", NULL, NULL),
                        number(s, "speedup", modes[m], d->rtt));
        }
        fprintf(d->out, "EOD\n");
    }
    write_device_bounds(d, bound);
    fprintf(d->out,
            "set title 'speedup over plain decoding by device, %s ms (figure 12)'\n"
            "set xlabel 'a draft forward, ms'\nset ylabel 'ITL of plain / ITL'\nset yrange [0:*]\n"
            "plot ",
            d->rtt);
    for (size_t m = 0; m < FT_COUNT(modes); m++)
        if (has(d->report, modes[m]))
            fprintf(d->out, "$device%zu with linespoints title '%s', ", m, modes[m]);
    if (has(d->report, bound))
        fprintf(d->out,
                "$device_bound with lines dashtype 2 title '%s: network and verification alone', ",
                bound);
    fprintf(d->out,
            "%g with lines dashtype 3 title 'SpecEdge: least and most of table 3', "
            "%g with lines dashtype 3 notitle\n",
            FT_SPECEDGE_SPEEDUP_LEAST, FT_SPECEDGE_SPEEDUP_MOST);
}

/* ---- appendix E: chains ---- */

static void draw_shapes(const drawing *d)
{
    const json_t *s;
    size_t i;
    fprintf(d->out, "$shape << EOD\n");
    json_array_foreach((json_t *)d->settings, i, s)
    {
        const char *shape = json_string_value(json_object_get(s, "shape"));
        const bool chain = strcmp(shape, "chain") == 0;
        if (varies_only(d, s, "shape"))
            fprintf(d->out, "\"%ss: tokens/s\" %g %g %g\n\"%ss: tokens/$\" %g %g %g\n", shape,
                    number(s, "server_throughput_ratio", d->rtt, NULL),
                    number(s, "bound", d->rtt, NULL),
                    chain ? FT_SPECEDGE_CHAIN_THROUGHPUT : FT_SPECEDGE_THROUGHPUT, shape,
                    number(s, "cost_efficiency_ratio", d->rtt, NULL),
                    number(s, "cost_bound", d->rtt, NULL),
                    chain ? FT_SPECEDGE_CHAIN_COST : FT_SPECEDGE_COST);
    }
    fprintf(d->out,
            "EOD\nset title 'edge+pipeline over server-spec, trees and chains, %s ms (appendix "
            "E)'\nset style data histograms\nset style histogram clustered\nset xlabel ''\n"
            "set ylabel 'ratio'\nset yrange [0:*]\n"
            "plot $shape using 2:xtic(1) title 'ours', '' using 3 title 'bound', "
            "'' using 4 title 'SpecEdge'\n",
            d->rtt);
}

/* ---- all of them ---- */

/* Which panels there are something to draw in. */
static size_t panels_of(const drawing *d, void (*panel[PANELS_MAX])(const drawing *))
{
    const bool both = has(d->report, "server-spec") && has(d->report, "edge+pipeline");
    const bool priced = json_object_get(d->report, "cost_efficiency_ratio") != NULL;
    size_t n = 0;
    if (both && priced)
        panel[n++] = draw_headline;
    panel[n++] = draw_times;
    if (json_array_size(json_object_get(d->report, "chosen_depths")) > 0)
        panel[n++] = draw_depths;
    if (has(d->report, "server-spec") && json_object_size(rtts_of(d->report)) > 1)
        panel[n++] = draw_rtts;
    if (both && priced && values_of(d, "batch") > 1)
        panel[n++] = draw_batches;
    if (has(d->report, "plain") && values_of(d, "draft_ms") > 1)
        panel[n++] = draw_devices;
    if (both && priced && values_of(d, "shape") > 1)
        panel[n++] = draw_shapes;
    return n;
}

void ft_bench_serving_script(const json_t *report, FILE *out)
{
    void (*panel[PANELS_MAX])(const drawing *);
    drawing d = {.out = out, .report = report, .settings = json_object_get(report, "settings")};
    find_rtt(&d);
    const size_t n = panels_of(&d, panel);
    fprintf(out, "set multiplot layout %zu,%d\nset style fill solid 0.8\nset key top left\n",
            (n + 1) / 2, n > 1 ? 2 : 1);
    for (size_t i = 0; i < n; i++)
        panel[i](&d);
    fprintf(out, "unset multiplot\n");
}

ft_status ft_bench_serving_plot(const json_t *report, const char *path, ft_error *err)
{
    void (*panel[PANELS_MAX])(const drawing *);
    const drawing d = {.report = report, .settings = json_object_get(report, "settings")};
    const size_t n = panels_of(&d, panel);
    ft_plot p = {.command = "bench serving",
                 .path = path,
                 .width = n > 1 ? 1600 : 800,
                 .height = 520 * (uint32_t)((n + 1) / 2)};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    ft_bench_serving_script(report, p.gnuplot);
    return ft_plot_close(&p, err);
}
