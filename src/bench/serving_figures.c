// SPDX-License-Identifier: Apache-2.0
// Puts the settings' reports together, and looks at what only several settings tell: which draft
// depth is the best, beside the one that edges chose. Stateless.
#include "bench/serving_figures.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "bench/load_compare.h"
#include "bench/load_report.h"
#include "bench/serving_paper.h"
#include "bench/serving_spec.h"

/* ---- draft depths (SpecEdge figure 10) ---- */

static double median_per_s(const ft_bench_load_cell *cell)
{
    double values[FT_BENCH_ROUNDS_MAX];
    for (uint32_t i = 0; i < cell->n; i++)
        values[i] = cell->per_s[i];
    return cell->n ? ft_bench_median(values, cell->n) : 0;
}

/* Whether a setting differs from `like` in the depth alone, which was asked for. */
static bool is_depth_of(const ft_bench_serving_setting *s, const ft_bench_serving_setting *like)
{
    return s->fixed && s->batch == like->batch && s->shape == like->shape &&
           s->draft_ms == like->draft_ms;
}

/* Levels of the drafts that were verified. */
static double levels_of(const ft_bench_load_cell *cell)
{
    const ft_bench_load_tally t = ft_bench_load_tally_total(&cell->sum);
    return t.trees ? (double)t.edge.depth_sum / (double)t.trees : 0;
}

/* The depth that edges chose: where drafts have as many levels as theirs, between the next lower
 * and the next higher depth that were asked for. Levels and depth differ, since a draft may go on
 * from proactive work or have no room for its last levels. */
static double chosen_depth(const ft_serving *x, uint32_t by_rule, uint32_t rtt)
{
    const double levels = levels_of(&x->report[by_rule]->cell[FT_BENCH_LOAD_PIPELINE][rtt]);
    double low = 0, low_levels = 0, high = 0, high_levels = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const double at = levels_of(&x->report[i]->cell[FT_BENCH_LOAD_PIPELINE][rtt]);
        const double depth = x->setting[i].depth;
        if (!is_depth_of(&x->setting[i], &x->setting[by_rule]))
            continue;
        if (at <= levels && depth > low) {
            low = depth;
            low_levels = at;
        }
        if (at >= levels && (high == 0 || depth < high)) {
            high = depth;
            high_levels = at;
        }
    }
    if (low == 0 || high == 0)
        return fmax(low, high);
    return high_levels > low_levels
               ? low + (high - low) * (levels - low_levels) / (high_levels - low_levels)
               : low;
}

/* What edges chose in setting `by_rule`, beside the depth with the most tokens a second. */
static json_t *best_depth(const ft_serving *x, uint32_t by_rule, uint32_t rtt)
{
    const ft_bench_load_cell *chosen = &x->report[by_rule]->cell[FT_BENCH_LOAD_PIPELINE][rtt];
    const ft_bench_load_cell *best = NULL;
    uint32_t depth = 0;
    json_t *per_s = json_object();
    for (uint32_t i = 0; i < x->n; i++) {
        const ft_bench_load_cell *cell = &x->report[i]->cell[FT_BENCH_LOAD_PIPELINE][rtt];
        char name[16];
        if (!is_depth_of(&x->setting[i], &x->setting[by_rule]))
            continue;
        snprintf(name, sizeof name, "%u", x->setting[i].depth);
        json_object_set_new(per_s, name, json_real(median_per_s(cell)));
        if (!best || median_per_s(cell) > median_per_s(best)) {
            best = cell;
            depth = x->setting[i].depth;
        }
    }
    return json_pack("{s:f, s:f, s:I, s:f, s:o}", "chosen", chosen_depth(x, by_rule, rtt),
                     "tokens_per_core_s", median_per_s(chosen), "best", (json_int_t)depth,
                     "over_best", ft_bench_load_median_ratio(chosen->per_s, best->per_s, chosen->n),
                     "depths", per_s);
}

/* One row for each setting in which edges choose among depths that were measured, too. */
static json_t *depth_rule_json(const ft_serving *x)
{
    json_t *rows = json_array();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t i = 0; i < x->n; i++) {
        json_t *by_rtt = json_object();
        if (x->o->mode[FT_BENCH_LOAD_PIPELINE] && x->o->sweep.depth.n > 1 && !x->setting[i].fixed) {
            for (uint32_t r = 0; r < x->o->n_rtt; r++)
                json_object_set_new(by_rtt, ft_bench_load_rtt_name(x->report[i], r, name),
                                    best_depth(x, i, r));
            json_array_append_new(
                rows, json_pack("{s:I, s:O}", "setting", (json_int_t)i, "rtt_ms", by_rtt));
        }
        json_decref(by_rtt);
    }
    return rows;
}

/* ---- the predictor by devices (WISP tables 5 and 6) ---- */

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* A mode's cell in the figures of a setting. */
static const json_t *cell_of(const json_t *setting, ft_bench_load_mode mode, const char *rtt)
{
    const json_t *by_mode = json_object_get(setting, "modes");
    return json_object_get(json_object_get(by_mode, ft_bench_load_mode_name(mode)), rtt);
}

/* Of a setting: what a mode without the predictor and one with it do, and the gain. */
static json_t *predictor_row(const json_t *setting, const char *rtt)
{
    static const char *const keys[] = {"acceptance", "tokens_per_core_s", "wasted_draft_share"};
    static const char *const gains[] = {"predictor_acceptance_gain", "predictor_goodput_gain",
                                        "predictor_goodput_bound"};
    const json_t *without = cell_of(setting, FT_BENCH_LOAD_EDGE, rtt);
    const json_t *with = cell_of(setting, FT_BENCH_LOAD_PREDICTOR, rtt);
    json_t *row = json_object();
    for (size_t i = 0; i < FT_COUNT(keys); i++)
        json_object_set_new(
            row, keys[i],
            json_pack("{s:f, s:f}", "off", number(without, keys[i]), "on", number(with, keys[i])));
    for (size_t i = 0; i < FT_COUNT(gains); i++)
        json_object_set_new(row, gains[i] + strlen("predictor_"),
                            json_real(number(json_object_get(setting, gains[i]), rtt)));
    return row;
}

/* One row for each setting with both modes; empty without them. */
static json_t *predictor_json(const json_t *settings)
{
    json_t *rows = json_array(), *setting, *gain;
    const char *rtt;
    size_t i;
    json_array_foreach((json_t *)settings, i, setting)
    {
        json_t *by_rtt = json_object();
        json_object_foreach(json_object_get(setting, "predictor_goodput_gain"), rtt, gain)
        {
            json_object_set_new(by_rtt, rtt, predictor_row(setting, rtt));
        }
        if (json_object_size(by_rtt) > 0)
            json_array_append_new(rows,
                                  json_pack("{s:I, s:O, s:O}", "setting", (json_int_t)i, "devices",
                                            json_object_get(setting, "batch"), "rtt_ms", by_rtt));
        json_decref(by_rtt);
    }
    return rows;
}

/* ---- as JSON ---- */

/* A link's rate as it was asked for; nothing without one. */
static void set_rate(json_t *out, const char *way, const ft_line_rate *rate)
{
    const double mbit = rate->bits_per_s[0] / 1e6, other = rate->bits_per_s[1] / 1e6;
    if (rate->step_ns > 0)
        json_object_set_new(out, way,
                            json_pack("{s:[f, f], s:f, s:f}", "steps_mbit", mbit, other, "step_ms",
                                      (double)rate->step_ns / 1e6, "stay", rate->stay));
    else if (mbit > 0)
        json_object_set_new(out, way, json_pack("{s:f}", "mbit", mbit));
}

/* What a setting is, and its figures, into `out`. */
static void set_setting(ft_serving *x, uint32_t i, json_t *out)
{
    const ft_bench_serving_setting *s = &x->setting[i];
    json_object_set_new(out, "batch", json_integer((json_int_t)s->batch));
    json_object_set_new(out, "depth", json_integer((json_int_t)s->depth));
    json_object_set_new(out, "pipeline_depth", json_string(s->fixed ? "fixed" : "rule"));
    json_object_set_new(out, "shape", json_string(ft_bench_shape_name[s->shape]));
    json_object_set_new(out, "draft_ms", s->draft_ms > 0 ? json_real(s->draft_ms) : json_null());
    if (x->o->mode[FT_BENCH_LOAD_SERVER_SPEC])
        json_object_set_new(out, "server_spec", ft_serving_tuned_json(&x->tuned[s->leader]));
    ft_bench_load_report_json(x->report[i], out);
}

static json_t *settings_json(ft_serving *x)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < x->n; i++) {
        json_t *one = json_object();
        set_setting(x, i, one);
        json_array_append_new(all, one);
    }
    return all;
}

json_t *ft_serving_figures(ft_serving *x)
{
    const ft_bench_serving_opts *f = x->o;
    json_t *out = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:f, s:b, s:f, s:f, "
        "s:s?}",
        "command", "bench serving", "model", f->model, "draft_model", f->draft, "prompts",
        f->prompts, "n_prompts", (int)x->set.n, "skipped_too_long", (int)x->set.skipped, "n",
        (json_int_t)f->n, "budget", (json_int_t)f->drafts.budget, "rounds", (json_int_t)f->rounds,
        "seed", (json_int_t)f->sampling.seed, "server_core", x->core, "driver_cores",
        x->driver_cores, "depth_rule", ft_bench_depth_name[f->drafts.rule], "temperature", f->temp,
        "interleaved", 1, "server_dollars_per_h", f->price.server, "edge_dollars_per_h",
        f->price.edge, "memory", f->memory);
    set_rate(out, "up", &f->up);
    set_rate(out, "down", &f->down);
    set_setting(x, 0, out);
    json_object_set_new(out, "settings", settings_json(x));
    json_object_set_new(out, "chosen_depths", depth_rule_json(x));
    json_object_set_new(out, "predictor_by_devices",
                        predictor_json(json_object_get(out, "settings")));
    json_object_set_new(out, "paper", ft_serving_paper_json());
    return out;
}

/* ---- for a person ---- */

static void print_setting(const ft_serving *x, uint32_t i, FILE *out)
{
    const ft_bench_serving_setting *s = &x->setting[i];
    fprintf(out, "\n== batch %u, %ss, ", s->batch, ft_bench_shape_name[s->shape]);
    if (s->fixed)
        fprintf(out, "%u draft forwards", s->depth);
    else
        fprintf(out, "at most %u draft forwards", s->depth);
    fprintf(out, " of %.2f ms ==\n", x->report[i]->forward_ms);
}

static void print_depths(const json_t *rows, FILE *out)
{
    const json_t *row, *at, *per_s;
    const char *rtt, *depth;
    size_t i;
    json_array_foreach((json_t *)rows, i, row)
    {
        fprintf(out, "\nedge+pipeline by draft depth, tokens per core-second (SpecEdge figure 10: "
                     "depths 7, 5, 4 at 15, 40, 50 ms)\n");
        json_object_foreach(json_object_get(row, "rtt_ms"), rtt, at)
        {
            fprintf(out, "RTT %s ms:", rtt);
            json_object_foreach(json_object_get(at, "depths"), depth, per_s)
            {
                fprintf(out, "  %s: %.1f", depth, json_number_value(per_s));
            }
            fprintf(out, "  | chosen %.1f: %.1f, %.3f of the best\n",
                    json_number_value(json_object_get(at, "chosen")),
                    json_number_value(json_object_get(at, "tokens_per_core_s")),
                    json_number_value(json_object_get(at, "over_best")));
        }
    }
}

static void print_predictor(const json_t *rows, FILE *out)
{
    const json_t *row, *at;
    const char *rtt;
    size_t i;
    if (json_array_size(rows) > 0)
        fprintf(out,
                "\nthe predictor off and on, by devices (WISP tables 5 and 6: acceptance +34 "
                "to +54 %%)\n%7s %7s %16s %16s %8s %16s %8s %8s %8s\n",
                "devices", "RTT", "acceptance", "wasted drafting", "gain %", "tokens/core-s",
                "gain %", "bound %", "WISP %");
    json_array_foreach((json_t *)rows, i, row)
    {
        const double devices = number(row, "devices"), paper = ft_wisp_predictor_gain(devices);
        json_object_foreach(json_object_get(row, "rtt_ms"), rtt, at)
        {
            const json_t *accept = json_object_get(at, "acceptance"),
                         *wasted = json_object_get(at, "wasted_draft_share"),
                         *per_s = json_object_get(at, "tokens_per_core_s");
            fprintf(out, "%7.0f %7s %7.3f > %6.3f %7.3f > %6.3f %+8.1f %7.1f > %6.1f %+8.1f %8.1f",
                    devices, rtt, number(accept, "off"), number(accept, "on"),
                    number(wasted, "off"), number(wasted, "on"),
                    100 * number(at, "acceptance_gain"), number(per_s, "off"), number(per_s, "on"),
                    100 * number(at, "goodput_gain"), 100 * number(at, "goodput_bound"));
            if (paper > 0)
                fprintf(out, " %+8.1f", 100 * paper);
            fputc('\n', out);
        }
    }
}

void ft_serving_print(const ft_serving *x, const json_t *figures, FILE *out)
{
    const ft_bench_serving_opts *f = x->o;
    const json_t *settings = json_object_get(figures, "settings");
    fprintf(out,
            "%s, drafts by %s: %u prompts of at most %lld tokens, %lld tokens each, temperature "
            "%g, %lld round(s)\n",
            f->model, f->draft, x->set.n, (long long)f->set.longest, (long long)f->n, f->temp,
            (long long)f->rounds);
    ft_bench_load_print_cores(x->core, x->driver_cores, out);
    ft_bench_load_print_memory(f->memory, out);
    for (uint32_t i = 0; i < x->n; i++) {
        print_setting(x, i, out);
        if (f->mode[FT_BENCH_LOAD_SERVER_SPEC])
            ft_serving_tuned_print(&x->tuned[x->setting[i].leader], out);
        fputc('\n', out);
        ft_bench_load_report_print(x->report[i], json_array_get(settings, i), out);
    }
    print_depths(json_object_get(figures, "chosen_depths"), out);
    print_predictor(json_object_get(figures, "predictor_by_devices"), out);
}
