// SPDX-License-Identifier: Apache-2.0
// bench/load_report and bench/capacity_report: from made-up measurements to figures, whose
// arithmetic is done again here.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/capacity_beside.h"
#include "bench/capacity_plot.h"
#include "bench/capacity_report.h"
#include "bench/load_report.h"

static double at(const json_t *o, const char *a, const char *b, const char *c)
{
    const json_t *v = json_object_get(o, a);
    v = b ? json_object_get(v, b) : v;
    v = c ? json_object_get(v, c) : v;
    if (!json_is_number(v))
        fail_msg("no number %s %s %s", a, b ? b : "", c ? c : "");
    return json_number_value(v);
}

static void expect(double value, double expected)
{
    if (fabs(value - expected) > 1e-6 * fabs(expected))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* ---- serving ---- */

/* A round: so many tokens in a window of a second, tokens so far apart. */
static ft_bench_load_sample sample_of(uint64_t tokens, double itl_ms)
{
    ft_bench_load_sample s = {.window_s = 1, .window_tokens = tokens};
    ft_bench_load_values_add(&s.itl_ms, itl_ms);
    ft_bench_load_values_add(&s.ttft_ms, 10 * itl_ms);
    return s;
}

static ft_bench_load_report *report_new(const ft_bench_load_set *set)
{
    ft_bench_load_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->set = set;
    r->n_rtt = 1;
    r->rtt_us[0] = 15000;
    r->driver_cores = 1;
    return r;
}

static void report_free(ft_bench_load_report *r, json_t *figures)
{
    json_decref(figures);
    ft_bench_load_report_deinit(r);
    free(r);
}

/* Throughput is the median of rounds; a ratio of two modes is the median of the rounds' ratios, not
 * the ratio of the medians. */
static void test_medians_of_rounds(void **state)
{
    static const uint64_t spec[] = {100, 400, 200}, pipe[] = {300, 400, 500};
    const ft_bench_load_set set = {0};
    ft_bench_load_report *r = report_new(&set);
    r->mode[FT_BENCH_LOAD_SERVER_SPEC] = r->mode[FT_BENCH_LOAD_PIPELINE] = true;
    for (int i = 0; i < 3; i++) {
        ft_bench_load_sample a = sample_of(spec[i], 20), b = sample_of(pipe[i], 10 + i);
        ft_bench_load_report_add(r, FT_BENCH_LOAD_SERVER_SPEC, 0, &a);
        ft_bench_load_report_add(r, FT_BENCH_LOAD_PIPELINE, 0, &b);
        assert_null(a.itl_ms.v); /* taken */
    }
    json_t *figures = json_object();
    ft_bench_load_report_json(r, figures);
    const json_t *modes = json_object_get(figures, "modes");
    expect(at(modes, "server-spec", "15", "tokens_per_core_s"), 200);
    expect(at(modes, "edge+pipeline", "15", "tokens_per_core_s"), 400);
    expect(at(figures, "server_throughput_ratio", "15", NULL), 2.5); /* of 3, 1 and 2.5 */
    expect(at(figures, "itl_ratio", "edge+pipeline", "15"), 11.0 / 20);
    const json_t *cell = json_object_get(json_object_get(modes, "edge+pipeline"), "15");
    expect(at(cell, "itl_ms", "mean", NULL), 11);
    expect(at(cell, "ttft_ms", "p99", NULL), 120);
    expect(at(cell, "window_s", NULL, NULL), 3);
    assert_true(json_is_true(json_object_get(figures, "identical")));
    assert_null(json_object_get(modes, "plain"));
    report_free(r, figures);
}

/* The bound: what server-spec's engine drafts and verifies for a token, over what edge+pipeline's
 * verifies for one. Verifying is passes, head and walks. With prices, dollars follow: one device in
 * `edge` for each session, two in the pipeline. */
static void test_bound_and_costs(void **state)
{
    const ft_bench_load_set set = {0};
    ft_bench_load_report *r = report_new(&set);
    ft_bench_load_sample spec = sample_of(300, 20), pipe = sample_of(500, 10);
    r->mode[FT_BENCH_LOAD_SERVER_SPEC] = r->mode[FT_BENCH_LOAD_PIPELINE] = true;
    r->ratio = 0.1;
    r->batch = 3;
    r->price = (ft_bench_load_price){.server = 4, .edge = 0.5};
    pipe.window_tokens = 450;
    ft_verifier_stats *s = &spec.server.stats;
    s->tokens = 300;
    s->own_us = 300000;
    s->own_forwards = 100;
    s->forward_us = 400000;
    s->head_us = 150000;
    s->judge_us = 50000;
    s->passes.n = 60;
    s->idle_us = 300000;
    pipe.server.stats.tokens = 450;
    pipe.server.stats.forward_us = 540000;
    pipe.server.stats.rest_us = 60000;
    const double busy_us = 900000;
    spec.mismatches = 1;
    ft_bench_load_report_add(r, FT_BENCH_LOAD_SERVER_SPEC, 0, &spec);
    ft_bench_load_report_add(r, FT_BENCH_LOAD_PIPELINE, 0, &pipe);
    json_t *figures = json_object();
    ft_bench_load_report_json(r, figures);
    const double bound = (900.0 / 300) / (540.0 / 450), dollars = 4 / (4 + 6 * 0.5);
    expect(at(figures, "bound", "15", NULL), bound);
    expect(at(figures, "within_bound", "15", NULL), 1.5 / bound);
    expect(at(figures, "cost_efficiency_ratio", "15", NULL), 1.5 * dollars);
    expect(at(figures, "cost_bound", "15", NULL), bound * dollars);
    expect(at(figures, "server_time_saved", "edge+pipeline", "15"), 1 - (600.0 / 450) / 3);
    expect(at(figures, "server_forward_ms", NULL, NULL), 3);
    expect(at(figures, "server_verify_ms", NULL, NULL), 10);
    expect(at(figures, "server_ratio", NULL, NULL), 0.3);
    expect(at(figures, "verify_times_for_ratio", NULL, NULL), 3);
    const json_t *modes = json_object_get(figures, "modes");
    const json_t *cell = json_object_get(json_object_get(modes, "server-spec"), "15");
    expect(at(cell, "idle_share", NULL, NULL), 300000 / (busy_us + 300000));
    expect(at(cell, "drafting_share", NULL, NULL), 0.25);
    expect(at(cell, "verifying_share", NULL, NULL), 0.5);
    expect(at(cell, "other_share", NULL, NULL) + 1, 1);
    expect(at(cell, "busy_ms_per_token", NULL, NULL), 3);
    expect(at(cell, "tokens_per_dollar", NULL, NULL), 300 * 3600 / 4.0);
    cell = json_object_get(json_object_get(modes, "edge+pipeline"), "15");
    expect(at(cell, "other_share", NULL, NULL), 0.1);
    expect(at(cell, "tokens_per_dollar", NULL, NULL), 450 * 3600 / 7.0);
    assert_true(json_is_false(json_object_get(figures, "identical")));
    report_free(r, figures);
}

/* A mode's gains over plain decoding, over a server that drafts, and over edges that only wait; and
 * texts of layers that another program computes need not be the same. */
static void test_modes_side_by_side(void **state)
{
    static const struct {
        ft_bench_load_mode mode;
        double itl_ms;
        uint64_t verdicts;
    } cells[] = {{FT_BENCH_LOAD_PLAIN, 40, 100},
                 {FT_BENCH_LOAD_SERVER_SPEC, 25, 40},
                 {FT_BENCH_LOAD_LAYER_SPLIT, 60, 100},
                 {FT_BENCH_LOAD_EDGE, 30, 25},
                 {FT_BENCH_LOAD_PROACTIVE, 20, 20}};
    const ft_bench_load_set set = {.n_categories = 1, .category = {"math"}};
    ft_bench_load_report *r = report_new(&set);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        ft_bench_load_sample s = sample_of(100, cells[i].itl_ms);
        s.tally[0] = (ft_bench_load_tally){
            .texts = 1, .tokens = 100, .verdicts = cells[i].verdicts, .verdict_tokens = 100};
        s.mismatches = cells[i].mode == FT_BENCH_LOAD_LAYER_SPLIT;
        s.line_answers = 300;
        r->mode[cells[i].mode] = true;
        ft_bench_load_report_add(r, cells[i].mode, 0, &s);
    }
    json_t *figures = json_object();
    ft_bench_load_report_json(r, figures);
    expect(at(figures, "itl_ratio", "edge", "15"), 1.2);
    expect(at(figures, "itl_ratio", "layer-split", "15"), 2.4);
    expect(at(figures, "layer_split_itl_ratio", "edge+proactive", "15"), 3);
    expect(at(figures, "speedup", "server-spec", "15"), 1.6);
    expect(at(figures, "speedup", "edge+proactive", "15"), 2);
    const json_t *gain = json_object_get(figures, "tokens_per_verify_gain");
    expect(at(gain, "over_server_spec", "edge", "15"), 0.6);
    expect(at(gain, "over_server_spec", "edge+proactive", "15"), 1);
    expect(at(gain, "over_edge", "edge+proactive", "15"), 0.25);
    const json_t *modes = json_object_get(figures, "modes");
    expect(at(modes, "edge", "15", "tokens_per_verdict"), 4);
    assert_null(json_object_get(figures, "cost_efficiency_ratio")); /* no price is known */
    assert_true(json_is_true(json_object_get(figures, "identical")));
    const json_t *split = json_object_get(json_object_get(figures, "modes"), "layer-split");
    expect(at(split, "15", "line_answers_per_token", NULL), 3);
    assert_true(json_is_false(json_object_get(json_object_get(split, "15"), "identical")));
    report_free(r, figures);
}

/* What trees and proactive drafting did, by category and in all. */
static void test_tallies(void **state)
{
    const ft_bench_load_set set = {.n_categories = 2, .category = {"math", "chat"}};
    ft_bench_load_report *r = report_new(&set);
    ft_bench_load_sample s = sample_of(100, 5);
    r->mode[FT_BENCH_LOAD_PROACTIVE] = true;
    s.tally[0] = (ft_bench_load_tally){
        .texts = 1,
        .tokens = 60,
        .trees = 20,
        .tree_tokens = 50,
        .drafted = 160,
        .accepted = 40,
        .edge = {
            .leaves = 20, .aligned = 10, .matched = 5, .proactive_nodes = 60, .run_tokens = 10}};
    s.tally[1] = (ft_bench_load_tally){
        .texts = 1, .tokens = 40, .trees = 20, .tree_tokens = 40, .drafted = 40, .accepted = 20};
    s.traffic = (ft_bench_load_traffic){
        .drafts = 40, .draft_bytes = 2000, .verdicts = 40, .verdict_bytes = 500};
    ft_bench_load_report_add(r, FT_BENCH_LOAD_PROACTIVE, 0, &s);
    json_t *figures = json_object();
    ft_bench_load_report_json(r, figures);
    const json_t *cell =
        json_object_get(json_object_get(json_object_get(figures, "modes"), "edge+proactive"), "15");
    expect(at(cell, "tokens_per_verify", NULL, NULL), 90.0 / 40);
    expect(at(cell, "acceptance", NULL, NULL), 60.0 / 200);
    expect(at(cell, "categories", "math", "acceptance"), 0.25);
    expect(at(cell, "categories", "chat", "nodes_per_tree"), 2);
    /* SpecEdge eq. (1) of what was counted: 10/20 x 5/10 x (60/20 - 1) */
    expect(at(cell, "categories", "math", "proactive_gain"), 0.5);
    expect(at(cell, "run_token_share", NULL, NULL), 0.1);
    expect(at(cell, "uplink_bytes_per_round", NULL, NULL), 50);
    expect(at(cell, "downlink_bytes_per_token", NULL, NULL), 5);
    expect(at(figures, "uplink_bytes_per_round", NULL, NULL), 50);
    report_free(r, figures);
}

/* ---- capacity ---- */

static const ft_bench_crowd_class classes[] = {{2, 16}, {8, 64}};

/* The worst class counts; a class without texts does not; without any nobody was served. */
static void test_probe(void **state)
{
    const ft_bench_capacity_report r = {.classes = classes, .n_classes = 2, .driver_cores = 2};
    ft_bench_crowd_result c = {.texts = {100, 50},
                               .slow = {4, 5},
                               .slow_from_first = {3, 1},
                               .tokens = 6000,
                               .seconds = 10,
                               .driver_cpu_s = 15,
                               .drafted = 400,
                               .accepted = 100,
                               .device_forwards = 100,
                               .device_late = 11};
    c.server.at_s = 10;
    c.server.stats.forward_us = 4000000;
    c.server.stats.head_us = 1000000;
    c.server.stats.passes.n = 400;
    c.server.stats.passes.sum = 2000;
    c.server.stats.slo_rounds_met[1] = 70;
    c.server.stats.slo_rounds_late[1 * FT_LATE_CAUSES + FT_LATE_SPIKE] = 6;
    ft_bench_capacity_probe p = ft_bench_capacity_probe_of(&r, 12, &c);
    assert_int_equal(p.n, 12);
    expect(p.slow, 0.1);
    expect(p.slow_from_first, 0.03);
    expect(p.slow_of[0], 0.04);
    expect(p.slow_of[1], 0.1);
    assert_int_equal(p.late_rounds[1][FT_LATE_NONE], 70);
    assert_int_equal(p.late_rounds[1][FT_LATE_SPIKE], 6);
    assert_int_equal(p.late_rounds[0][FT_LATE_SPIKE], 0);
    assert_int_equal(p.texts, 50);
    assert_int_equal(p.slow_texts, 5);
    expect(p.goodput, 600);
    expect(p.busy, 0.5);
    expect(p.driver, 0.75);
    expect(p.acceptance, 0.25);
    expect(p.rows_a_pass, 5);
    expect(p.pass_ms, 10);
    assert_true(ft_bench_capacity_probe_is_bound(&p)); /* by late forwards */
    c.device_late = 0;
    p = ft_bench_capacity_probe_of(&r, 12, &c);
    assert_false(ft_bench_capacity_probe_is_bound(&p));
    c.driver_cpu_s = 17;
    p = ft_bench_capacity_probe_of(&r, 12, &c);
    assert_true(ft_bench_capacity_probe_is_bound(&p)); /* by our own cores */
    c.texts[1] = 0;
    p = ft_bench_capacity_probe_of(&r, 12, &c);
    expect(p.slow, 0.04);
    c.texts[0] = 0;
    p = ft_bench_capacity_probe_of(&r, 12, &c);
    expect(p.slow, 1);
    expect(p.slow_from_first, 1);
}

static void test_capacities(void **state)
{
    ft_bench_capacity_report r = {
        .way = {[FT_BENCH_CAPACITY_WISP] = true, [FT_BENCH_CAPACITY_FCFS] = true},
        .classes = classes,
        .n_classes = 2,
        .mixed = true,
        .probes = json_array()};
    r.found[FT_BENCH_CAPACITY_WISP][0] = (ft_bench_capacity_found){true, {.n = 30, .goodput = 60}};
    r.found[FT_BENCH_CAPACITY_WISP][1] = (ft_bench_capacity_found){true, {.n = 9, .driver = 0.9}};
    r.found[FT_BENCH_CAPACITY_FCFS][0] = (ft_bench_capacity_found){true, {.n = 20}};
    r.found[FT_BENCH_CAPACITY_FCFS][1] = (ft_bench_capacity_found){true, {.n = 0}};
    r.found[FT_BENCH_CAPACITY_WISP][FT_BENCH_CAPACITY_MIXED] =
        (ft_bench_capacity_found){true, {.n = 12}};
    const ft_bench_capacity_probe tried = {.n = 31, .slow = 0.06, .slow_from_first = 0.04};
    ft_bench_capacity_report_add(&r, FT_BENCH_CAPACITY_WISP, FT_BENCH_CAPACITY_MIXED, &tried);
    json_t *out = json_object();
    ft_bench_capacity_report_json(&r, out);
    expect(at(out, "capacity", "wisp", "2"), 30);
    expect(at(out, "capacity", "wisp", "mixed"), 12);
    expect(at(out, "goodput", "wisp", "2"), 60);
    expect(at(out, "ratio", "fcfs", "2"), 1.5);
    const json_t *ratio = json_object_get(json_object_get(out, "ratio"), "fcfs");
    assert_true(json_is_null(json_object_get(ratio, "8"))); /* over none at all */
    assert_null(json_object_get(ratio, "mixed"));           /* fcfs's is not known */
    const json_t *least = json_object_get(json_object_get(out, "lower_bound"), "wisp");
    assert_true(json_is_true(json_object_get(least, "8")));
    assert_true(json_is_false(json_object_get(least, "2")));
    const json_t *row = json_array_get(json_object_get(out, "probes"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "class")), "mixed");
    expect(at(row, "devices", NULL, NULL), 31);
    expect(at(row, "violation_rate", NULL, NULL), 0.06);
    json_decref(out);
    json_decref(r.probes);
}

/* Probes of passes of 100 ms, 2 ms a text and 1 ms a drafted token; drafts of 3 tokens bring 1.75
 * more than the target's own. */
static void add_probe(ft_bench_capacity_report *r, ft_bench_capacity_way way, double texts,
                      double drafts)
{
    const ft_bench_capacity_probe p = {.n = 4,
                                       .passes = 50,
                                       .texts_a_pass = texts,
                                       .rows_a_pass = texts + drafts,
                                       .pass_ms = 100 + 2 * texts + drafts,
                                       .draft_verdicts = drafts > 0 ? 200 : 0,
                                       .draft_tokens = drafts > 0 ? 550 : 0,
                                       .drafted = drafts > 0 ? 600 : 0,
                                       .accepted = drafts > 0 ? 350 : 0};
    ft_capacity_beside_saw(r, way, &p);
}

/* The plots have the bound: so many devices of the second class. */
static void check_plots(const ft_bench_capacity_report *r, double devices)
{
    ft_knee knee = {.n_classes = 2};
    ft_capacity_beside_knee(r, &knee);
    assert_float_equal(knee.bound[1], devices, 1e-6);
    assert_true(knee.bound[2] > 0 && knee.bound[0] > knee.bound[1]);
    char *script = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&script, &n);
    assert_non_null(to);
    ft_bench_capacity_script(r, to);
    fclose(to);
    assert_non_null(strstr(script, "$way0 << EOD\n2 0\n8 6\nEOD\n"));
    assert_non_null(strstr(script, "$paper << EOD\n2 0\n8 8.39024\nEOD\n")); /* 4 devices */
    char line[64];
    snprintf(line, sizeof line, "8 %g\nEOD\n", devices);
    assert_non_null(strstr(strstr(script, "$bound"), line));
    assert_null(strstr(script, "$way2"));
    free(script);
}

/* Beside a ratio: the bound by what passes took, and the paper's number. */
static void test_beside_a_ratio(void **state)
{
    ft_bench_capacity_report r = {
        .way = {[FT_BENCH_CAPACITY_WISP] = true, [FT_BENCH_CAPACITY_CENTRALIZED] = true},
        .classes = classes,
        .n_classes = 2,
        .mixed = true,
        .beside = {.away_s = 0.03, .most_tokens = 3},
        .probes = json_array()};
    r.found[FT_BENCH_CAPACITY_WISP][1] = (ft_bench_capacity_found){true, {.n = 6, .goodput = 45}};
    r.found[FT_BENCH_CAPACITY_CENTRALIZED][1] =
        (ft_bench_capacity_found){true, {.n = 4, .goodput = 30}};
    json_t *out = json_object();
    ft_bench_capacity_report_json(&r, out);
    ft_capacity_beside_json(&r, out);
    assert_null(json_object_get(out, "ratio_bound")); /* no probe, no times */
    json_decref(out);
    out = json_object();
    add_probe(&r, FT_BENCH_CAPACITY_CENTRALIZED, 4, 0);
    add_probe(&r, FT_BENCH_CAPACITY_CENTRALIZED, 10, 0);
    add_probe(&r, FT_BENCH_CAPACITY_WISP, 4, 12);
    add_probe(&r, FT_BENCH_CAPACITY_SLED, 4, 900); /* reads texts: other rows */
    ft_bench_capacity_report_json(&r, out);
    ft_capacity_beside_json(&r, out);
    const json_t *bound = json_object_get(out, "ratio_bound");
    const double chance = at(bound, "accept_chance", NULL, NULL);
    assert_float_equal(at(bound, "pass_ms", NULL, NULL), 100, 1e-6);
    assert_float_equal(at(bound, "row_ms", NULL, NULL), 2, 1e-6);
    assert_float_equal(at(bound, "drafted_row", NULL, NULL), 0.5, 1e-9);
    assert_float_equal(chance + chance * chance + chance * chance * chance, 1.75, 1e-6);
    const double decoding = 0.125 - 0.1, drafts = 2.75 / 8 - 0.1 - 0.03;
    assert_float_equal(at(bound, "by_class", "8", "ratio"), drafts / 2.5 / decoding, 1e-6);
    assert_float_equal(at(bound, "by_class", "8", "devices_decoding"), decoding / 0.002, 1e-6);
    assert_float_equal(at(bound, "by_class", "8", "ratio_all_accepted"),
                       (4.0 / 8 - 0.13) / 2.5 / decoding, 1e-6);
    expect(at(bound, "by_class", "8", "draft_tokens"), 3);
    const json_t *most =
        json_object_get(json_object_get(json_object_get(bound, "by_class"), "8"), "most_over");
    assert_float_equal(at(most, "centralized", NULL, NULL), drafts / 2.5 / 0.002 / 4, 1e-6);
    assert_int_equal(json_object_size(most), 1); /* no other way was measured */
    assert_true(at(bound, "by_class", "mixed", "ratio") > 1.6);
    expect(at(out, "ratio", "centralized", "8"), 1.5);
    expect(at(out, "goodput_ratio", "centralized", "8"), 1.5);
    expect(at(out, "paper", "centralized", "8"), 86.0 / 41);
    expect(at(out, "paper", "sled", "2"), 164.0 / 83);
    expect(at(out, "paper", "sled", "mixed"), 631.86 / 170.82);
    json_decref(out);
    check_plots(&r, drafts / 2.5 / 0.002);
    json_decref(r.probes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_medians_of_rounds),
        cmocka_unit_test(test_bound_and_costs),
        cmocka_unit_test(test_modes_side_by_side),
        cmocka_unit_test(test_tallies),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_capacities),
        cmocka_unit_test(test_beside_a_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
