// SPDX-License-Identifier: Apache-2.0
// From measured and simulated rounds to rows, and from rows to claims. No state.
#include "bench/uplink_report.h"

#include <math.h>
#include <stdio.h>

#define DIFFER       0.05 /* methods whose simulated speeds differ by more have an order */
#define OFF_MOST     0.15 /* measured over simulated speed, less 1 */
#define RATE_OFF     0.1
#define LARGE_ROUNDS 20

static double per(double a, double n)
{
    return n > 0 ? a / n : 0;
}

/* ---- rows ---- */

static void put_drafts(json_t *row, const ft_bench_uplink_sum *s,
                       const ft_bench_uplink_simulated *simulated)
{
    const double n = (double)s->drafts, parts = (double)(s->draft_us + s->line_us + s->verify_us);
    json_object_set_new(row, "nodes_per_round", json_real(per((double)s->nodes, n)));
    json_object_set_new(row, "simulated_bytes_per_round", json_real(simulated->bytes_per_round));
    json_object_set_new(row, "draft_ms", json_real(per((double)s->draft_us / 1e3, n)));
    json_object_set_new(row, "line_ms", json_real(per((double)s->line_us / 1e3, n)));
    json_object_set_new(row, "verify_ms", json_real(per((double)s->verify_us / 1e3, n)));
    json_object_set_new(row, "rest_ms", json_real(per(((double)s->drafts_us - parts) / 1e3, n)));
}

json_t *ft_bench_uplink_row(const ft_bench_uplink_edge *e, const ft_bench_uplink_total *total,
                            const ft_bench_uplink_simulated *simulated)
{
    const ft_bench_uplink_sum *s = &total->part.sum;
    const bool ratio =
        e->way.method == FT_QSV_METHOD_FIXED || e->way.method == FT_QSV_METHOD_POLICY;
    json_t *row = json_pack(
        "{s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:i, s:I}", "uplink", e->link->name, "method",
        ft_qsv_method_name[e->way.method], "tokens_per_s", ft_bench_uplink_speed(s),
        "simulated_tokens_per_s", simulated->tokens_per_s, "bytes_per_round",
        per((double)s->bytes, (double)s->drafts), "rate_estimate_mbit", e->known.bits_per_s / 1e6,
        "identical", ratio ? json_null() : json_boolean(e->differ == 0), "texts", (int)e->texts,
        "tokens", (json_int_t)s->tokens);
    json_object_set_new(row, "slowest_round", json_real(total->slowest_per_s));
    json_object_set_new(row, "fastest_round", json_real(total->fastest_per_s));
    json_object_set_new(row, "known_after_rounds", json_integer((json_int_t)e->known.known_after));
    if (e->way.method == FT_QSV_METHOD_POLICY)
        json_object_set_new(row, "policy_share", json_real(ft_bench_uplink_policy_share(s)));
    if (e->way.method != FT_QSV_METHOD_PLAIN)
        put_drafts(row, s, simulated);
    return row;
}

json_t *ft_bench_uplink_rate(const ft_qsv_link *link, const ft_bench_uplink_known *known,
                             uint32_t n)
{
    double mbit[FT_BENCH_UPLINK_ROUNDS_MAX], bytes = 0, large = 0;
    uint64_t least = known[0].large;
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++) {
        mbit[i] = known[i].bits_per_s / 1e6;
        json_array_append_new(all, json_real(mbit[i]));
        least = known[i].large < least ? known[i].large : least;
        bytes += (double)known[i].large_bytes;
        large += (double)known[i].large;
    }
    return json_pack("{s:s, s:f, s:f, s:o, s:I, s:f}", "uplink", link->name, "mbit",
                     link->rate.bits_per_s[0] / 1e6, "rate_estimate_mbit", ft_bench_median(mbit, n),
                     "estimates_mbit", all, "large_rounds", (json_int_t)least,
                     "bytes_per_large_round", per(bytes, large));
}

json_t *ft_bench_uplink_times_json(const ft_bench_uplink_times *t,
                                   const ft_bench_uplink_total *totals, uint32_t n)
{
    json_t *draft = json_object(), *rest = json_object(), *bits = json_object();
    json_t *verify = json_array();
    for (uint32_t i = 0; i < n; i++) {
        const ft_qsv_method m = totals[i].way.method;
        if (m == FT_QSV_METHOD_PLAIN)
            continue;
        json_object_set_new(draft, ft_qsv_method_name[m], json_real(t->draft_ms[m]));
        json_object_set_new(rest, ft_qsv_method_name[m], json_real(t->rest_ms[m]));
        json_object_set_new(bits, ft_qsv_method_name[m], json_real(t->node_bits[m]));
    }
    for (uint32_t k = 0; k <= FT_TREE_MAX; k++)
        if (t->verified[k] > 0)
            json_array_append_new(verify,
                                  json_pack("{s:i, s:f, s:I}", "nodes", (int)k, "ms",
                                            t->verify_ms[k], "n", (json_int_t)t->verified[k]));
    return json_pack("{s:o, s:o, s:o, s:f, s:o}", "draft_ms", draft, "verify", verify, "rtt_ms",
                     rest, "message_bits", t->message_bits, "node_bits", bits);
}

/* ---- claims ---- */

/* The worst case so far. */
typedef struct worst {
    bool any;
    double margin;
    char reason[200];
} worst;

/* Takes the case if it is worse; `why` then gets the reason. */
static bool is_worse(worst *w, double margin)
{
    if (w->any && margin >= w->margin)
        return false;
    w->any = true;
    w->margin = margin;
    return true;
}

static void put_claim(json_t *claims, const char *name, const worst *w)
{
    if (!w->any)
        return;
    json_t *claim =
        json_pack("{s:s, s:b, s:f}", "name", name, "holds", w->margin >= 0, "margin", w->margin);
    if (w->margin < 0)
        json_object_set_new(claim, "reason", json_string(w->reason));
    json_array_append_new(claims, claim);
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

/* Row a is simulated to be faster than row b, on the same uplink. */
static void see_order(const json_t *a, const json_t *b, worst *w)
{
    const double simulated =
        per(number(a, "simulated_tokens_per_s"), number(b, "simulated_tokens_per_s"));
    const double measured = per(number(a, "tokens_per_s"), number(b, "tokens_per_s"));
    if (json_equal(json_object_get(a, "uplink"), json_object_get(b, "uplink")) &&
        simulated > 1 + DIFFER && is_worse(w, measured - 1))
        snprintf(w->reason, sizeof w->reason,
                 "uplink %.20s: %.20s is %.3f times as fast as %.20s, and simulated %.3f times",
                 text(a, "uplink"), text(a, "method"), measured, text(b, "method"), simulated);
}

static void see_speed(const json_t *row, worst *w)
{
    const double off = number(row, "tokens_per_s") / number(row, "simulated_tokens_per_s") - 1;
    if (is_worse(w, OFF_MOST - fabs(off)))
        snprintf(w->reason, sizeof w->reason, "uplink %.20s, %.20s: %.3g tokens/s, simulated %.3g",
                 text(row, "uplink"), text(row, "method"), number(row, "tokens_per_s"),
                 number(row, "simulated_tokens_per_s"));
}

static void see_text(const json_t *row, worst *w)
{
    const json_t *identical = json_object_get(row, "identical");
    if (json_is_boolean(identical) && is_worse(w, json_is_true(identical) ? 0 : -1))
        snprintf(w->reason, sizeof w->reason, "uplink %.20s, %.20s: a text differs",
                 text(row, "uplink"), text(row, "method"));
}

static void see_rate(const json_t *rate, worst *w)
{
    const double off = number(rate, "rate_estimate_mbit") / number(rate, "mbit") - 1;
    if (number(rate, "large_rounds") >= LARGE_ROUNDS && is_worse(w, RATE_OFF - fabs(off)))
        snprintf(w->reason, sizeof w->reason, "uplink %.20s: %.4g Mbit/s estimated",
                 text(rate, "uplink"), number(rate, "rate_estimate_mbit"));
}

json_t *ft_bench_uplink_claims(const json_t *rows, const json_t *rates)
{
    worst order = {0}, speeds = {0}, texts = {0}, known = {0};
    json_t *claims = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        for (size_t k = 0; k < json_array_size(rows); k++)
            see_order(row, json_array_get(rows, k), &order);
        see_speed(row, &speeds);
        see_text(row, &texts);
    }
    for (size_t i = 0; i < json_array_size(rates); i++)
        see_rate(json_array_get(rates, i), &known);
    put_claim(claims, "methods are ordered as simulated where they differ by over 5 %", &order);
    put_claim(claims, "tokens/s are within 15 % of the simulated ones", &speeds);
    put_claim(claims, "the rate is known within 10 % after 20 rounds of a kilobyte or more",
              &known);
    put_claim(claims, "under rule exact all texts are the target's own", &texts);
    return claims;
}
