// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate qsv`: the figures of Quantize-Sample-and-Verify, and which of its claims hold
// (sim/qsv_table.h). Main thread only.
#include <math.h>
#include <stdio.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "sim/qsv_table.h"

typedef struct simulate {
    const char *config_path, *positions_path, *policy_path, *plot;
    int64_t seed;
    bool json;
    ft_qsv_config config;
    ft_positions positions;
    ft_policy policy;
    ft_qsv_table table;
} simulate;

static bool is_chain(const simulate *f, uint32_t link)
{
    return f->config.link[link].rate.step_ns > 0;
}

static double temperature(const simulate *f, uint32_t i)
{
    return round(1e4 * (double)f->positions.temperature[i]) / 1e4;
}

static double per(double a, uint64_t n)
{
    return n > 0 ? a / (double)n : 0;
}

/* ---- JSON ---- */

static json_t *point_json(const simulate *f, const ft_qsv_point *p)
{
    const ft_qsv_link *link = &f->config.link[p->link];
    const ft_qsv_result *r = &p->sum;
    /* What was chosen, where it is the same in each round. */
    const bool same = p->way.method != FT_QSV_METHOD_POLICY &&
                      p->way.method != FT_QSV_METHOD_HEURISTIC &&
                      p->way.method != FT_QSV_METHOD_THRESHOLD;
    json_t *out = json_pack(
        "{s:f, s:s, s:f, s:s, s:f, s:f, s:f, s:f, s:f}", "temperature",
        temperature(f, p->temperature), "link", link->name, "uplink_kbit_s",
        ft_qsv_link_kbit_s(link), "method", ft_qsv_method_name[p->way.method], "length",
        same ? (double)p->way.length : per((double)r->levels, r->rounds), "l",
        per((double)r->l_sum, r->nodes), "tokens_per_s", p->tokens_per_s, "bits_per_token",
        per(r->bits, r->nodes), "acceptance", per((double)r->accepted, r->nodes));
    if (p->way.method == FT_QSV_METHOD_TREE)
        json_object_set_new(out, "width", json_integer(p->way.width));
    if (p->way.method == FT_QSV_METHOD_THRESHOLD)
        json_object_set_new(out, "threshold", json_real(p->way.threshold));
    return out;
}

static json_t *claim_json(const ft_qsv_claim *c)
{
    json_t *out =
        json_pack("{s:s, s:b, s:f}", "name", c->name, "holds", c->holds, "margin", c->margin);
    if (!c->holds)
        json_object_set_new(out, "reason", json_string(c->reason));
    return out;
}

static json_t *report_of(const simulate *f)
{
    json_t *points = json_array(), *claims = json_array(), *law = json_array();
    for (size_t i = 0; i < f->table.n_points; i++)
        json_array_append_new(points, point_json(f, &f->table.points[i]));
    for (size_t i = 0; i < f->table.n_claims; i++)
        json_array_append_new(claims, claim_json(&f->table.claims[i]));
    for (uint32_t t = 0; t < f->positions.n_temperatures; t++)
        for (uint32_t k = 0; k < f->positions.n_l; k++)
            json_array_append_new(
                law, json_pack("{s:f, s:i, s:f, s:f}", "temperature", temperature(f, t), "l",
                               (int)f->positions.l[k], "quantize_sample_tv",
                               ft_qsv_law(&f->positions, t, k, false), "sample_quantize_tv",
                               ft_qsv_law(&f->positions, t, k, true)));
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "command", "simulate qsv",
                     "config", f->config_path, "positions", f->positions_path, "code",
                     ft_qsv_code_name[f->config.code], "seed", (json_int_t)f->seed, "points",
                     points, "law", law, "claims", claims);
}

/* ---- for people ---- */

static void print_link(const simulate *f, uint32_t link, char *out, size_t n)
{
    if (is_chain(f, link))
        snprintf(out, n, "%s", f->config.link[link].name);
    else
        snprintf(out, n, "%g kbit/s", ft_qsv_link_kbit_s(&f->config.link[link]));
}

static void print_report(const simulate *f)
{
    printf("tokens/s\n%-6s %-16s", "temp.", "uplink");
    for (int i = 0; i < FT_QSV_METHODS; i++)
        if (i != FT_QSV_METHOD_POLICY || f->policy_path)
            printf(" %*s", (int)fmax(9, snprintf(NULL, 0, "%s", ft_qsv_method_name[i])),
                   ft_qsv_method_name[i]);
    for (uint32_t t = 0; t < f->positions.n_temperatures; t++)
        for (uint32_t link = 0; link < f->config.n_links; link++) {
            char name[48];
            print_link(f, link, name, sizeof name);
            printf("\n%-6g %-16s", temperature(f, t), name);
            for (int i = 0; i < FT_QSV_METHODS; i++) {
                const ft_qsv_point *p = ft_qsv_table_find(&f->table, t, link, (ft_qsv_method)i);
                if (p)
                    printf(" %*.2f", (int)fmax(9, snprintf(NULL, 0, "%s", ft_qsv_method_name[i])),
                           p->tokens_per_s);
            }
        }
    printf("\n\n");
    for (size_t i = 0; i < f->table.n_claims; i++) {
        const ft_qsv_claim *c = &f->table.claims[i];
        printf("%-7s %+8.4f  %s\n", c->holds ? "holds" : "does not", c->margin, c->name);
        if (!c->holds)
            printf("%18s%s\n", "", c->reason);
    }
}

/* ---- the plot ---- */

static void plot_titles(const simulate *f, FILE *out)
{
    bool first = true;
    fprintf(out, "plot ");
    for (int i = 0; i < FT_QSV_METHODS; i++)
        if (i != FT_QSV_METHOD_POLICY || f->policy_path) {
            fprintf(out, "%s'-' title '%s' with linespoints", first ? "" : ", ",
                    ft_qsv_method_name[i]);
            first = false;
        }
    fprintf(out, "\n");
}

/* Figure 4: tokens/s over temperature, on a changing uplink. */
static void plot_chain(const simulate *f, uint32_t link, FILE *out)
{
    fprintf(out,
            "unset logscale\nset title '%s'\nset xlabel 'temperature'\nset ylabel 'tokens/s'\n"
            "set yrange [0:*]\n",
            f->config.link[link].name);
    plot_titles(f, out);
    for (int i = 0; i < FT_QSV_METHODS; i++) {
        if (i == FT_QSV_METHOD_POLICY && !f->policy_path)
            continue;
        for (uint32_t t = 0; t < f->positions.n_temperatures; t++)
            fprintf(out, "%g %g\n", temperature(f, t),
                    ft_qsv_table_find(&f->table, t, link, (ft_qsv_method)i)->tokens_per_s);
        fprintf(out, "e\n");
    }
}

/* Tokens/s over constant rates, at one temperature. */
static void plot_rates(const simulate *f, uint32_t t, FILE *out)
{
    fprintf(out,
            "set title 'temperature %g'\nset xlabel 'uplink, kbit/s'\nset ylabel 'tokens/s'\n"
            "set yrange [*:*]\nset logscale xy\n",
            temperature(f, t));
    plot_titles(f, out);
    for (int i = 0; i < FT_QSV_METHODS; i++) {
        if (i == FT_QSV_METHOD_POLICY && !f->policy_path)
            continue;
        for (uint32_t link = 0; link < f->config.n_links; link++)
            if (!is_chain(f, link))
                fprintf(out, "%g %g\n", ft_qsv_link_kbit_s(&f->config.link[link]),
                        ft_qsv_table_find(&f->table, t, link, (ft_qsv_method)i)->tokens_per_s);
        fprintf(out, "e\n");
    }
}

/* Figure 3, as distance from the target's law. */
static void plot_law(const simulate *f, FILE *out)
{
    fprintf(out, "unset logscale\nset title 'law of the next token'\nset xlabel 'temperature'\n"
                 "set ylabel 'total variation from the target'\nset yrange [0:*]\nplot ");
    for (uint32_t k = 0; k < f->positions.n_l; k++)
        for (int sq = 0; sq < 2; sq++)
            fprintf(out, "%s'-' title '%s, l = %u' with linespoints", k + (uint32_t)sq ? ", " : "",
                    sq ? "sample-quantize" : "quantize-sample", f->positions.l[k]);
    fprintf(out, "\n");
    for (uint32_t k = 0; k < f->positions.n_l; k++)
        for (int sq = 0; sq < 2; sq++) {
            for (uint32_t t = 0; t < f->positions.n_temperatures; t++)
                fprintf(out, "%g %g\n", temperature(f, t), ft_qsv_law(&f->positions, t, k, sq));
            fprintf(out, "e\n");
        }
}

static ft_status plot(const simulate *f, ft_error *err)
{
    const uint32_t n_temperatures = f->positions.n_temperatures;
    uint32_t n_chains = 0;
    for (uint32_t link = 0; link < f->config.n_links; link++)
        n_chains += is_chain(f, link);
    const uint32_t panels = n_chains + (n_chains < f->config.n_links ? n_temperatures : 0) + 1;
    ft_plot p = {
        .command = "simulate", .path = f->plot, .width = 1200, .height = 420 * ((panels + 1) / 2)};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key outside right\nset multiplot layout %u,2\n", (panels + 1) / 2);
    for (uint32_t link = 0; link < f->config.n_links; link++)
        if (is_chain(f, link))
            plot_chain(f, link, p.gnuplot);
    for (uint32_t t = 0; t < n_temperatures && n_chains < f->config.n_links; t++)
        plot_rates(f, t, p.gnuplot);
    plot_law(f, p.gnuplot);
    fprintf(p.gnuplot, "unset multiplot\n");
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

static ft_status run_setting(simulate *f, ft_error *err)
{
    ft_status status = ft_qsv_config_load(f->config_path, err, &f->config);
    if (status == FT_OK)
        status = ft_positions_load(f->positions_path, err, &f->positions);
    if (status == FT_OK && f->policy_path)
        status = ft_policy_load(f->policy_path, err, &f->policy);
    if (status == FT_OK && f->policy_path)
        status = ft_policy_check_draft(&f->policy, f->positions.draft, err);
    const ft_qsv_table_opts opts = {.config = &f->config,
                                    .positions = &f->positions,
                                    .policy = f->policy_path ? &f->policy : NULL,
                                    .seed = (uint64_t)f->seed,
                                    .stop = ft_cmd_stopped,
                                    .progress = ft_progress_terminal("simulating")};
    if (status == FT_OK)
        status = ft_qsv_table_make(&opts, err, &f->table);
    if (status == FT_OK && f->plot)
        status = plot(f, err);
    return status;
}

static const ft_flag rows[] = {
    {"--config", NULL, FT_FLAG(simulate, config_path), "FILE", "setting (JSON)", .required = true},
    {"--positions", NULL, FT_FLAG(simulate, positions_path), "FILE",
     "what both models said of the target's texts", .required = true},
    {"--policy", NULL, FT_FLAG(simulate, policy_path), "FILE",
     "draft policy of train policy; without: no method policy"},
    {"--seed", NULL, FT_FLAG(simulate, seed), "N", "of acceptance and of changing uplinks", 0, 1e9},
    {"--plot", NULL, FT_FLAG(simulate, plot), "FILE",
     "tokens/s over temperature and uplink, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(simulate, json), NULL, "print one JSON object"},
};

static const simulate defaults = {.seed = 1};

static int run(void *options, int n_words, char **words)
{
    simulate *f = options;
    ft_error err = {0};
    ft_cmd_catch_signals();
    ft_status status = run_setting(f, &err);
    json_t *report = status == FT_OK ? report_of(f) : NULL;
    if (status == FT_OK && !f->json)
        print_report(f);
    ft_qsv_table_deinit(&f->table);
    ft_positions_deinit(&f->positions);
    ft_policy_deinit(&f->policy);
    return ft_cmd_report(status, &err, report, f->json, NULL);
}

const ft_command ft_cmd_simulate_qsv = {
    .name = "simulate qsv",
    .summary = "tokens/s over a thin uplink, by method, temperature and rate",
    .usage = "--config FILE --positions FILE [flags]",
    .about = "Simulates one edge that drafts, an uplink with a rate, and a target that verifies "
             "(Quantize-Sample-and-Verify), by replaying rounds on recorded positions, on a "
             "virtual clock: plain decoding, a draft policy, the best fixed length and l, the best "
             "confidence threshold, the paper's heuristic, sample-quantize, uncompressed "
             "distributions, and rule exact with chains and with trees. Says which claims of the "
             "paper hold. docs/SIMULATOR.md says what is modelled.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
