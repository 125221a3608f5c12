// SPDX-License-Identifier: Apache-2.0
// bench/uplink_sim and bench/uplink_report, from made-up measurements: of each text the median
// round counts; the simulator is told what was measured; claims follow from rows. Their arithmetic
// is done again here.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/uplink_report.h"
#include "support/positions.h"

static void expect(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * fmax(1, fabs(expected)))
        fail_msg("%.12g is not %.12g", value, expected);
}

static double at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v))
        fail_msg("no number %s", key);
    return json_number_value(v);
}

/* ---- rounds ---- */

static ft_bench_uplink_part part_of(uint64_t tokens, uint64_t us)
{
    ft_bench_uplink_part part = {.sum = {.tokens = tokens, .us = us, .drafts = tokens}};
    part.verify.n[4] = tokens;
    part.verify.us[4] = us / 2;
    return part;
}

/* Two texts in three rounds, in one of which the machine stood still. */
static void test_median_rounds(void **state)
{
    const ft_bench_uplink_part parts[6] = {part_of(10, 100000), part_of(10, 9000000),
                                           part_of(10, 90000),  part_of(20, 400000),
                                           part_of(20, 410000), part_of(20, 390000)};
    ft_bench_uplink_total total = {0};
    ft_bench_uplink_total_of(parts, 2, 3, &total);
    assert_int_equal(total.part.sum.tokens, 30);
    assert_int_equal(total.part.sum.us, 500000);
    assert_int_equal(total.part.verify.us[4], 250000);
    expect(ft_bench_uplink_speed(&total.part.sum), 60);
    expect(total.slowest_per_s, 30 / 9.41);
    expect(total.fastest_per_s, 30 / 0.48);
    const ft_bench_uplink_sum none = {0};
    expect(ft_bench_uplink_speed(&none), 0);
}

/* ---- times ---- */

/* Verifications of 3 ms and 2 ms a node, and what else a round has. */
static ft_bench_uplink_total total_of(ft_qsv_method method, uint32_t nodes, uint32_t width)
{
    enum { ROUNDS = 50 };
    ft_bench_uplink_total t = {.way = {.method = method, .length = nodes / width, .width = width}};
    ft_bench_uplink_sum *s = &t.part.sum;
    t.part.verify.n[nodes] = ROUNDS;
    t.part.verify.us[nodes] = ROUNDS * (3000 + 2000 * nodes);
    if (method == FT_QSV_METHOD_PLAIN)
        return t;
    s->drafts = ROUNDS;
    s->nodes = ROUNDS * nodes;
    s->empty_bytes = ROUNDS * 26;
    s->evidence_bytes = method == FT_QSV_METHOD_FIXED ? ROUNDS * 50 * nodes : 0;
    s->bytes = s->empty_bytes + s->evidence_bytes + ROUNDS * 4 * nodes;
    s->draft_us = ROUNDS * 700 * (nodes / width);
    s->line_us = ROUNDS * 120;
    s->verify_us = t.part.verify.us[nodes];
    s->drafts_us = s->draft_us + s->line_us + s->verify_us + ROUNDS * 1500;
    return t;
}

static void test_times(void **state)
{
    const ft_bench_uplink_total totals[] = {total_of(FT_QSV_METHOD_PLAIN, 0, 1),
                                            total_of(FT_QSV_METHOD_FIXED, 4, 1),
                                            total_of(FT_QSV_METHOD_TREE, 12, 3)};
    const ft_bench_uplink_times t = ft_bench_uplink_times_of(totals, 3);
    for (uint32_t k = 0; k <= 12; k++) /* those between are on the line */
        expect(t.verify_ms[k], 3 + 2 * k);
    expect(t.verify_ms[13], 27);
    expect(t.verify_ms[FT_TREE_MAX], 27);
    assert_true(t.verified[4] == 50 && t.verified[5] == 0);
    expect(t.rest_ms[FT_QSV_METHOD_FIXED], 1.5);
    expect(t.rest_ms[FT_QSV_METHOD_TREE], 1.5);
    expect(t.message_bits, 8 * 26);
    expect(t.draft_ms[FT_QSV_METHOD_FIXED], 0.7);
    expect(t.draft_ms[FT_QSV_METHOD_TREE], 0.7); /* a level of three nodes */
    expect(t.node_bits[FT_QSV_METHOD_FIXED], 32);
    expect(t.node_bits[FT_QSV_METHOD_TREE], 32);
    expect(t.draft_ms[FT_QSV_METHOD_CHAIN], 0); /* was not measured */
    json_t *json = ft_bench_uplink_times_json(&t, totals, 3);
    assert_int_equal(json_object_size(json_object_get(json, "draft_ms")), 2);
    const json_t *verify = json_object_get(json, "verify");
    assert_int_equal(json_array_size(verify), 3);
    expect(at(json_array_get(verify, 1), "nodes"), 4);
    expect(at(json_array_get(verify, 1), "ms"), 11);
    json_decref(json);
    /* One number of nodes alone. */
    const ft_bench_uplink_times one = ft_bench_uplink_times_of(&totals[1], 1);
    expect(one.verify_ms[0], 11);
    expect(one.verify_ms[FT_TREE_MAX], 11);
    const ft_bench_uplink_times none = ft_bench_uplink_times_of(totals, 0);
    expect(none.verify_ms[0], 0);
    expect(none.verify_ms[FT_TREE_MAX], 0);
}

/* ---- the simulation ---- */

static const ft_bench_uplink_times times = {
    .draft_ms = {[FT_QSV_METHOD_FIXED] = 2, [FT_QSV_METHOD_POLICY] = 2, [FT_QSV_METHOD_TREE] = 2},
    .verify_ms = {20, 21, 22, 23, 24, 25, 26, 27, 28, 29},
    .rest_ms = {[FT_QSV_METHOD_FIXED] = 3, [FT_QSV_METHOD_POLICY] = 3, [FT_QSV_METHOD_TREE] = 3},
    .message_bits = 200,
    .node_bits = {
        [FT_QSV_METHOD_FIXED] = 32, [FT_QSV_METHOD_POLICY] = 32, [FT_QSV_METHOD_TREE] = 32}};

static double simulate(const ft_positions *positions, const ft_policy *policy,
                       const ft_bench_uplink_way *way, double mbit, double share)
{
    const ft_bench_uplink_sim_opts opts = {
        .times = &times, .positions = positions, .policy = policy, .seed = 1};
    const ft_qsv_link link = {.rate = {.bits_per_s = {mbit * 1e6}}};
    ft_bench_uplink_simulated out;
    ft_error err = {0};
    if (ft_bench_uplink_simulate(&opts, way, &link, share, &err, &out) != FT_OK)
        fail_msg("%s", err.message);
    return out.tokens_per_s;
}

static void test_simulated(void **state)
{
    ft_positions positions = made_positions(3, 6, 60);
    const ft_bench_uplink_way plain = {.method = FT_QSV_METHOD_PLAIN, .width = 1, .l = 240};
    const ft_bench_uplink_way fixed = {
        .method = FT_QSV_METHOD_FIXED, .length = 3, .width = 1, .l = 240};
    const ft_bench_uplink_way tree = {
        .method = FT_QSV_METHOD_TREE, .length = 3, .width = 3, .l = 240};
    expect(simulate(&positions, NULL, &plain, 1, 0), 1e3 / 20);
    /* A round takes 3 x 2 + 20 + 3 + 3 ms and its bytes, and brings one to four tokens. */
    const double thin = simulate(&positions, NULL, &fixed, 0.05, 0);
    const double wide = simulate(&positions, NULL, &fixed, 1000, 0);
    assert_true(thin < wide && wide > 1e3 / 32 && wide < 4e3 / 32);
    assert_true(simulate(&positions, NULL, &tree, 1000, 0) < 4e3 / 38); /* nine nodes */
    const ft_bench_uplink_way lacks = {
        .method = FT_QSV_METHOD_FIXED, .length = 3, .width = 1, .l = 100};
    const ft_bench_uplink_sim_opts opts = {.times = &times, .positions = &positions};
    const ft_qsv_link link = {.rate = {.bits_per_s = {1e6}}};
    ft_bench_uplink_simulated out;
    ft_error err = {0};
    assert_int_equal(ft_bench_uplink_simulate(&opts, &lacks, &link, 0, &err, &out), FT_INVALID);
    assert_non_null(strstr(err.message, "100"));
    ft_positions_deinit(&positions);
}

/* While the rate is not known, an edge drafts by the way's numbers. */
static void test_policy_share(void **state)
{
    const ft_policy like = {.n_lengths = 5, .n_l = 2, .l = {240, 720}};
    const ft_bench_uplink_way way = {
        .method = FT_QSV_METHOD_POLICY, .length = 5, .width = 1, .l = 720};
    ft_bench_uplink_way chosen = {.method = FT_QSV_METHOD_FIXED, .length = 1, .width = 1, .l = 240};
    ft_policy policy;
    ft_positions positions = made_positions(3, 6, 60);
    assert_int_equal(ft_policy_init(&like, NULL, &policy), FT_OK); /* it takes its first choice */
    const double always = simulate(&positions, &policy, &way, 0.1, 1);
    const double half = simulate(&positions, &policy, &way, 0.1, 0.5);
    const double never = simulate(&positions, &policy, &way, 0.1, 0);
    expect(always, simulate(&positions, NULL, &chosen, 0.1, 0));
    chosen.length = 5;
    chosen.l = 720;
    expect(never, simulate(&positions, NULL, &chosen, 0.1, 0));
    assert_true(never < half && half < always);
    ft_policy_deinit(&policy);
    ft_positions_deinit(&positions);
}

/* ---- claims ---- */

static json_t *row(const char *uplink, const char *method, double tokens_per_s, double simulated)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:o}", "uplink", uplink, "method", method,
                     "tokens_per_s", tokens_per_s, "simulated_tokens_per_s", simulated, "identical",
                     strcmp(method, "fixed") == 0 ? json_null() : json_true());
}

static const json_t *claim(const json_t *claims, const char *word)
{
    const json_t *c;
    size_t i;
    json_array_foreach(claims, i,
                       c) if (strstr(json_string_value(json_object_get(c, "name")), word)) return c;
    return NULL;
}

static void expect_claim(const json_t *claims, const char *word, bool holds, double margin)
{
    const json_t *c = claim(claims, word);
    assert_non_null(c);
    assert_int_equal(json_is_true(json_object_get(c, "holds")), holds);
    expect(at(c, "margin"), margin);
    assert_int_equal(json_object_get(c, "reason") == NULL, holds);
}

static void test_claims_hold(void **state)
{
    /* 50 and 51 may have any order; other uplinks are not compared. */
    json_t *rows = json_pack("[o, o, o, o]", row("2", "plain", 40, 41), row("2", "fixed", 52, 50),
                             row("2", "exact chain", 49, 51), row("6", "plain", 38, 41));
    json_t *rates = json_pack("[{s:s, s:f, s:f, s:i}, {s:s, s:f, s:f, s:i}]", "uplink", "2", "mbit",
                              2.0, "rate_estimate_mbit", 2.1, "large_rounds", 20, "uplink", "6",
                              "mbit", 6.0, "rate_estimate_mbit", 0.0, "large_rounds", 19);
    json_t *claims = ft_bench_uplink_claims(rows, rates);
    assert_int_equal(json_array_size(claims), 4);
    expect_claim(claims, "ordered", true, 49.0 / 40 - 1);
    expect_claim(claims, "within 15 %", true, 0.15 - (1 - 38.0 / 41));
    expect_claim(claims, "rate", true, 0.05); /* 19 rounds are no case */
    expect_claim(claims, "exact", true, 0);
    json_decref(claims);
    json_decref(rates);
    json_decref(rows);
}

static void test_claims_fail(void **state)
{
    json_t *rows = json_pack("[o, o]", row("2", "plain", 40, 50), row("2", "fixed", 44, 44));
    json_t *rates = json_pack("[{s:s, s:f, s:f, s:i}]", "uplink", "2", "mbit", 2.0,
                              "rate_estimate_mbit", 0.0, "large_rounds", 20);
    json_object_set_new(json_array_get(rows, 0), "identical", json_false());
    json_t *claims = ft_bench_uplink_claims(rows, rates);
    expect_claim(claims, "ordered", false, 40.0 / 44 - 1);
    expect_claim(claims, "within 15 %", false, 0.15 - 0.2);
    expect_claim(claims, "rate", false, 0.1 - 1);
    expect_claim(claims, "exact", false, -1);
    json_decref(claims);
    json_array_clear(rates);
    json_array_remove(rows, 0);
    claims = ft_bench_uplink_claims(rows, rates); /* one method has no order */
    assert_int_equal(json_array_size(claims), 1);
    json_decref(claims);
    json_decref(rates);
    json_decref(rows);
}

static void test_rate(void **state)
{
    const ft_qsv_link link = {.name = "6", .rate = {.bits_per_s = {6e6}}};
    const ft_bench_uplink_known known[] = {
        {.bits_per_s = 5.9e6, .rounds = 25, .large = 20, .large_bytes = 40000},
        {.bits_per_s = 0, .rounds = 30, .large = 18, .large_bytes = 36000},
        {.bits_per_s = 6.2e6, .rounds = 24, .large = 20, .large_bytes = 40000}};
    json_t *rate = ft_bench_uplink_rate(&link, known, 3);
    expect(at(rate, "mbit"), 6);
    expect(at(rate, "rate_estimate_mbit"), 5.9);
    expect(at(rate, "large_rounds"), 18);
    expect(at(rate, "bytes_per_large_round"), 2000);
    assert_int_equal(json_array_size(json_object_get(rate, "estimates_mbit")), 3);
    json_decref(rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median_rounds), cmocka_unit_test(test_times),
        cmocka_unit_test(test_simulated),     cmocka_unit_test(test_policy_share),
        cmocka_unit_test(test_claims_hold),   cmocka_unit_test(test_claims_fail),
        cmocka_unit_test(test_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
