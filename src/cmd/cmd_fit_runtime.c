// SPDX-License-Identifier: Apache-2.0
// foretoken fit runtime: c1 and c2 of T(b, F) = c1 F b + c2 (Zhu et al., eq. (17)) for one model of
// a pair on this machine, and beside them the six costs of sched/cost.h from the same passes.
//
// F are the operations of one task as the paper counts them, eqs. (11) to (14): four projections of
// h1 x h1 in a layer, a feed-forward of two matrices, and no output head. A model with fewer heads
// of K and V, with a gate or with a large head does fewer or more; c1 contains that. In (17) a
// batch is padded to its longest text, as the paper's passes are. Our passes have the rows of each
// task and no others.
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/fit_law.h"

#define STEPS 2 /* regimes: the first step, later steps */

static const char *const step_name[STEPS] = {
    [FT_REGIME_COMPUTE] = "first step", [FT_REGIME_MEMORY] = "later steps"};
static const char *const step_key[STEPS] = {
    [FT_REGIME_COMPUTE] = "first", [FT_REGIME_MEMORY] = "later"};

typedef struct runtime {
    ft_fit_opts opts;
    const char *role_text, *out;
    ft_profile_role role;
    bool json;
    ft_fit_passes passes;
    ft_fit_law law; /* eq. (17) */
    ft_fit padded, six;
} runtime;

static const char *const role_name[] = {
    [FT_PROFILE_DRAFT] = "draft", [FT_PROFILE_VERIFY] = "verify"};

/* ---- eq. (17) ---- */

/* Operations of a task with n new tokens behind `cached` ones. Zhu et al., eqs. (13), (14): with a
 * cache of 0 this is (11), with one new token (12). */
static double operations(const ft_hparams *hp, double n, double cached)
{
    return 4.0 * hp->n_layer * hp->n_embd * n * (2.0 * hp->n_embd + cached + n + hp->n_ff);
}

/* The longest text pads the others (II-B). In units of 1e9 operations. */
static void padded_factors(const void *ctx, const ft_profile_batch *b, double *out)
{
    const runtime *f = ctx;
    uint32_t n = 0, cached = 0;
    for (uint32_t i = 0; i < b->n_parts; i++) {
        n = b->parts[i].rows > n ? b->parts[i].rows : n;
        cached = b->parts[i].cached > cached ? b->parts[i].cached : cached;
    }
    out[0] = b->n_parts * operations(ft_model_hparams(f->passes.model), n, cached) / 1e9;
    out[1] = 1;
}

static const char *const padded_name[] = {"1e9 operations", "pass"};

static ft_status draw(const void *ctx, const ft_profile *profile, size_t i, ft_rng *rng,
                      ft_error *err, ft_profile_batch *out)
{
    const runtime *f = ctx;
    return ft_profile_draw_step(profile, f->role, (ft_regime)(i % STEPS), rng, err, out);
}

/* ---- what comes out ---- */

static json_t *fit_json(const ft_fit *fit)
{
    const ft_lsq_quality *test = &fit->quality[FT_FIT_TEST];
    json_t *step = json_object();
    for (int i = 0; i < STEPS; i++)
        json_object_set_new(step, step_key[i], ft_fit_quality_json(&fit->regime[i]));
    return json_pack("{s:f, s:f, s:o, s:o, s:o, s:o}", "r2", test->r2, "mape", test->mape, "train",
                     ft_fit_quality_json(&fit->quality[FT_FIT_TRAIN]), "test",
                     ft_fit_quality_json(test), "test_by_step", step, "cross_validation",
                     ft_fit_cv_json(fit));
}

/* Costs of 1e9 operations in microseconds are seconds of an operation times 1e15. */
static json_t *padded_json(const runtime *f)
{
    const ft_fit *p = &f->padded;
    json_t *out =
        json_pack("{s:f, s:f, s:{s:[f, f], s:[f, f]}}", "c1_s_per_operation", p->us[0] / 1e15,
                  "c2_s", p->us[1] / 1e6, "interval_95", "c1_s_per_operation", p->low[0] / 1e15,
                  p->high[0] / 1e15, "c2_s", p->low[1] / 1e6, p->high[1] / 1e6);
    json_object_update_new(out, fit_json(p));
    return out;
}

static json_t *six_json(const runtime *f)
{
    json_t *us = json_object(), *out = json_object();
    for (int i = 0; i < FT_COST_FACTORS; i++)
        json_object_set_new(us, ft_cost_factor_name[i], json_real(f->six.us[i]));
    json_object_set_new(out, "us", us);
    json_object_set_new(out, "interval_95", ft_fit_intervals_json(&f->six));
    json_object_update_new(out, fit_json(&f->six));
    return out;
}

static json_t *batch_json(const runtime *f, int part, const ft_fit_pass *it)
{
    double factor[2];
    padded_factors(f, &it->batch, factor);
    json_t *out = ft_fit_pass_json(it, part == FT_FIT_TRAIN);
    json_object_update_new(
        out,
        json_pack("{s:s, s:f, s:f, s:f}", "step", step_key[it->batch.regime], "padded_operations",
                  factor[0] * 1e9, "predicted_ms", ft_fit_predict_us(&f->padded, &it->batch) / 1e3,
                  "predicted_ms_six", ft_fit_predict_us(&f->six, &it->batch) / 1e3));
    return out;
}

static json_t *report_of(const runtime *f)
{
    const ft_hparams *hp = ft_model_hparams(f->passes.model);
    json_t *batches = json_array();
    for (int part = 0; part < FT_FIT_PARTS; part++)
        for (size_t i = 0; i < f->passes.part[part].n; i++)
            json_array_append_new(batches, batch_json(f, part, &f->passes.part[part].at[i]));
    json_t *report =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i}", "kind", "foretoken runtime", "role",
                  role_name[f->role], "model", ft_model_name(f->passes.model), "layers",
                  (int)hp->n_layer, "h1", (int)hp->n_embd, "h2", (int)hp->n_ff);
    json_object_update_new(report, padded_json(f));
    json_object_update_new(report, json_pack("{s:o, s:f, s:o, s:i, s:s}", "six", six_json(f),
                                             "noise", f->passes.noise, "batches", batches,
                                             "threads", f->opts.profile.n_threads, "kv_type",
                                             ft_kv_type_name(f->opts.profile.kv_type)));
    json_object_set_new(report, "file", json_string(f->opts.path));
    return report;
}

static void print_report(const runtime *f)
{
    printf("Eq. (17): passes padded to their longest text. c1 = %.4g s per operation, c2 = %.4g "
           "s\n\n",
           f->padded.us[0] / 1e15, f->padded.us[1] / 1e6);
    ft_fit_print_costs(&f->padded);
    ft_fit_print_quality(&f->padded, STEPS, step_name);
    printf("\nThe six costs of fit verify-time, from the same passes\n\n");
    ft_fit_print_costs(&f->six);
    ft_fit_print_quality(&f->six, STEPS, step_name);
    printf("\n");
    ft_fit_print_noise(&f->passes);
}

/* ---- the command ---- */

static const ft_flag rows[] = {
    FT_FLAG_INCLUDE(runtime, opts, ft_flags_fit),
    {"--role", NULL, FT_FLAG(runtime, role_text), "ROLE",
     "draft: passes of one token a task; verify: of a root and 1 to 10 drafted tokens",
     .required = true},
    {"--out", "-o", FT_FLAG(runtime, out), "FILE", "write the JSON object"},
    {"--json", NULL, FT_FLAG(runtime, json), NULL, "print one JSON object"},
};

static const runtime defaults = {.opts = FT_FIT_OPTS_INIT};

/* False: there is no such role. */
static bool find_role(runtime *f)
{
    for (size_t i = 0; i < FT_COUNT(role_name); i++)
        if (strcmp(role_name[i], f->role_text) == 0) {
            f->role = (ft_profile_role)i;
            return true;
        }
    fprintf(stderr, "foretoken fit runtime: --role: '%s' is not draft or verify\n", f->role_text);
    return false;
}

static ft_status fit_both(runtime *f, ft_error *err)
{
    const uint64_t seed = (uint64_t)f->opts.seed;
    f->law = (ft_fit_law){.n = 2, .name = padded_name, .factors = padded_factors, .ctx = f};
    ft_status status = ft_fit_costs(&f->law, &f->passes, STEPS, seed, err, &f->padded);
    if (status == FT_OK)
        status = ft_fit_costs(&ft_fit_law_six, &f->passes, STEPS, seed, err, &f->six);
    return status;
}

static int run(void *options, int n_words, char **words)
{
    runtime *f = options;
    const ft_fit_draw batches = {.draw = draw, .ctx = f};
    ft_error err = {0};
    json_t *report = NULL;
    if (!find_role(f))
        return 2;
    ft_status status = ft_fit_measure("fit runtime", &f->opts, &batches, &err, &f->passes);
    if (status == FT_OK)
        status = fit_both(f, &err);
    if (status == FT_OK)
        report = report_of(f);
    if (status == FT_OK && f->out)
        status = ft_cmd_write_json("fit runtime", f->out, report, JSON_INDENT(2), &err);
    if (status == FT_OK && !f->json)
        print_report(f);
    ft_fit_passes_deinit(&f->passes);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_fit_runtime = {
    .name = "fit runtime",
    .summary = "measure how long a draft or target model takes for a batch of tasks",
    .usage = "-m FILE --role draft|verify [flags]",
    .about = "Measures passes of batches of tasks as an edge node that drafts for many has them: "
             "prompts, then one token of each task (draft) or a root and what was drafted behind "
             "it (verify). Fits T = c1 F b + c2, where b is the number of tasks and F the "
             "operations of one of them, padded to the longest; and beside it the six costs of "
             "fit verify-time, on the same passes.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
