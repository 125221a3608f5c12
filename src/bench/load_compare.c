// SPDX-License-Identifier: Apache-2.0
// The comparisons between the cells of a report. Ratios of two cells are medians of the ratios
// within a round, whose cells were measured one after the other. Stateless.
#include "bench/load_compare.h"

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

/* The median of a[i] / b[i]. */
static double median_ratio(const double *a, const double *b, uint32_t n)
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

/* SpecEdge 4.1: a server that only verifies can use the time of drafting to verify. If the trees
 * differ, the tokens of each verification count, too. The times are server-spec's own. All is of
 * the windows, like the figure that it bounds. */
static double bound_of(const ft_bench_load_cell *pipeline, const ft_bench_load_cell *spec)
{
    const ft_bench_load_sample *p = &pipeline->sum, *s = &spec->sum;
    const uint64_t verify_us = ft_verifier_stats_verify_us(&s->server.stats);
    return per(s->server.stats.own_us + verify_us, verify_us) *
           over(over((double)p->window_tokens, (double)p->window_verdicts),
                over((double)s->window_tokens, (double)s->window_verdicts));
}

static void compare_servers(const ft_bench_load_report *r, json_t *out)
{
    json_t *ratio = json_object(), *bound = json_object(), *within = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t i = 0; i < r->n_rtt && r->mode[FT_BENCH_LOAD_SERVER_SPEC]; i++) {
        const ft_bench_load_cell *spec = &r->cell[FT_BENCH_LOAD_SERVER_SPEC][i];
        const ft_bench_load_cell *pipe = &r->cell[FT_BENCH_LOAD_PIPELINE][i];
        if (!r->mode[FT_BENCH_LOAD_PIPELINE])
            break;
        double x = median_ratio(pipe->per_s, spec->per_s, pipe->n);
        double b = bound_of(pipe, spec);
        ft_bench_load_rtt_name(r, i, name);
        put(ratio, name, x);
        put(bound, name, b);
        put(within, name, over(x, b));
    }
    json_object_set_new(out, "server_throughput_ratio", ratio);
    json_object_set_new(out, "bound", bound);
    json_object_set_new(out, "within_bound", within);
}

/* What users wait for a token, over server-spec's. */
static void compare_itl(const ft_bench_load_report *r, json_t *out)
{
    json_t *by_mode = json_object();
    char name[FT_BENCH_LOAD_RTT_NAME];
    for (uint32_t m = FT_BENCH_LOAD_EDGE;
         m < FT_BENCH_LOAD_MODES && r->mode[FT_BENCH_LOAD_SERVER_SPEC]; m++) {
        json_t *itl = r->mode[m] ? json_object() : NULL;
        for (uint32_t i = 0; i < r->n_rtt && itl; i++)
            put(itl, ft_bench_load_rtt_name(r, i, name),
                median_ratio(r->cell[m][i].itl_ms, r->cell[FT_BENCH_LOAD_SERVER_SPEC][i].itl_ms,
                             r->cell[m][i].n));
        if (itl)
            json_object_set_new(by_mode, ft_bench_load_mode_name((ft_bench_load_mode)m), itl);
    }
    json_object_set_new(out, "itl_ratio", by_mode);
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
        put(itl, name, median_ratio(with->itl_ms, without->itl_ms, with->n) - 1);
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
                median_ratio(early->itl_ms, r->cell[others[k]][i].itl_ms, early->n) - (double)k);
        }
    json_object_set_new(out, "early_itl_ratio", ratio[0]);
    json_object_set_new(out, "early_itl_gain", ratio[1]);
}

/* WISP tables 5 and 6: acceptance of the sent tokens, and goodput, with the predictor over
 * without. */
static void compare_predictor(const ft_bench_load_report *r, json_t *out)
{
    json_t *acceptance = json_object(), *goodput = json_object();
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
        put(goodput, name, median_ratio(with->per_s, without->per_s, with->n) - 1);
    }
    json_object_set_new(out, "predictor_acceptance_gain", acceptance);
    json_object_set_new(out, "predictor_goodput_gain", goodput);
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
        put(out, "server_throughput_ratio",
            over(ft_bench_load_tally_per_s(t[FT_BENCH_LOAD_PIPELINE]),
                 ft_bench_load_tally_per_s(spec)));
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
    compare_itl(r, out);
    compare_proactive(r, out);
    compare_early(r, out);
    compare_predictor(r, out);
    compare_costs(r, out);
    compare_categories(r, out);
}
