// SPDX-License-Identifier: Apache-2.0
// bench/serving_plot: gnuplot's script has a panel for each axis that was varied, and our numbers
// and the paper's in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/serving_paper.h"
#include "bench/serving_plot.h"

/* A cell of a mode at each round-trip time. */
static json_t *cells(double per_s, double itl_ms, double dollars)
{
    json_t *cell = json_pack(
        "{s:f, s:f, s:{s:f}, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "tokens_per_core_s", per_s,
        "tokens_per_busy_s", 1.25 * per_s, "itl_ms", "mean", itl_ms, "tokens_per_dollar", dollars,
        "busy_ms_per_token", 8.0, "drafting_share", 0.25, "verifying_share", 0.5, "other_share",
        0.05, "idle_share", 0.2, "verify_ms_p50", 30.0, "tokens_per_verify", 4.0);
    assert_non_null(cell);
    return json_pack("{s:O, s:o}", "5", cell, "15", cell);
}

static json_t *ratio(double at_5, double at_15)
{
    return json_pack("{s:f, s:f}", "5", at_5, "15", at_15);
}

static json_t *setting_new(int batch, int depth, const char *pipeline_depth, const char *shape)
{
    json_t *s =
        json_pack("{s:i, s:i, s:s, s:s, s:n, s:f, s:{s:o, s:o, s:o}}", "batch", batch, "depth",
                  depth, "pipeline_depth", pipeline_depth, "shape", shape, "draft_ms", "forward_ms",
                  11.0, "modes", "plain", cells(20, 50, 1e4), "server-spec", cells(40, 25, 2e4),
                  "edge+pipeline", cells(70 + depth, 20, 4e4));
    assert_non_null(s);
    json_object_set_new(s, "server_throughput_ratio", ratio(1.5, 1.875));
    json_object_set_new(s, "cost_efficiency_ratio", ratio(1.2, 1.625));
    json_object_set_new(s, "bound", ratio(1.75, 2.125));
    json_object_set_new(s, "cost_bound", ratio(1.3, 1.8125));
    json_object_set_new(s, "itl_ratio", json_pack("{s:o}", "edge+pipeline", ratio(0.75, 0.8125)));
    json_object_set_new(
        s, "tokens_per_verify_gain",
        json_pack("{s:{s:o}}", "over_server_spec", "edge+pipeline", ratio(0.25, 0.125)));
    json_object_set_new(s, "speedup", json_pack("{s:o}", "edge+pipeline", ratio(2, 2.5)));
    return s;
}

/* The script of these settings; frees them. */
static char *script_of(json_t *settings, json_t *chosen)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    json_t *report = json_copy(json_array_get(settings, 0));
    assert_non_null(out);
    json_object_set_new(report, "settings", settings);
    json_object_set_new(report, "chosen_depths", chosen);
    ft_bench_serving_script(report, out);
    fclose(out);
    json_decref(report);
    return text;
}

static void expect(const char *script, const char *part)
{
    if (!strstr(script, part))
        fail_msg("no '%s' in\n%s", part, script);
}

static void expect_none(const char *script, const char *part)
{
    if (strstr(script, part))
        fail_msg("'%s' in\n%s", part, script);
}

/* At the round-trip time that is nearest to the paper's. */
static void test_one_setting(void **state)
{
    char *script = script_of(json_pack("[o]", setting_new(1, 7, "rule", "tree")), json_array());
    expect(script, "\"tokens/s\" 1.875 2.125 2.22\n");
    expect(script, "\"tokens/$\" 1.625 1.8125 1.91\n");
    expect(script, "\"ITL\" 0.8125 0.3 0.8876\n"); /* 30 ms for 4 tokens, over 25 ms */
    expect(script, "\"tokens/verification\" 1.125 NaN 1.132\n");
    expect(script, "\"server-spec\" 2.5 5 0.5 2\n"); /* shares of 10 ms a token */
    expect(script, "$verifying << EOD\n0 5 NaN NaN NaN\n1 5 NaN NaN NaN\n2 5 4.4 4 4.8\nEOD\n");
    expect(script, "15 0.8125\n"); /* figure 11 */
    expect(script, "65 1.0498");   /* the paper's 44.47 over 42.36 ms */
    expect(script, "$least << EOD\n5 0.2 NaN\n15 0.6 NaN\nEOD\n"); /* over 25 ms */
    expect_none(script, "layer-split");
    expect_none(script, "figure 6");
    expect_none(script, "figure 10");
    expect_none(script, "figure 12");
    expect_none(script, "appendix E");
    free(script);
}

static void test_depths(void **state)
{
    json_t *chosen =
        json_pack("[{s:i, s:{s:{s:f, s:f}, s:{s:f, s:f}}}]", "setting", 0, "rtt_ms", "5", "chosen",
                  6.5, "tokens_per_core_s", 80.5, "15", "chosen", 5.5, "tokens_per_core_s", 75.5);
    assert_non_null(chosen);
    char *script =
        script_of(json_pack("[o,o,o]", setting_new(1, 4, "rule", "tree"),
                            setting_new(1, 2, "fixed", "tree"), setting_new(1, 4, "fixed", "tree")),
                  chosen);
    expect(script, "$depth1 << EOD\n2 72 90\n4 74 92.5\nEOD\n");
    expect(script, "$chosen0 << EOD\n6.5 80.5\nEOD\n");
    expect(script, "$chosen1 << EOD\n5.5 75.5\nEOD\n");
    expect(script, "set arrow from 7, graph 0"); /* the paper's depth at 15 ms */
    expect(script, "set xrange [0:8]\n");
    expect_none(script, "figure 6");
    free(script);
}

static void test_batches_and_shapes(void **state)
{
    char *script =
        script_of(json_pack("[o,o,o]", setting_new(1, 7, "rule", "tree"),
                            setting_new(4, 7, "rule", "tree"), setting_new(1, 7, "rule", "chain")),
                  json_array());
    expect(script, "$batch1 << EOD\n25 50 1\n25 50 4\nEOD\n"); /* chains are no batch */
    expect(script, "$bounds << EOD\n20 27.5862\n20 27.5862\nEOD\n");
    expect(script, "\"trees: tokens/s\" 1.875 2.125 2.22\n");
    expect(script, "\"chains: tokens/s\" 1.875 2.125 1.69667\n");
    expect_none(script, "figure 12");
    free(script);
}

/* Devices: beside the speedup what it would be without drafting, here of 15 ms of network and 30 ms
 * of verification for 4 tokens, over 50 ms a token. */
static void test_devices(void **state)
{
    json_t *settings =
        json_pack("[o,o]", setting_new(1, 7, "rule", "tree"), setting_new(1, 7, "rule", "tree"));
    json_t *s;
    size_t i;
    json_array_foreach(settings, i, s)
    {
        json_object_set_new(s, "draft_ms", json_real((double)i + 1));
        json_object_set_new(s, "forward_ms", json_real((double)i + 1));
        json_object_set_new(json_object_get(s, "modes"), "edge+proactive", cells(60, 22, 3e4));
    }
    char *script = script_of(settings, json_array());
    expect(script, "figure 12");
    expect(script, "$device4 << EOD\n1 2.5\n2 2.5\nEOD\n");
    expect(script, "$device_bound << EOD\n1 4.44444\n2 4.44444\nEOD\n");
    expect(script, "title 'edge+proactive: network and verification alone', 1.54");
    free(script);
}

/* In a report, under the names of our own figures. */
static void test_paper(void **state)
{
    json_t *paper = ft_serving_paper_json(), *specedge = json_object_get(paper, "specedge");
    assert_non_null(paper);
    const json_t *itl = json_object_get(specedge, "itl_ratio");
    assert_float_equal(json_number_value(json_object_get(specedge, "server_throughput_ratio")),
                       2.22, 1e-9);
    assert_float_equal(json_number_value(json_object_get(itl, "15")), 0.861, 1e-3);
    const json_t *depths = json_object_get(specedge, "chosen_depths");
    assert_float_equal(json_number_value(json_object_get(depths, "40")), 5, 1e-9);
    assert_int_equal(ft_specedge_depth(40), 5);
    assert_int_equal(ft_specedge_depth(41), 0);
    const json_t *gain = json_object_get(json_object_get(paper, "wisp"), "predictor_goodput_gain");
    assert_float_equal(json_number_value(json_object_get(gain, "16")), 0.3003, 1e-9);
    assert_true(ft_wisp_predictor_gain(3) == 0);
    json_decref(paper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_setting),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_batches_and_shapes),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_paper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
