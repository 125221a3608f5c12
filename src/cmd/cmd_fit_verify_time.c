// SPDX-License-Identifier: Apache-2.0
// foretoken fit verify-time: what a pass of this model costs on this machine (WISP 4.4, eq. (19),
// and appendix C). Profiles batches, fits costs by least squares, says how certain they are, writes
// the file that `serve --costs` reads.
//
// Departs from the paper:
// - Rows with logits are a feature, and whether there are any is another. The output head is a
//   large part of a small model's work, and its weights are read once.
// - Interactions are those of a causal pass and not L_total x L_new.
// - Squared errors are relative to the time of the pass (fit_law.h), and a batch's time is that of
//   its shortest run (fit_passes.h).
// - A feature whose cost would be negative is left out (fit_law.h).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "cmd/fit_law.h"
#include "cmd/gen_flags.h"
#include "sched/cost_file.h"

typedef struct verify_time {
    ft_fit_opts opts;
    const char *out, *plot;
    bool json;
    ft_fit_passes passes;
    ft_fit fit;
    ft_fit_shares shares[FT_REGIMES];
} verify_time;

/* The regimes in turn. */
static ft_status draw(const void *ctx, const ft_profile *profile, size_t i, ft_rng *rng,
                      ft_error *err, ft_profile_batch *out)
{
    (void)ctx;
    return ft_profile_draw(profile, (ft_regime)(i % FT_REGIMES), rng, err, out);
}

/* ---- what comes out ---- */

static json_t *batch_json(const verify_time *f, int part, const ft_fit_pass *it)
{
    json_t *out = json_pack("{s:s}", "regime", ft_regime_name[it->batch.regime]);
    json_object_update_new(out, ft_fit_pass_json(it, part == FT_FIT_TRAIN));
    json_object_set_new(out, "predicted_ms",
                        json_real(ft_fit_predict_us(&f->fit, &it->batch) / 1e3));
    return out;
}

static json_t *report_of(const verify_time *f)
{
    const ft_lsq_quality *test = &f->fit.quality[FT_FIT_TEST];
    ft_costs costs = {.error = fmin(test->mape, 1)};
    memcpy(costs.us, f->fit.us, sizeof costs.us);
    snprintf(costs.model, sizeof costs.model, "%s", ft_model_name(f->passes.model));
    json_t *report = ft_costs_json(&costs), *regime = json_object(), *batches = json_array();
    json_t *shares = json_object();
    for (int i = 0; i < FT_REGIMES; i++) {
        json_object_set_new(regime, ft_regime_name[i], ft_fit_quality_json(&f->fit.regime[i]));
        json_object_set_new(shares, ft_regime_name[i], ft_fit_shares_json(&f->fit, &f->shares[i]));
    }
    for (int part = 0; part < FT_FIT_PARTS; part++)
        for (size_t i = 0; i < f->passes.part[part].n; i++)
            json_array_append_new(batches, batch_json(f, part, &f->passes.part[part].at[i]));
    json_object_update_new(
        report, json_pack("{s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:i, s:s}", "interval_95",
                          ft_fit_intervals_json(&f->fit), "train",
                          ft_fit_quality_json(&f->fit.quality[FT_FIT_TRAIN]), "test",
                          ft_fit_quality_json(test), "test_by_regime", regime, "cross_validation",
                          ft_fit_cv_json(&f->fit), "r2", test->r2, "mape", test->mape, "noise",
                          f->passes.noise, "batches", batches, "threads", f->opts.profile.n_threads,
                          "kv_type", ft_kv_type_name(f->opts.profile.kv_type)));
    json_object_set_new(report, "shares_by_regime", shares);
    json_object_set_new(report, "file", json_string(f->opts.path));
    return report;
}

static void print_report(const verify_time *f)
{
    ft_fit_print_costs(&f->fit);
    ft_fit_print_quality(&f->fit, FT_REGIMES, ft_regime_name);
    ft_fit_print_shares(&f->fit, f->shares);
    ft_fit_print_noise(&f->passes);
}

/* The share of each part by regime, stacked. */
static void plot_shares(const verify_time *f, FILE *out)
{
    const ft_fit_law *law = f->fit.law;
    fprintf(out, "unset logscale\nset key outside right top\nset yrange [0:1]\nset xlabel ''\n"
                 "set ylabel 'share of predicted time'\nset style data histograms\n"
                 "set style histogram rowstacked\nset style fill solid\nset boxwidth 0.8\nplot ");
    for (uint32_t j = 0; j < law->n; j++)
        fprintf(out, "%s'-' using 2:xtic(1) title '%s'", j ? ", " : "", law->name[j]);
    fprintf(out, "\n");
    for (uint32_t j = 0; j < law->n; j++) {
        for (int r = 0; r < FT_REGIMES; r++)
            fprintf(out, "%s %g\n", ft_regime_name[r], f->shares[r].share[j]);
        fprintf(out, "e\n");
    }
}

/* Predicted over measured milliseconds (WISP figure 9), and shares (figure 11). */
static ft_status plot(const verify_time *f, ft_error *err)
{
    ft_plot p = {.command = "fit verify-time", .path = f->plot, .width = 1200, .height = 560};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set termoption noenhanced\nset multiplot layout 1,2\n"
                       "set key left top\nset logscale xy\n"
                       "set xlabel 'measured ms'\nset ylabel 'predicted ms'\n"
                       "plot x notitle with lines, '-' title 'fitted', '-' title 'unseen'\n");
    for (int part = 0; part < FT_FIT_PARTS; part++) {
        for (size_t i = 0; i < f->passes.part[part].n; i++) {
            const ft_fit_pass *it = &f->passes.part[part].at[i];
            fprintf(p.gnuplot, "%g %g\n", it->us / 1e3,
                    ft_fit_predict_us(&f->fit, &it->batch) / 1e3);
        }
        fprintf(p.gnuplot, "e\n");
    }
    plot_shares(f, p.gnuplot);
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(verify_time, opts, ft_flags_fit),
    {"--out", "-o", FT_FLAG(verify_time, out), "FILE", "write what serve --costs reads"},
    {"--plot", NULL, FT_FLAG(verify_time, plot), "FILE",
     "predicted over measured time, and the shares of its parts, by gnuplot: .svg, .png or .txt",
     .plot = true},
    {"--json", NULL, FT_FLAG(verify_time, json), NULL, "print one JSON object"},
};

static const verify_time defaults = {.opts = FT_FIT_OPTS_INIT};

static int run(void *options, int n_words, char **words)
{
    verify_time *f = options;
    const ft_fit_draw batches = {.draw = draw};
    ft_error err = {0};
    json_t *report = NULL;
    ft_status status = ft_fit_measure("fit verify-time", &f->opts, &batches, &err, &f->passes);
    if (status == FT_OK)
        status = ft_fit_costs(&ft_fit_law_six, &f->passes, FT_REGIMES, (uint64_t)f->opts.seed, &err,
                              &f->fit);
    for (int r = 0; r < FT_REGIMES && status == FT_OK; r++)
        ft_fit_get_shares(&f->fit, &f->passes, (ft_regime)r, &f->shares[r]);
    if (status == FT_OK && f->plot)
        status = plot(f, &err);
    if (status == FT_OK)
        report = report_of(f);
    if (status == FT_OK && f->out)
        status = ft_cmd_write_json("fit verify-time", f->out, report, JSON_INDENT(2), &err);
    if (status == FT_OK && !f->json)
        print_report(f);
    ft_fit_passes_deinit(&f->passes);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_fit_verify_time = {
    .name = "fit verify-time",
    .summary = "measure what passes of a model cost on this machine, for serve --costs",
    .usage = "-m FILE [flags]",
    .about = "Measures what forward passes of a model cost on this machine (prompts, trees "
             "behind long contexts, both together). Fits fixed, per-row, per-interaction and "
             "per-cached-token costs, and says how well they predict batches that were not "
             "fitted. serve --costs FILE starts from the result instead of learning the costs "
             "from its first users.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
