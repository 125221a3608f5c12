// SPDX-License-Identifier: Apache-2.0
// The comparisons between the cells of a report. Ratios of two cells are medians of the ratios
// within a round, whose cells were measured one after the other. Stateless.
#include "bench/load_compare.h"

#include "base/num.h"

static double over(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double per(uint64_t a, uint64_t b)
{
    return over((double)a, (double)b);
}

static void put(json_t *out, const char *key, double value)
{
    json_object_set_new(out, key, json_real(value));
}

double ft_bench_load_median_ratio(const double *a, const double *b, uint32_t n)
{
    double ratios[FT_BENCH_ROUNDS_MAX];
    for (uint32_t i = 0; i < n; i++)
        ratios[i] = over(a[i], b[i]);
    return n ? ft_bench_median(ratios, n) : 0;
}

static double verify_tokens(const ft_bench_load_cell *c)
{
    const ft_bench_load_tally t = ft_bench_load_tally_total(&c->sum);
    return ft_bench_load_tally_per_verify(&t);
}

/* SpecEdge 4.1: a server that only verifies can use the time of drafting to verify. What that
 * brings at most: server-spec's time of drafting and verifying for a token, over the time that
 * edge+pipeline verifies for one. All is of the windows, like the figure that it bounds. */
static double bound_of(const ft_bench_load_cell *pipeline, const ft_bench_load_cell *spec)
{
    const ft_verifier_stats *p = &pipeline->sum.server.stats, *s = &spec->sum.server.stats;
    return over(per(s->own_us + ft_verifier_stats_verify_us(s), s->tokens),
                per(ft_verifier_stats_verify_us(p), p->tokens));
}

/* What edge+pipeline's dollars bring over server-spec's: tokens a second are `ratio` as many. */
static double dollars_ratio(const ft_bench_load_report *r, double ratio)
{
    return ratio * over(ft_bench_load_dollars_per_h(r, FT_BENCH_LOAD_SERVER_SPEC),
                        ft_bench_load_dollars_per_h(r, FT_BENCH_LOAD_PIPELINE));
}

static void compare_servers(const ft_bench_load_report *r, json_t *out)
{
    static const char *const keys[] = {"server_throughput_ratio", "bound", "within_bound",
                                       "cost_efficiency_ratio", "cost_bound"};
    json_t *by_key[FT_COUNT(keys)];
    const bool both = r->mode[FT_BENCH_LOAD_SERVER_SPEC] && r->mode[FT_BENCH_LOAD_PIPELINE];
    const size_t n = r->price.server > 0 ? FT_COUNT(keys) : 3;
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (size_t k = 0; k < n; k++)
        by_key[k] = json_object();
    for (uint32_t i = 0; i < r->n_rtt && both; i++) {
        const ft_bench_load_cell *spec = &r->cell[FT_BENCH_LOAD_SERVER_SPEC][i];
        const ft_bench_load_cell *pipe = &r->cell[FT_BENCH_LOAD_PIPELINE][i];
        const double x = ft_bench_load_median_ratio(pipe->per_s, spec->per_s, pipe->n);
        const double b = bound_of(pipe, spec);
        const double values[] = {x, b, over(x, b), dollars_ratio(r, x), dollars_ratio(r, b)};
        ft_bench_load_rtt_name(r, i, name);
        for (size_t k = 0; k < n; k++)
            put(by_key[k], name, values[k]);
    }
    for (size_t k = 0; k < n; k++)
        json_object_set_new(out, keys[k], by_key[k]);
}

/* A figure of a mode's cell beside another mode's. */
typedef double versus(const ft_bench_load_cell *mode, const ft_bench_load_cell *other);

/* The figure of every mode from `first` on beside `other`, by mode and round-trip time. */
static json_t *against(const ft_bench_load_report *r, uint32_t first, ft_bench_load_mode other,
                       versus *figure)
{
    json_t *by_mode = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t m = first; m < FT_BENCH_LOAD_MODES && r->mode[other]; m++) {
        json_t *by_rtt = r->mode[m] && m != (uint32_t)other ? json_object() : NULL;
        for (uint32_t i = 0; i < r->n_rtt && by_rtt; i++)
            put(by_rtt, ft_bench_load_rtt_name(r, i, name),
                figure(&r->cell[m][i], &r->cell[other][i]));
        if (by_rtt)
            json_object_set_new(by_mode, ft_bench_load_mode_name((ft_bench_load_mode)m), by_rtt);
    }
    return by_mode;
}

static double itl_over(const ft_bench_load_cell *mode, const ft_bench_load_cell *other)
{
    return ft_bench_load_median_ratio(mode->itl_ms, other->itl_ms, mode->n);
}

static double speedup(const ft_bench_load_cell *mode, const ft_bench_load_cell *other)
{
    return ft_bench_load_median_ratio(other->itl_ms, mode->itl_ms, mode->n);
}

static double tokens_gain(const ft_bench_load_cell *mode, const ft_bench_load_cell *other)
{
    return over(verify_tokens(mode), verify_tokens(other)) - 1;
}

/* The share of the engine's time for a token that it no longer works. */
static double time_saved(const ft_bench_load_cell *mode, const ft_bench_load_cell *spec)
{
    const ft_verifier_stats *m = &mode->sum.server.stats, *s = &spec->sum.server.stats;
    return 1 - over(per(ft_verifier_stats_busy_us(m), m->tokens),
                    per(ft_verifier_stats_busy_us(s), s->tokens));
}

/* SpecEdge's figures 7, 9, 11 and 12. */
static void compare_modes(const ft_bench_load_report *r, json_t *out)
{
    json_t *gain = json_object();
    json_object_set_new(out, "itl_ratio",
                        against(r, FT_BENCH_LOAD_LAYER_SPLIT, FT_BENCH_LOAD_SERVER_SPEC, itl_over));
    json_object_set_new(out, "layer_split_itl_ratio",
                        against(r, FT_BENCH_LOAD_EDGE, FT_BENCH_LOAD_LAYER_SPLIT, speedup));
    json_object_set_new(out, "speedup",
                        against(r, FT_BENCH_LOAD_SERVER_SPEC, FT_BENCH_LOAD_PLAIN, speedup));
    json_object_set_new(out, "server_time_saved",
                        against(r, FT_BENCH_LOAD_EDGE, FT_BENCH_LOAD_SERVER_SPEC, time_saved));
    json_object_set_new(gain, "over_server_spec",
                        against(r, FT_BENCH_LOAD_EDGE, FT_BENCH_LOAD_SERVER_SPEC, tokens_gain));
    json_object_set_new(gain, "over_edge",
                        against(r, FT_BENCH_LOAD_EDGE, FT_BENCH_LOAD_EDGE, tokens_gain));
    json_object_set_new(out, "tokens_per_verify_gain", gain);
}

/* The server's own draft forward over its verification; and how many times slower the target would
 * have to be for the ratio of the devices. */
static void compare_costs(const ft_bench_load_report *r, json_t *out)
{
    const ft_bench_load_cell *spec = &r->cell[FT_BENCH_LOAD_SERVER_SPEC][0];
    const ft_verifier_stats *s = &spec->sum.server.stats;
    double forward = per(s->own_us, s->own_forwards) / 1e3;
    double verify = per(ft_verifier_stats_verify_us(s), s->passes.n) / 1e3;
    if (!r->mode[FT_BENCH_LOAD_SERVER_SPEC])
        return;
    put(out, "server_forward_ms", forward);
    put(out, "server_verify_ms", verify);
    put(out, "server_ratio", over(forward, verify));
    if (r->ratio > 0)
        put(out, "verify_times_for_ratio", over(over(forward, verify), r->ratio));
}

static void compare_proactive(const ft_bench_load_report *r, json_t *out)
{
    json_t *tokens = json_object(), *itl = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t i = 0; i < r->n_rtt; i++) {
        const ft_bench_load_cell *with = &r->cell[FT_BENCH_LOAD_PROACTIVE][i];
        const ft_bench_load_cell *without = &r->cell[FT_BENCH_LOAD_EDGE][i];
        if (!r->mode[FT_BENCH_LOAD_PROACTIVE] || !r->mode[FT_BENCH_LOAD_EDGE])
            break;
        ft_bench_load_rtt_name(r, i, name);
        put(tokens, name, over(verify_tokens(with), verify_tokens(without)) - 1);
        put(itl, name, ft_bench_load_median_ratio(with->itl_ms, without->itl_ms, with->n) - 1);
    }
    json_object_set_new(out, "proactive_tokens_per_verify_gain", tokens);
    json_object_set_new(out, "proactive_itl_gain", itl);
}

/* The ITL of edges that send early drafts, over that of server-spec, and over that of edges that
 * send none. */
static void compare_early(const ft_bench_load_report *r, json_t *out)
{
    static const ft_bench_load_mode others[] = {FT_BENCH_LOAD_SERVER_SPEC, FT_BENCH_LOAD_PROACTIVE};
    json_t *ratio[2] = {json_object(), json_object()};
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < r->n_rtt && r->mode[FT_BENCH_LOAD_EARLY] && r->mode[others[k]];
             i++) {
            const ft_bench_load_cell *early = &r->cell[FT_BENCH_LOAD_EARLY][i];
            put(ratio[k], ft_bench_load_rtt_name(r, i, name),
                ft_bench_load_median_ratio(early->itl_ms, r->cell[others[k]][i].itl_ms, early->n) -
                    (double)k);
        }
    json_object_set_new(out, "early_itl_ratio", ratio[0]);
    json_object_set_new(out, "early_itl_gain", ratio[1]);
}

/* A predictor that is never wrong sends no node that is rejected. What it brings at most: the time
 * of a round, over that time less the drafting of such nodes and less their share of the rows that
 * a draft waits for. A pass has fixed costs, too, so that the bound is not reached. */
static double predictor_bound(const ft_bench_load_cell *without)
{
    const ft_bench_load_tally t = ft_bench_load_tally_total(&without->sum);
    const ft_verifier_stats *s = &without->sum.server.stats;
    const double round_us =
        1e3 * ft_bench_load_values_mean(&without->sum.itl_ms) * ft_bench_load_tally_per_verify(&t);
    const double rejected = per(t.drafted - t.accepted, t.drafted + t.trees);
    const double spared_us = per(t.edge.wasted_draft_us, t.trees) +
                             rejected * per(s->queue_us + s->verify_us, s->rounds);
    return over(round_us, round_us - spared_us) - 1;
}

/* WISP tables 5 and 6: acceptance of the sent tokens, and goodput, with the predictor over
 * without. */
static void compare_predictor(const ft_bench_load_report *r, json_t *out)
{
    json_t *acceptance = json_object(), *goodput = json_object(), *bound = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t i = 0; i < r->n_rtt; i++) {
        const ft_bench_load_cell *with = &r->cell[FT_BENCH_LOAD_PREDICTOR][i];
        const ft_bench_load_cell *without = &r->cell[FT_BENCH_LOAD_EDGE][i];
        if (!r->mode[FT_BENCH_LOAD_PREDICTOR] || !r->mode[FT_BENCH_LOAD_EDGE])
            break;
        const ft_bench_load_tally a = ft_bench_load_tally_total(&with->sum);
        const ft_bench_load_tally b = ft_bench_load_tally_total(&without->sum);
        ft_bench_load_rtt_name(r, i, name);
        put(acceptance, name,
            over(over((double)a.accepted, (double)a.drafted),
                 over((double)b.accepted, (double)b.drafted)) -
                1);
        put(goodput, name, ft_bench_load_median_ratio(with->per_s, without->per_s, with->n) - 1);
        put(bound, name, predictor_bound(without));
    }
    json_object_set_new(out, "predictor_acceptance_gain", acceptance);
    json_object_set_new(out, "predictor_goodput_gain", goodput);
    json_object_set_new(out, "predictor_goodput_bound", bound);
}

/* edge+pipeline beside server-spec within one category. */
static void compare_servers_in(const ft_bench_load_report *r, const ft_bench_load_tally *pipe,
                               const ft_bench_load_tally *spec, json_t *out)
{
    const double x = over(ft_bench_load_tally_per_s(pipe), ft_bench_load_tally_per_s(spec));
    const double b = over(per(spec->window_own_us + spec->window_verify_us, spec->window_made),
                          per(pipe->window_verify_us, pipe->window_made));
    put(out, "server_throughput_ratio", x);
    put(out, "bound", b);
    put(out, "within_bound", over(x, b));
    put(out, "tokens_per_verify_gain",
        over(ft_bench_load_tally_per_verify(pipe), ft_bench_load_tally_per_verify(spec)) - 1);
    if (r->price.server > 0)
        put(out, "cost_efficiency_ratio", dollars_ratio(r, x));
}

/* The same comparisons within one category, from the sums of all rounds. */
static json_t *compare_category(const ft_bench_load_report *r, uint32_t rtt, uint32_t category)
{
    const ft_bench_load_tally *t[FT_BENCH_LOAD_MODES], *spec;
    json_t *out = json_object(), *itl = json_object();
    for (uint32_t m = 0; m < FT_BENCH_LOAD_MODES; m++)
        t[m] = &r->cell[m][rtt].sum.tally[category];
    spec = t[FT_BENCH_LOAD_SERVER_SPEC];
    if (spec->window_us && t[FT_BENCH_LOAD_PIPELINE]->window_us)
        compare_servers_in(r, t[FT_BENCH_LOAD_PIPELINE], spec, out);
    for (uint32_t m = FT_BENCH_LOAD_EDGE; m < FT_BENCH_LOAD_MODES; m++)
        if (spec->window_us && t[m]->window_us)
            put(itl, ft_bench_load_mode_name((ft_bench_load_mode)m),
                over(ft_bench_load_tally_itl_ms(t[m]), ft_bench_load_tally_itl_ms(spec)));
    json_object_set_new(out, "itl_ratio", itl);
    const ft_bench_load_tally *with = t[FT_BENCH_LOAD_PROACTIVE], *without = t[FT_BENCH_LOAD_EDGE];
    if (with->window_us && without->window_us) {
        put(out, "proactive_tokens_per_verify_gain",
            over(ft_bench_load_tally_per_verify(with), ft_bench_load_tally_per_verify(without)) -
                1);
        put(out, "proactive_itl_gain",
            over(ft_bench_load_tally_itl_ms(with), ft_bench_load_tally_itl_ms(without)) - 1);
    }
    return out;
}

static void compare_categories(const ft_bench_load_report *r, json_t *out)
{
    json_t *categories = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t c = 0; c < r->set->n_categories; c++) {
        json_t *by_rtt = json_object();
        for (uint32_t i = 0; i < r->n_rtt; i++)
            json_object_set_new(by_rtt, ft_bench_load_rtt_name(r, i, name),
                                compare_category(r, i, c));
        json_object_set_new(categories, r->set->category[c], by_rtt);
    }
    json_object_set_new(out, "categories", categories);
}

void ft_bench_load_compare(const ft_bench_load_report *r, json_t *out)
{
    compare_servers(r, out);
    compare_modes(r, out);
    compare_proactive(r, out);
    compare_early(r, out);
    compare_predictor(r, out);
    compare_costs(r, out);
    compare_categories(r, out);
}
