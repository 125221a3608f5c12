// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate edgellm`: EdgeLLM, its parts and its baselines on a virtual clock, and its
// claims beside what comes out (sim/edgellm_claims.h). Main thread only.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "sim/edgellm_claims.h"

typedef struct simulate {
    const char *config_path;
    int64_t seed;
    bool json, sensitivity;
    ft_edgellm_config config;
    ft_edgellm_table table;
    ft_edgellm_claims claims;
} simulate;

static double per(double a, uint64_t n)
{
    return n > 0 ? a / (double)n : 0;
}

/* ---- JSON ---- */

static json_t *row_json(const simulate *f, const ft_edgellm_row *row)
{
    const ft_edgellm_pair *pair = &f->config.pair[row->pair];
    const ft_edgellm_result *r = &row->sum;
    const uint64_t n = r->verifications;
    char name[96];
    ft_edgellm_way_name(&f->config, &row->way, name, sizeof name);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "pair", pair->name, "dataset", pair->dataset[row->dataset].name, "method",
                     name, "s_per_token", ft_edgellm_s_per_tok(r), "tokens_per_verification",
                     per((double)r->tokens, n), "draft_s", per(r->draft_s, n), "verify_s",
                     per(r->verify_s, n), "drafted", per((double)r->drafted, n), "proactive",
                     per((double)r->proactive, n), "kept", per((double)r->kept, n), "errors",
                     per((double)r->errors, n), "branches", per((double)r->branches, n), "alpha",
                     per(r->alpha, n), "alpha_at_most", per((double)r->alpha_most, n),
                     "ended_by_alpha", per((double)r->in_doubt, n));
}

static json_t *number_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *range_json(const double range[2])
{
    return isnan(range[0]) && isnan(range[1])
               ? json_null()
               : json_pack("[o, o]", number_or_null(range[0]), number_or_null(range[1]));
}

static json_t *claim_json(const ft_edgellm_claim *c)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:s}", "name", c->name, "paper", range_json(c->paper),
                     "ours", range_json(c->ours), "error", number_or_null(c->error), "reading",
                     c->reading);
}

static json_t *budget_json(const simulate *f, const ft_edgellm_budget *b)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f}", "pair", f->config.pair[b->pair].name, "budget_gb",
                     b->budget_gb, "verify_s", b->verify_s, "over_sp", b->gain.times, "error",
                     b->gain.error);
}

static json_t *report_of(const simulate *f, json_t *sensitivity)
{
    const double *k = f->config.k;
    json_t *rows = json_array(), *claims = json_array(), *budgets = json_array();
    for (size_t i = 0; i < f->table.n_rows; i++)
        json_array_append_new(rows, row_json(f, &f->table.rows[i]));
    for (uint32_t i = 0; i < f->claims.n; i++)
        json_array_append_new(claims, claim_json(&f->claims.at[i]));
    for (uint32_t i = 0; i < f->table.n_budgets; i++)
        json_array_append_new(budgets, budget_json(f, &f->table.budgets[i]));
    json_t *report = json_pack("{s:s, s:s, s:I, s:f, s:o, s:o, s:o}", "command", "simulate edgellm",
                               "config", f->config_path, "seed", (json_int_t)f->seed, "tokens",
                               k[FT_EDGELLM_TEXTS] * k[FT_EDGELLM_TEXT_TOK], "rows", rows,
                               "budgets", budgets, "claims", claims);
    if (sensitivity)
        json_object_set(report, "sensitivity", sensitivity);
    return report;
}

/* ---- one number at a time ---- */

static ft_status make_table(const simulate *f, const ft_edgellm_config *config,
                            const ft_progress *progress, ft_error *err, ft_edgellm_table *out)
{
    const ft_edgellm_table_opts opts = {.config = config,
                                        .seed = (uint64_t)f->seed,
                                        .claims_only = config != &f->config,
                                        .stop = ft_cmd_stopped,
                                        .progress = *progress};
    return ft_edgellm_table_make(&opts, err, out);
}

/* All claims with one open number changed. *rows is owned by the caller. */
static ft_status sensitivity(const simulate *f, ft_error *err, json_t **rows)
{
    const ft_progress silent = {0};
    ft_edgellm_config config = f->config;
    ft_edgellm_knob knobs[FT_EDGELLM_KNOBS];
    ft_edgellm_table table = {0};
    ft_edgellm_claims made = {0};
    const uint32_t n = ft_edgellm_knobs(&config, knobs);
    ft_status status = FT_OK;
    *rows = json_array();
    for (uint32_t i = 0; i < n; i++)
        for (double factor = 0.5; factor <= 2 && status == FT_OK; factor *= 4) {
            const double was = *knobs[i].value;
            ft_edgellm_knob_turn(&knobs[i], factor);
            fprintf(stderr, "%s = %g\n", knobs[i].name, *knobs[i].value);
            status = make_table(f, &config, &silent, err, &table);
            json_t *claims = json_array();
            if (status == FT_OK)
                ft_edgellm_claims_make(&config, &table, &made);
            for (uint32_t k = 0; k < made.n; k++)
                json_array_append_new(claims, json_pack("{s:s, s:o}", "name", made.at[k].name,
                                                        "ours", range_json(made.at[k].ours)));
            json_array_append_new(*rows, json_pack("{s:s, s:f, s:o}", "constant", knobs[i].name,
                                                   "value", *knobs[i].value, "claims", claims));
            ft_edgellm_table_deinit(&table);
            *knobs[i].value = was;
        }
    return status;
}

/* ---- for people ---- */

static void print_rows(const simulate *f)
{
    uint32_t pair = UINT32_MAX, dataset = 0;
    for (size_t i = 0; i < f->table.n_rows; i++) {
        const ft_edgellm_row *row = &f->table.rows[i];
        const ft_edgellm_result *r = &row->sum;
        const ft_edgellm_pair *p = &f->config.pair[row->pair];
        const uint64_t n = r->verifications;
        char name[96];
        if (row->pair != pair || row->dataset != dataset)
            printf("%s%s, %s\n%-34s %8s %8s %8s %8s %8s %8s %8s %8s\n", i ? "\n" : "", p->name,
                   p->dataset[row->dataset].name, "", "s/token", "tokens", "drafted", "draft s",
                   "kept", "errors", "alpha", "by alpha");
        pair = row->pair;
        dataset = row->dataset;
        ft_edgellm_way_name(&f->config, &row->way, name, sizeof name);
        printf("%-34s %8.3f", name, ft_edgellm_s_per_tok(r));
        if (n > 0)
            printf(" %8.2f %8.2f %8.2f %8.2f %7.0f%%", per((double)r->tokens, n),
                   per((double)r->drafted, n), per(r->draft_s, n), per((double)r->kept, n),
                   100 * per((double)r->errors, n));
        if (r->alpha > 0)
            printf(" %8.2g %7.0f%%", per(r->alpha, n), 100 * per((double)r->in_doubt, n));
        printf("\n");
    }
    printf(
        "\n"
        "s/token   seconds for a token of the text. The rest is about verifications:\n"
        "tokens    of the text that one brings\n"
        "drafted   tokens that the draft model computes before it\n"
        "draft s   seconds for them\n"
        "kept      tokens that the draft model computes meanwhile, and the verdict leaves of use\n"
        "errors    share that accept no branch to its end\n"
        "alpha     threshold of the fallback\n"
        "by alpha  share of drafts that the fallback ended\n");
}

/* "1.93-2.00", "up to 1.66", "4.4", "-" */
static void print_range(const double range[2])
{
    char text[48] = "-";
    if (!isnan(range[1]) && isnan(range[0]))
        snprintf(text, sizeof text, "up to %.2f", range[1]);
    else if (!isnan(range[1]) && range[0] == range[1])
        snprintf(text, sizeof text, "%.2f", range[0]);
    else if (!isnan(range[1]))
        snprintf(text, sizeof text, "%.2f-%.2f", range[0], range[1]);
    printf(" %12s", text);
}

/* Indented, in lines of 100 columns at most. */
static void print_text(const char *text)
{
    int column = 0;
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column == 0 || column + 1 + n > 100)
            column = printf("%s    ", column ? "\n" : "") - (column > 0);
        else
            column += printf(" ");
        column += printf("%.*s", n, text);
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

static void print_claims(const simulate *f)
{
    printf(
        "\n"
        "Claims: the least and the greatest over datasets; +-: half of the widest 95 %% interval.\n"
        "Below each: the dataset that is farthest from the paper's number, or the least one where\n"
        "the paper has none.\n"
        "%-58s %12s %12s\n",
        "", "the paper", "ours");
    for (uint32_t i = 0; i < f->claims.n; i++) {
        const ft_edgellm_claim *c = &f->claims.at[i];
        printf("%-58s", c->name);
        print_range(c->paper);
        print_range(c->ours);
        if (!isnan(c->error))
            printf(" +- %.3f", c->error);
        printf("\n");
        print_text(c->reading);
    }
}

static void print_sensitivity(const json_t *rows)
{
    size_t i, k;
    json_t *row, *claim;
    json_array_foreach(rows, i, row)
    {
        printf("\n%s = %g\n", json_string_value(json_object_get(row, "constant")),
               json_number_value(json_object_get(row, "value")));
        json_array_foreach(json_object_get(row, "claims"), k, claim)
        {
            const json_t *ours = json_object_get(claim, "ours");
            const double range[2] = {json_number_value(json_array_get(ours, 0)),
                                     json_number_value(json_array_get(ours, 1))};
            printf("    %-58s", json_string_value(json_object_get(claim, "name")));
            print_range(range);
            printf("\n");
        }
    }
}

/* ---- the command ---- */

static ft_status run_setting(simulate *f, ft_error *err, json_t **rows)
{
    const ft_progress progress = ft_progress_terminal("simulating");
    ft_status status = ft_edgellm_config_load(f->config_path, err, &f->config);
    if (status == FT_OK)
        status = make_table(f, &f->config, &progress, err, &f->table);
    if (status == FT_OK)
        ft_edgellm_claims_make(&f->config, &f->table, &f->claims);
    if (status == FT_OK && f->sensitivity)
        status = sensitivity(f, err, rows);
    return status;
}

static const ft_flag rows[] = {
    {"--config", NULL, FT_FLAG(simulate, config_path), "FILE", "setting (JSON)", .required = true},
    {"--seed", NULL, FT_FLAG(simulate, seed), "N", "seed of the texts", 0, 1e9},
    {"--sensitivity", NULL, FT_FLAG(simulate, sensitivity), NULL,
     "also halve and double each number that the paper leaves open"},
    {"--json", NULL, FT_FLAG(simulate, json), NULL, "print one JSON object"},
};

static const simulate defaults = {.seed = 1};

static int run(void *options, int n_words, char **words)
{
    simulate *f = options;
    ft_error err = {0};
    json_t *changed = NULL;
    ft_cmd_catch_signals();
    ft_status status = run_setting(f, &err, &changed);
    json_t *report = status == FT_OK ? report_of(f, changed) : NULL;
    if (status == FT_OK && !f->json) {
        print_rows(f);
        print_claims(f);
        print_sensitivity(changed);
    }
    ft_edgellm_table_deinit(&f->table);
    json_decref(changed);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_simulate_edgellm = {
    .name = "simulate edgellm",
    .summary = "a target larger than memory: seconds a token, by method, and EdgeLLM's claims",
    .usage = "--config FILE [flags]",
    .about =
        "Simulates a device whose memory is too small for the target (EdgeLLM). The clock is "
        "virtual and has the times of the paper. Texts and draft model are made up; the drafter "
        "and the fallback are the program's own. Prints how long a token takes with each method "
        "on each dataset: the target alone, chains of fixed length, trees with fixed widths, "
        "EdgeLLM with all its parts, and EdgeLLM with one part left out or replaced. Then "
        "prints the paper's claims beside what comes out. docs/SIMULATOR.md says what is "
        "modelled and what each method is.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
