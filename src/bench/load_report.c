// SPDX-License-Identifier: Apache-2.0
// The figures of the serving comparison. Throughput and latency are medians over the rounds of a
// cell. Counts are sums over all rounds. load_compare.c sets cells against each other. No state but
// the report.
#include "bench/load_report.h"

#include <stdio.h>
#include <string.h>

#include "bench/load_compare.h"

static double over(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* Sorts a copy: the order of rounds pairs two cells. */
static double median_of(const double *values, uint32_t n)
{
    double copy[FT_BENCH_ROUNDS_MAX];
    memcpy(copy, values, n * sizeof *copy);
    return n ? ft_bench_median(copy, n) : 0;
}

static void put(json_t *out, const char *key, double value)
{
    json_object_set_new(out, key, json_real(value));
}

json_t *ft_bench_load_tally_json(const ft_bench_load_tally *t)
{
    const ft_gen_stats *edge = &t->edge;
    json_t *out = json_object();
    json_object_set_new(out, "texts", json_integer((json_int_t)t->texts));
    json_object_set_new(out, "tokens", json_integer((json_int_t)t->tokens));
    put(out, "tokens_per_verify", ft_bench_load_tally_per_verify(t));
    put(out, "tokens_per_verdict", ft_bench_load_tally_per_verdict(t));
    put(out, "nodes_per_tree", over((double)t->drafted, (double)t->trees));
    put(out, "accepted_per_tree", over((double)t->accepted, (double)t->trees));
    put(out, "acceptance", over((double)t->accepted, (double)t->drafted));
    put(out, "p_align", ft_gen_align_ratio(edge));
    put(out, "p_match_align", ft_gen_match_ratio(edge));
    put(out, "proactive_nodes", over((double)edge->proactive_nodes, (double)edge->leaves));
    put(out, "proactive_gain", ft_gen_proactive_gain(edge));
    put(out, "depth", over((double)edge->depth_sum, (double)t->trees));
    put(out, "forwards_per_tree", over((double)edge->forwards, (double)t->trees));
    put(out, "proactive_forwards_per_tree",
        over((double)edge->proactive_forwards, (double)t->trees));
    put(out, "early_sent_per_tree", over((double)edge->early_sent, (double)t->trees));
    put(out, "early_taken_per_tree", over((double)edge->early_taken, (double)t->trees));
    put(out, "wasted_tokens_per_tree", over((double)(t->drafted - t->accepted), (double)t->trees));
    put(out, "draft_ms_per_tree",
        over((double)(edge->useful_draft_us + edge->wasted_draft_us), (double)t->trees) / 1e3);
    put(out, "wasted_draft_ms_per_tree",
        over((double)edge->wasted_draft_us, (double)t->trees) / 1e3);
    put(out, "wasted_draft_share", ft_gen_wasted_share(edge));
    put(out, "predicted_per_text",
        over((double)(edge->prediction_accepted + edge->prediction_rejected), (double)t->texts));
    put(out, "predicted_came_per_text", over((double)edge->prediction_accepted, (double)t->texts));
    put(out, "run_token_share", over((double)edge->run_tokens, (double)t->tokens));
    return out;
}

static json_t *categories_json(const ft_bench_load_report *r, const ft_bench_load_sample *s)
{
    json_t *out = json_object();
    for (uint32_t i = 0; i < r->set->n_categories; i++) {
        const ft_bench_load_tally *t = &s->tally[i];
        json_t *category = t->texts ? ft_bench_load_tally_json(t) : NULL;
        if (category && t->window_us) {
            put(category, "tokens_per_core_s", ft_bench_load_tally_per_s(t));
            put(category, "itl_ms", ft_bench_load_tally_itl_ms(t));
        }
        if (category)
            json_object_set_new(out, r->set->category[i], category);
    }
    return out;
}

static double per(uint64_t a, uint64_t b)
{
    return over((double)a, (double)b);
}

/* What the engine did with its time (SpecEdge figure 7). The shares sum to 1. */
static void put_times(json_t *out, const ft_verifier_stats *v)
{
    const uint64_t busy_us = ft_verifier_stats_busy_us(v), all_us = busy_us + v->idle_us;
    const uint64_t verify_us = ft_verifier_stats_verify_us(v);
    put(out, "tokens_per_busy_s", 1e6 * per(v->tokens, busy_us));
    put(out, "busy_ms_per_token", per(busy_us, v->tokens) / 1e3);
    put(out, "drafting_share", per(v->own_us, all_us));
    put(out, "verifying_share", per(verify_us, all_us));
    put(out, "other_share", per(busy_us - v->own_us - verify_us, all_us));
    put(out, "idle_share", per(v->idle_us, all_us));
}

static json_t *cell_json(ft_bench_load_report *r, ft_bench_load_mode mode, uint32_t rtt)
{
    ft_bench_load_cell *c = &r->cell[mode][rtt];
    ft_bench_load_sample *s = &c->sum;
    const ft_verifier_stats *v = &s->server.stats;
    const double dollars = ft_bench_load_dollars_per_h(r, mode), per_s = median_of(c->per_s, c->n);
    const ft_bench_load_tally t = ft_bench_load_tally_total(s);
    json_t *out = ft_bench_load_tally_json(&t);
    put(out, "tokens_per_core_s", per_s);
    put_times(out, v);
    if (dollars > 0)
        put(out, "tokens_per_dollar", 3600 * per_s / dollars);
    put(out, "server_cpu_share", over(s->server.cpu_s, s->server.at_s));
    put(out, "tokens_per_cpu_s", over((double)v->tokens, s->server.cpu_s));
    put(out, "rows_per_pass", per(v->passes.sum, v->passes.n));
    put(out, "pass_ms", per(v->forward_us, v->passes.n) / 1e3);
    put(out, "read_mb_per_pass", per(v->streamed_bytes, v->passes.n) / 1e6);
    put(out, "read_wait_ms_per_pass", per(v->streamed_wait_us, v->passes.n) / 1e3);
    put(out, "own_acceptance", per(v->own_accepted, v->own_drafted));
    put(out, "draft_ms_per_round", per(v->own_us, v->rounds) / 1e3);
    put(out, "forward_ms", t.drafted ? median_of(c->forward_ms, c->n) : 0);
    put(out, "driver_cpu_share", over(s->driver_cpu_s, s->server.at_s * r->driver_cores));
    put(out, "device_late_share", over((double)s->device_late, (double)s->device_forwards));
    json_object_set_new(out, "replay_misses", json_integer((json_int_t)s->misses));
    json_t *itl = json_object(), *ttft = json_object();
    put(itl, "mean", median_of(c->itl_ms, c->n));
    put(itl, "p50", ft_bench_load_values_quantile(&s->itl_ms, 0.5));
    put(itl, "p99", ft_bench_load_values_quantile(&s->itl_ms, 0.99));
    put(ttft, "p50", ft_bench_load_values_quantile(&s->ttft_ms, 0.5));
    put(ttft, "p99", ft_bench_load_values_quantile(&s->ttft_ms, 0.99));
    json_object_set_new(out, "itl_ms", itl);
    json_object_set_new(out, "ttft_ms", ttft);
    put(out, "verify_ms_p50", ft_bench_load_values_quantile(&s->verify_ms, 0.5));
    put(out, "uplink_bytes_per_token", over((double)s->traffic.draft_bytes, (double)t.tokens));
    put(out, "downlink_bytes_per_token", over((double)s->traffic.verdict_bytes, (double)t.tokens));
    put(out, "uplink_bytes_per_round",
        over((double)s->traffic.draft_bytes, (double)s->traffic.drafts));
    put(out, "rate_estimate_mbit", (double)s->uplink_bits_per_s / 1e6);
    if (mode == FT_BENCH_LOAD_LAYER_SPLIT) {
        put(out, "line_answers_per_token", per(s->line_answers, t.tokens));
        put(out, "line_bytes_per_token", per(s->line_bytes, t.tokens));
    }
    put(out, "window_s", s->window_s);
    json_object_set_new(out, "identical", json_boolean(s->mismatches == 0));
    json_object_set_new(out, "categories", categories_json(r, s));
    return out;
}

void ft_bench_load_report_json(ft_bench_load_report *r, json_t *out)
{
    json_t *modes = json_object();
    double uplink = 0;
    bool identical = true;
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t m = 0; m < FT_BENCH_LOAD_MODES; m++) {
        json_t *by_rtt = r->mode[m] ? json_object() : NULL;
        for (uint32_t i = 0; i < r->n_rtt && by_rtt; i++) {
            const ft_bench_load_sample *s = &r->cell[m][i].sum;
            double bytes = over((double)s->traffic.draft_bytes, (double)s->traffic.drafts);
            if (m >= FT_BENCH_LOAD_EDGE && bytes > uplink)
                uplink = bytes;
            /* a layer that another program computes is rounded in another way */
            identical = identical && (s->mismatches == 0 || m == FT_BENCH_LOAD_LAYER_SPLIT);
            json_object_set_new(by_rtt, ft_bench_load_rtt_name(r, i, name),
                                cell_json(r, (ft_bench_load_mode)m, i));
        }
        if (by_rtt)
            json_object_set_new(modes, ft_bench_load_mode_name((ft_bench_load_mode)m), by_rtt);
    }
    json_object_set_new(out, "modes", modes);
    json_object_set_new(out, "identical", json_boolean(identical));
    put(out, "uplink_bytes_per_round", uplink);
    put(out, "forward_ms", r->forward_ms);
    put(out, "verify_ms", r->verify_ms);
    ft_bench_load_compare(r, out);
}

/* ---- for a person ---- */

static double number(const json_t *object, const char *key, const char *inner)
{
    const json_t *value = json_object_get(object, key);
    return json_number_value(inner ? json_object_get(value, inner) : value);
}

static void print_cells(FILE *out, const json_t *figures)
{
    const json_t *by_rtt, *c;
    const char *mode, *rtt;
    fprintf(out, "%-15s %5s %9s %9s %8s %8s %8s %10s %11s %7s %7s %6s %6s %6s %7s\n", "mode", "RTT",
            "tok/core-s", "tok/busy-s", "ITL ms", "p99", "TTFT ms", "tok/verify", "tok/verdict",
            "accept", "wasted", "idle", "align", "match", "up B/rd");
    json_object_foreach((json_t *)json_object_get(figures, "modes"), mode, by_rtt)
    {
        json_object_foreach((json_t *)by_rtt, rtt, c)
        {
            fprintf(
                out,
                "%-15s %5s %10.1f %10.1f %8.2f %8.2f %8.1f %10.2f %11.2f %7.3f %7.3f %6.3f %6.3f "
                "%6.3f %7.1f%s\n",
                mode, rtt, number(c, "tokens_per_core_s", NULL),
                number(c, "tokens_per_busy_s", NULL), number(c, "itl_ms", "mean"),
                number(c, "itl_ms", "p99"), number(c, "ttft_ms", "p50"),
                number(c, "tokens_per_verify", NULL), number(c, "tokens_per_verdict", NULL),
                number(c, "acceptance", NULL), number(c, "wasted_draft_share", NULL),
                number(c, "idle_share", NULL), number(c, "p_align", NULL),
                number(c, "p_match_align", NULL), number(c, "uplink_bytes_per_round", NULL),
                json_is_true(json_object_get(c, "identical")) ? "" : "  TEXTS DIFFER");
        }
    }
}

/* What the server's engine did with its time, and what tokens cost. */
static void print_times(FILE *out, const json_t *figures)
{
    const json_t *by_rtt, *c;
    const char *mode, *rtt;
    fprintf(out, "\n%-15s %5s %9s %10s %6s %6s %13s %13s\n", "mode", "RTT", "drafting", "verifying",
            "other", "idle", "busy ms/token", "1k tokens/$");
    json_object_foreach((json_t *)json_object_get(figures, "modes"), mode, by_rtt)
    {
        json_object_foreach((json_t *)by_rtt, rtt, c)
        {
            fprintf(out, "%-15s %5s %9.3f %10.3f %6.3f %6.3f %13.2f %13.2f\n", mode, rtt,
                    number(c, "drafting_share", NULL), number(c, "verifying_share", NULL),
                    number(c, "other_share", NULL), number(c, "idle_share", NULL),
                    number(c, "busy_ms_per_token", NULL),
                    number(c, "tokens_per_dollar", NULL) / 1e3);
        }
    }
}

static void print_row(FILE *out, const json_t *figures, const char *key, const char *what,
                      const char *paper, double scale)
{
    const json_t *value;
    const char *rtt;
    json_t *object = json_object_get(figures, key);
    if (json_object_size(object) == 0)
        return;
    fprintf(out, "%-58s", what);
    json_object_foreach(object, rtt, value)
        fprintf(out, "  %s ms: %+.3g", rtt, scale * json_number_value(value));
    fprintf(out, "   (%s)\n", paper);
}

/* A comparison that several modes have. */
typedef struct mode_row {
    const char *before, *after; /* the mode's name */
    const char *paper;
    double scale;
} mode_row;

/* A row for each of these modes. */
static void print_modes(FILE *out, const json_t *by_mode, const mode_row *row)
{
    const char *mode;
    const json_t *by_rtt;
    char label[80];
    json_object_foreach((json_t *)by_mode, mode, by_rtt)
    {
        snprintf(label, sizeof label, "%s%s%s", row->before, mode, row->after);
        print_row(out, by_mode, mode, label, row->paper, row->scale);
    }
}

static void print_all_modes(FILE *out, const json_t *figures)
{
    static const mode_row itl = {"ITL, ", " / server-spec",
                                 "SpecEdge: 0.89 on average, 0.86 at 15 ms; layer-split 2.35", 1};
    static const mode_row speedup = {"ITL, plain / ", "",
                                     "SpecEdge: server-spec 1.45 to 1.87, theirs 1.54 to 2.03", 1};
    static const mode_row split = {"ITL, layer-split / ", "",
                                   "SpecEdge: 2.73 at 15 ms, 3.35 at 50 ms", 1};
    static const mode_row saved = {"server's time for a token: ", " / server-spec, %",
                                   "SpecEdge: -40 to -50", -100};
    static const mode_row over_spec = {"tokens a verification: ", " / server-spec, %",
                                       "SpecEdge: +13.2", 100};
    static const mode_row over_edge = {"tokens a verification: ", " / edge, %", "-", 100};
    const json_t *gain = json_object_get(figures, "tokens_per_verify_gain");
    print_modes(out, json_object_get(figures, "itl_ratio"), &itl);
    print_modes(out, json_object_get(figures, "speedup"), &speedup);
    print_modes(out, json_object_get(figures, "layer_split_itl_ratio"), &split);
    print_modes(out, json_object_get(figures, "server_time_saved"), &saved);
    print_modes(out, json_object_get(gain, "over_server_spec"), &over_spec);
    print_modes(out, json_object_get(gain, "over_edge"), &over_edge);
}

/* What categories differ in, if every wave is of one. */
static void print_category_ratios(FILE *out, const json_t *figures)
{
    const json_t *by_rtt, *c;
    const char *category, *rtt;
    fprintf(out, "\n%-16s %5s %17s %12s %15s %20s %22s %22s\n", "category", "RTT",
            "server throughput", "within bound", "tokens a dollar", "ITL proactive / spec",
            "tok/verify pipe/spec %", "tok/verify proact/edge");
    json_object_foreach((json_t *)json_object_get(figures, "categories"), category, by_rtt)
    {
        json_object_foreach((json_t *)by_rtt, rtt, c)
        {
            fprintf(out, "%-16s %5s %17.2f %12.2f %15.2f %20.2f %22.1f %22.1f\n", category, rtt,
                    number(c, "server_throughput_ratio", NULL), number(c, "within_bound", NULL),
                    number(c, "cost_efficiency_ratio", NULL),
                    number(c, "itl_ratio", "edge+proactive"),
                    100 * number(c, "tokens_per_verify_gain", NULL),
                    100 * number(c, "proactive_tokens_per_verify_gain", NULL));
        }
    }
}

static void print_categories(FILE *out, const ft_bench_load_report *r, const json_t *figures)
{
    const json_t *by_rtt, *c;
    const char *mode;
    char first[FT_BENCH_LOAD_RTT_NAME];
    fprintf(out, "\ntokens a verification by category, RTT %s ms:\n%-15s",
            ft_bench_load_rtt_name(r, 0, first), "");
    for (uint32_t i = 0; i < r->set->n_categories; i++)
        fprintf(out, " %12.12s", r->set->category[i]);
    fputc('\n', out);
    json_object_foreach((json_t *)json_object_get(figures, "modes"), mode, by_rtt)
    {
        c = json_object_get(json_object_get(by_rtt, first), "categories");
        fprintf(out, "%-15s", mode);
        for (uint32_t i = 0; i < r->set->n_categories; i++)
            fprintf(out, " %12.2f",
                    number(json_object_get(c, r->set->category[i]), "tokens_per_verify", NULL));
        fputc('\n', out);
    }
}

void ft_bench_load_report_print(const ft_bench_load_report *r, const json_t *figures, FILE *out)
{
    print_cells(out, figures);
    print_times(out, figures);
    fputc('\n', out);
    print_row(out, figures, "server_throughput_ratio",
              "server throughput, edge+pipeline / server-spec", "SpecEdge: 2.22 on average", 1);
    print_row(out, figures, "bound", "  the bound of this run's own times", "-", 1);
    print_row(out, figures, "within_bound", "  reached of it", "-", 1);
    print_row(out, figures, "cost_efficiency_ratio", "tokens a dollar, edge+pipeline / server-spec",
              "SpecEdge: 1.91 on average", 1);
    print_row(out, figures, "cost_bound", "  the bound of this run's own times", "-", 1);
    print_all_modes(out, figures);
    print_row(out, figures, "proactive_itl_gain", "proactive drafting: ITL, %", "SpecEdge: -11",
              100);
    print_row(out, figures, "early_itl_ratio", "ITL, edge+early / server-spec", "-", 1);
    print_row(out, figures, "early_itl_gain", "sending early: ITL, %", "-", 100);
    print_row(out, figures, "predictor_acceptance_gain", "predictor: acceptance of what is sent, %",
              "WISP: +34 to +54", 100);
    print_row(out, figures, "predictor_goodput_gain", "predictor: tokens a second, %",
              "WISP: +20 to +30", 100);
    print_categories(out, r, figures);
    if (r->by_category)
        print_category_ratios(out, figures);
    if (json_object_get(figures, "server_ratio"))
        fprintf(out,
                "\na draft forward on the server's core: %.2f ms, a verification %.2f ms, 1 : %.2f "
                "(SpecEdge: 11 : 94, 1 : 8.56)\n",
                number(figures, "server_forward_ms", NULL),
                number(figures, "server_verify_ms", NULL),
                over(1, number(figures, "server_ratio", NULL)));
    if (number(figures, "verify_times_for_ratio", NULL) > 0)
        fprintf(out,
                "for --ratio the target's verification would have to be %.2f times as dear (model "
                "inflate)\n",
                number(figures, "verify_times_for_ratio", NULL));
    fprintf(out, "\ntexts are %s; draft forward %.2f ms%s\n",
            json_is_true(json_object_get(figures, "identical")) ? "identical in all modes"
                                                                : "NOT THE SAME IN ALL MODES",
            r->forward_ms, r->verify_ms > 0 ? " by --ratio" : "");
}
