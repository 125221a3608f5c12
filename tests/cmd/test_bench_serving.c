// SPDX-License-Identifier: Apache-2.0
// `foretoken bench serving` as a program, on tiny models: all modes over a link without and with
// delay, and lists of settings. It says the same text in every mode, its JSON has what readers of
// its figures ask for, and drafts are small on the wire. How large rates are is not looked at.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/program.h"
#include "learn/predictor.h"
#include "support/tiny_pair.h"
#include "support/tiny_gguf.h"

static const char *const modes[] = {"plain",          "server-spec", "edge",
                                    "edge+proactive", "edge+early",  "edge+pipeline"};
static const char *const rtts[] = {"0", "1"};
static tiny_pair pair;

static int set_up(void **state)
{
    pair = tiny_pair_make("{\"turns\": [\"alpha beta\"], \"category\": \"letters\"}\n"
                          "{\"turns\": [\"12 + 30\"], \"category\": \"math\"}\n");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return tiny_pair_bench(&pair, "bench serving", args, status);
}

/* Of two prompts in two rounds. */
static void check_cell(const json_t *cell, bool drafts)
{
    static const char *const keys[] = {
        "tokens_per_core_s",        "tokens_per_busy_s", "idle_share", "driver_cpu_share",
        "downlink_bytes_per_token", "acceptance",        "p_align",    "p_match_align",
        "rate_estimate_mbit"};
    assert_non_null(cell);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)program_number(cell, keys[i]);
    assert_true(program_number(cell, "texts") == 4 && program_number(cell, "tokens") > 2);
    assert_true(program_number(cell, "tokens_per_verify") >= 1);
    assert_true(program_number(cell, "uplink_bytes_per_token") > 0);
    const json_t *itl = json_object_get(cell, "itl_ms"), *ttft = json_object_get(cell, "ttft_ms");
    assert_true(program_number(itl, "p50") <= program_number(itl, "p99") &&
                program_number(itl, "mean") >= 0);
    assert_true(program_number(ttft, "p50") > 0 &&
                program_number(ttft, "p50") <= program_number(ttft, "p99"));
    assert_true(json_is_true(json_object_get(cell, "identical")));
    const json_t *categories = json_object_get(cell, "categories");
    assert_int_equal(json_object_size(categories), 2);
    assert_true(program_number(json_object_get(categories, "math"), "texts") == 2);
    if (drafts) {
        assert_true(program_number(cell, "nodes_per_tree") > 1);
        assert_true(program_number(cell, "uplink_bytes_per_round") <= 150);
        const double wasted = program_number(cell, "wasted_tokens_per_tree");
        assert_true(wasted >= 0 && wasted < program_number(cell, "nodes_per_tree"));
        assert_true((wasted > 0) == (program_number(cell, "acceptance") < 1));
        const double share = program_number(cell, "wasted_draft_share");
        assert_true(share >= 0 && share <= 1);
        assert_true(program_number(cell, "wasted_draft_ms_per_tree") <=
                    program_number(cell, "draft_ms_per_tree"));
    }
}

static void test_all_modes(void **state)
{
    static const char *const comparisons[] = {
        "server_throughput_ratio", "bound",           "within_bound",
        "cost_efficiency_ratio",   "cost_bound",      "proactive_tokens_per_verify_gain",
        "proactive_itl_gain",      "early_itl_ratio", "early_itl_gain"};
    int status;
    json_t *json =
        run("-n 12 --rtt 0,1 --draft-ms 0.5 --rounds 2 --draft-depth 3 --server-depth 3", &status);
    assert_int_equal(status, 0);
    assert_non_null(json);
    const json_t *by_mode = json_object_get(json, "modes");
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (size_t r = 0; r < 2; r++)
            check_cell(json_object_get(json_object_get(by_mode, modes[m]), rtts[r]), m >= 2);
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
        for (size_t r = 0; r < 2; r++)
            (void)program_number(json_object_get(json, comparisons[i]), rtts[r]);
    for (size_t r = 0; r < 2; r++)
        (void)program_number(json_object_get(json_object_get(json, "itl_ratio"), "edge"), rtts[r]);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_true(program_number(json, "uplink_bytes_per_round") <= 150);
    assert_true(program_number(json, "forward_ms") == 0.5);
    json_decref(json);
}

/* Sampled texts are the same in all modes too, and a link without delay takes the same way. */
static void test_sampled(void **state)
{
    int status;
    json_t *json = run("-n 8 --rtt 0 --modes plain,edge --temp 1 --ratio 1:20 --rounds 1", &status);
    assert_int_equal(status, 0);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_int_equal(json_object_size(json_object_get(json, "modes")), 2);
    assert_int_equal(json_object_size(json_object_get(json, "bound")), 0);
    double forward = program_number(json, "forward_ms"), verify = program_number(json, "verify_ms");
    assert_true(verify > 0 && forward > 0 && forward < verify);
    json_decref(json);
}

/* Of the timeline's events of this name: how many there are. Each lies within a mode's time. */
static size_t within_modes(const json_t *events, const char *name)
{
    size_t n = 0, i, k;
    const json_t *e, *mode;
    json_array_foreach(events, i, e)
    {
        bool within = false;
        if (strcmp(json_string_value(json_object_get(e, "name")), name) != 0)
            continue;
        const double ts = program_number(e, "ts");
        json_array_foreach(events, k,
                           mode) if (json_object_get(json_object_get(mode, "args"), "rtt_us"))
            within |= ts >= program_number(mode, "ts") &&
                      ts <= program_number(mode, "ts") + program_number(mode, "dur");
        assert_true(within);
        n++;
    }
    return n;
}

/* The first round of two modes, with the passes of both servers in it; the second is not there. */
static void test_timeline(void **state)
{
    char path[] = "/tmp/ft_timeline_XXXXXX", args[192];
    const int fd = mkstemp(path);
    int status;
    size_t modes_seen = 0, i;
    const json_t *e;
    assert_true(fd >= 0 && close(fd) == 0);
    snprintf(args, sizeof args,
             "-n 8 --rtt 1 --modes server-spec,edge+proactive --draft-ms 0.5 --rounds 2 "
             "--timeline %s",
             path);
    json_t *json = run(args, &status);
    assert_int_equal(status, 0);
    json_t *events = json_load_file(path, 0, NULL);
    assert_non_null(events);
    json_array_foreach(events, i, e) modes_seen +=
        json_object_get(json_object_get(e, "args"), "rtt_us") != NULL;
    assert_int_equal(modes_seen, 2);
    /* of two prompts in each mode */
    assert_true(within_modes(events, "verdict") >= 4 && within_modes(events, "sent") >= 4);
    assert_true(within_modes(events, "draft") > 0 && within_modes(events, "idle") > 0);
    assert_true(within_modes(events, "pass") >= 4);
    assert_true(within_modes(events, "own drafts") > 0);
    json_decref(events);
    json_decref(json);
    unlink(path);
    assert_null(run("-n 8 --timeline /nowhere/x", &status));
    assert_int_equal(status, 1);
}

/* Links with a rate: the texts stay the same, and no text begins before the line has sent its Open,
 * which has at least 14 bytes. */
static void test_rates(void **state)
{
    int status;
    json_t *json = run("-n 6 --rtt 0 --modes plain,edge --draft-ms 0.5 --rounds 1 --up-mbit 0.02 "
                       "--down-mbit 0.1",
                       &status);
    assert_int_equal(status, 0);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_true(program_number(json_object_get(json, "up"), "mbit") == 0.02);
    assert_true(program_number(json_object_get(json, "down"), "mbit") == 0.1);
    const json_t *edge = json_object_get(json_object_get(json, "modes"), "edge");
    const json_t *ttft = json_object_get(json_object_get(edge, "0"), "ttft_ms");
    assert_true(program_number(ttft, "p50") >= 14 * 8 / 0.02 / 1e3);
    json_decref(json);
    json = run("-n 6 --rtt 1 --modes edge --draft-ms 0.5 --rounds 1 --up-steps 0.02,0.1 "
               "--up-step-ms 5 --up-stay 0.7",
               &status);
    assert_int_equal(status, 0);
    assert_true(json_is_true(json_object_get(json, "identical")));
    const json_t *up = json_object_get(json, "up");
    assert_true(program_number(up, "step_ms") == 5 && program_number(up, "stay") == 0.7);
    json_decref(json);
}

/* Two prompts of each category, one category behind the other, and one with a single prompt is left
 * out. */
static void test_by_category(void **state)
{
    int status;
    tiny_pair six = tiny_pair_make("{\"turns\": [\"0 + 3\"], \"category\": \"even\"}\n"
                                   "{\"turns\": [\"1 + 3\"], \"category\": \"odd\"}\n"
                                   "{\"turns\": [\"2 + 3\"], \"category\": \"even\"}\n"
                                   "{\"turns\": [\"3 + 3\"], \"category\": \"odd\"}\n"
                                   "{\"turns\": [\"4 + 3\"], \"category\": \"even\"}\n"
                                   "{\"turns\": [\"5 + 3\"], \"category\": \"odd\"}\n"
                                   "{\"turns\": [\"alpha\"], \"category\": \"alone\"}\n");
    json_t *json = tiny_pair_bench(
        &six, "bench serving", "-n 48 --rtt 1 --draft-ms 0.5 --rounds 1 --per-category 2", &status);
    assert_int_equal(status, 0);
    assert_true(program_number(json, "n_prompts") == 4);
    const json_t *plain = json_object_get(json_object_get(json, "modes"), "plain");
    const json_t *cell = json_object_get(json_object_get(plain, "1"), "categories");
    assert_int_equal(json_object_size(cell), 2);
    assert_true(program_number(json_object_get(cell, "even"), "texts") == 2);
    assert_true(program_number(json_object_get(cell, "odd"), "texts") == 2);
    const json_t *odd = json_object_get(json_object_get(json, "categories"), "odd");
    odd = json_object_get(odd, "1");
    assert_true(program_number(odd, "server_throughput_ratio") > 0);
    assert_true(program_number(odd, "proactive_itl_gain") > -1);
    assert_true(program_number(json_object_get(odd, "itl_ratio"), "edge+pipeline") > 0);
    json_decref(json);
    tiny_pair_remove(&six);
}

static const json_t *setting_of(const json_t *json, size_t i)
{
    const json_t *setting = json_array_get(json_object_get(json, "settings"), i);
    assert_non_null(setting);
    return setting;
}

static double in_cell(const json_t *setting, const char *mode, const char *key)
{
    const json_t *by_rtt = json_object_get(json_object_get(setting, "modes"), mode);
    return program_number(json_object_get(by_rtt, "1"), key);
}

/* Several depths: edges draft as deep as they choose, and exactly each depth. A server's own
 * figures are one measurement, whatever devices do. */
static void test_depths(void **state)
{
    int status;
    json_t *json = run("-n 24 --rtt 1 --rounds 1 --draft-ms 0.5 --draft-depth 1,3 --depth fixed "
                       "--modes server-spec,edge,edge+pipeline --server-depth 2 --price 8:0.5",
                       &status);
    assert_int_equal(status, 0);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_int_equal(json_array_size(json_object_get(json, "settings")), 3);
    const json_t *rule = setting_of(json, 0), *one = setting_of(json, 1),
                 *three = setting_of(json, 2);
    assert_string_equal(json_string_value(json_object_get(rule, "pipeline_depth")), "rule");
    assert_string_equal(json_string_value(json_object_get(three, "pipeline_depth")), "fixed");
    assert_true(program_number(rule, "depth") == 3 && program_number(one, "depth") == 1);
    assert_true(in_cell(one, "edge", "depth") <= 1 && in_cell(three, "edge", "depth") > 1);
    assert_true(in_cell(one, "server-spec", "tokens_per_core_s") ==
                in_cell(three, "server-spec", "tokens_per_core_s"));
    const json_t *chosen = json_array_get(json_object_get(json, "chosen_depths"), 0);
    chosen = json_object_get(json_object_get(chosen, "rtt_ms"), "1");
    const double best = program_number(chosen, "best");
    assert_true(best == 1 || best == 3);
    assert_true(program_number(chosen, "chosen") >= 1 && program_number(chosen, "chosen") <= 3);
    assert_int_equal(json_object_size(json_object_get(chosen, "depths")), 2);
    (void)program_number(chosen, "over_best");
    /* two devices in the pipeline, beside a server of 8 dollars */
    const double tokens = program_number(json_object_get(json, "server_throughput_ratio"), "1");
    const double dollars = program_number(json_object_get(json, "cost_efficiency_ratio"), "1");
    assert_true(tokens > 0 && dollars > 0.999 * tokens * 8 / 9 && dollars < 1.001 * tokens * 8 / 9);
    json_decref(json);
}

/* Batches, devices and shapes in all combinations; of every prompt as many texts in each. */
static void test_sweep(void **state)
{
    int status;
    json_t *json = run("-n 8 --rtt 1 --rounds 1 --draft-ms 0.5,2 --shape tree,chain --depth fixed "
                       "--draft-depth 3 --modes plain,edge",
                       &status);
    assert_int_equal(status, 0);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_int_equal(json_array_size(json_object_get(json, "settings")), 4);
    assert_int_equal(json_array_size(json_object_get(json, "chosen_depths")), 0);
    for (size_t i = 0; i < 4; i++) {
        const json_t *setting = setting_of(json, i);
        const bool chain = i >= 2;
        assert_string_equal(json_string_value(json_object_get(setting, "shape")),
                            chain ? "chain" : "tree");
        assert_true(program_number(setting, "draft_ms") == (i % 2 ? 2 : 0.5));
        assert_true(in_cell(setting, "edge", "texts") == 2);
        assert_true((in_cell(setting, "edge", "nodes_per_tree") <= 3) == chain);
    }
    json_decref(json);
}

/* server-spec is tuned for each batch: it has one of the depths and budgets that were tried. */
static void test_tuned(void **state)
{
    /* trees of 3 nodes, of 1, of 2 */
    static const struct {
        int depth, budget;
    } trees[] = {{1, 3}, {2, 3}, {3, 3}, {1, 1}, {1, 2}, {2, 2}};
    const size_t n_trees = sizeof trees / sizeof *trees;
    int status;
    tiny_pair four = tiny_pair_make("{\"turns\": [\"0 + 3\"]}\n{\"turns\": [\"1 + 3\"]}\n"
                                    "{\"turns\": [\"2 + 3\"]}\n{\"turns\": [\"3 + 3\"]}\n");
    json_t *json = tiny_pair_bench(&four, "bench serving",
                                   "-n 32 --rtt 0 --rounds 1 --draft-ms 0.5 --modes server-spec "
                                   "--spec-draft-n-max 3 --draft-width 2 --batch 1,2",
                                   &status);
    assert_int_equal(status, 0);
    for (size_t i = 0; i < 2; i++) {
        const json_t *spec = json_object_get(setting_of(json, i), "server_spec"), *one;
        const json_t *tried = json_object_get(spec, "tried");
        double most_laps = 0, laps_of_chosen = 0;
        size_t k;
        assert_true(json_is_true(json_object_get(spec, "tuned")));
        assert_int_equal(json_array_size(tried), n_trees);
        json_array_foreach((json_t *)tried, k, one)
        {
            const double laps = program_number(one, "laps");
            assert_true(laps >= 1 && program_number(one, "depth") == trees[k].depth &&
                        program_number(one, "budget") == trees[k].budget);
            most_laps = laps > most_laps ? laps : most_laps;
            if (program_number(one, "depth") == program_number(spec, "depth") &&
                program_number(one, "budget") == program_number(spec, "budget")) {
                laps_of_chosen = laps;
                assert_true(program_number(one, "tokens_per_core_s") > 0);
            }
        }
        assert_true(laps_of_chosen == most_laps && laps_of_chosen >= 4);
    }
    json_decref(json);
    json = tiny_pair_bench(&four, "bench serving",
                           "-n 12 --rtt 0 --rounds 1 --draft-ms 0.5 --modes server-spec "
                           "--spec-draft-n-max 1",
                           &status);
    assert_int_equal(status, 0); /* there is nothing to choose from */
    json_decref(json);
    tiny_pair_remove(&four);
}

/* A predictor that gives every token even odds, of which it lets `least` pass. */
static char *even_predictor(float least)
{
    const ft_mlp_shape shape = {2, {FT_FEATURES, 1, 1}};
    ft_predictor p = {.least = least};
    ft_error err = {0};
    char *path = tiny_temp_path();
    assert_int_equal(ft_mlp_init(&shape, &err, &p.mlp), FT_OK);
    memset(p.mlp.weight[0], 0, ft_mlp_n_params(&shape) * sizeof(float));
    for (size_t i = 0; i < FT_FEATURES; i++)
        p.scale[i] = 1;
    json_t *json = ft_predictor_json(&p);
    assert_int_equal(json_dump_file(json, path, 0), 0);
    json_decref(json);
    ft_predictor_deinit(&p);
    return path;
}

/* Lookups draft without a model, and beside it: also of a device that drafts for nothing. */
static void test_lookups(void **state)
{
    static const char *const names[] = {"edge", "edge+lookup", "edge+both"};
    int status;
    json_t *json = run("-n 24 --rtt 0 --rounds 1 --draft-ms 0.5 --draft-depth 3 --depth fixed "
                       "--modes edge,edge+lookup,edge+both",
                       &status);
    assert_int_equal(status, 0);
    const json_t *by_mode = json_object_get(json, "modes");
    for (size_t m = 0; m < 3; m++) {
        const json_t *cell = json_object_get(json_object_get(by_mode, names[m]), "0");
        const double per_verdict = program_number(cell, "tokens_per_verdict");
        const double per_tree = program_number(cell, "tokens_per_verify");
        assert_true(json_is_true(json_object_get(cell, "identical")));
        assert_true(program_number(cell, "nodes_per_tree") > 0);
        assert_true(per_verdict >= 1 && per_verdict <= per_tree);
        /* Not everything is found: a model drafts for every verdict but the first. */
        assert_true(m != 1 || program_number(cell, "run_token_share") > 0);
    }
    json_decref(json);
}

/* A prediction that is another text's changes no text; no draft model is needed for it. */
static void test_misled(void **state)
{
    int status;
    /* long enough that windows open while they are written, on a busy machine, too */
    json_t *json = run("-n 120 --rtt 0 --rounds 1 --modes plain,edge+misled", &status);
    assert_int_equal(status, 0);
    const json_t *by_mode = json_object_get(json, "modes");
    const json_t *cell = json_object_get(json_object_get(by_mode, "edge+misled"), "0");
    const double predicted = program_number(cell, "predicted_per_text");
    assert_true(json_is_true(json_object_get(cell, "identical")));
    assert_true(predicted > 0 && program_number(cell, "predicted_came_per_text") <= predicted);
    assert_true(program_number(cell, "replay_misses") == 0);
    const json_t *speedup = json_object_get(json_object_get(json, "speedup"), "edge+misled");
    assert_true(program_number(speedup, "0") > 0);
    json_decref(json);
}

/* With and without a predictor, by numbers of devices, in one run. One that lets all pass changes
 * nothing that is drafted, one that lets nothing pass does. */
static void test_predictor(void **state)
{
    tiny_pair four = tiny_pair_make("{\"turns\": [\"0 + 3\"]}\n{\"turns\": [\"1 + 3\"]}\n"
                                    "{\"turns\": [\"2 + 3\"]}\n{\"turns\": [\"3 + 3\"]}\n");
    for (int passes = 0; passes < 2; passes++) {
        char *predictor = even_predictor(passes ? -1 : 1), args[300];
        int status;
        snprintf(args, sizeof args,
                 "-n 12 --rtt 1 --rounds 1 --draft-ms 0.5 --modes edge,edge+predictor --batch 1,2 "
                 "--shape chain --draft-depth 3 --depth fixed --predictor '%s'",
                 predictor);
        json_t *json = tiny_pair_bench(&four, "bench serving", args, &status);
        assert_int_equal(status, 0);
        const json_t *rows = json_object_get(json, "predictor_by_devices");
        assert_int_equal(json_array_size(rows), 2);
        for (size_t i = 0; i < 2; i++) {
            const json_t *row = json_array_get(rows, i);
            const json_t *at = json_object_get(json_object_get(row, "rtt_ms"), "1");
            const json_t *acceptance = json_object_get(at, "acceptance");
            assert_true(program_number(row, "devices") == (double)(1 + i));
            assert_true(program_number(json_object_get(at, "tokens_per_core_s"), "on") > 0);
            (void)program_number(at, "goodput_gain");
            assert_true(program_number(at, "goodput_bound") > 0);
            const bool same = program_number(acceptance, "off") == program_number(acceptance, "on");
            assert_int_equal(same, passes);
            assert_true(!passes || program_number(at, "acceptance_gain") == 0);
        }
        json_decref(json);
        unlink(predictor);
        free(predictor);
    }
    tiny_pair_remove(&four);
}

/* A target that is read from disk in every pass, also beside a draft model on the server. */
static void test_memory(void **state)
{
    static const char how[] = "--modes plain,server-spec,edge --server-depth 2 -n 12 --rtt 1 "
                              "--rounds 1 --draft-ms 0.5 --spec-draft-n-max 4";
    tiny_pair large = tiny_pair_make_large("{\"prompt\": \"alpha beta\"}\n"
                                           "{\"prompt\": \"gamma\"}\n");
    char args[300];
    long memory;
    int status;
    snprintf(args, sizeof args, "%s --server-draft '%s'", how, large.draft);
    json_t *json = tiny_pair_bench_memory(&large, "bench serving", args, &memory);
    assert_true(json_is_true(json_object_get(json, "identical")));
    assert_true(in_cell(json, "server-spec", "read_mb_per_pass") > 0);
    json_decref(json);
    assert_null(
        tiny_pair_bench(&large, "bench serving", "--memory 1G --modes plain,layer-split", &status));
    assert_int_equal(status, 2);
    tiny_pair_remove(&large);
}

/* Layers on another machine, behind a line: every token is at least a round trip. */
static void test_layer_split(void **state)
{
    int status;
    json_t *json =
        run("-n 12 --rtt 0,4 --rounds 1 --draft-ms 0.5 --modes plain,layer-split,edge", &status);
    if (status != 0) {
        tiny_pair no = pair;
        program_refuses("RPC", "bench serving -m '%s' -md '%s' --prompts '%s' --modes layer-split",
                        no.target, no.draft, no.prompts);
        skip(); /* this ggml has no RPC, and says so */
    }
    const json_t *split = json_object_get(json_object_get(json, "modes"), "layer-split");
    const json_t *slow = json_object_get(split, "4");
    assert_true(program_number(slow, "line_answers_per_token") >= 1);
    assert_true(program_number(slow, "line_bytes_per_token") > 128 * 4); /* a hidden state */
    assert_true(program_number(json_object_get(slow, "itl_ms"), "mean") >= 4);
    assert_true(program_number(slow, "tokens_per_verify") == 1);
    const json_t *ratio = json_object_get(json, "layer_split_itl_ratio");
    (void)program_number(json_object_get(ratio, "edge"), "4");
    json_decref(json);
}

static void test_refusals(void **state)
{
    static const char *const args[] = {"--modes plain,fast",
                                       "--batch 1,0",
                                       "--batch 1,2", /* two prompts are too few */
                                       "--draft-depth 65",
                                       "--draft-depth 3,",
                                       "--draft-ms 1,x",
                                       "--shape trees",
                                       "--server-depth 0",
                                       "--server-depth 2,3",
                                       "--server-depth fast",
                                       "--price 4",
                                       "--price 4:",
                                       "--price 0:1",
                                       "--price a100:rtx4090",
                                       "--price 4:-1",
                                       "--plot x.gif",
                                       "--modes plain,",
                                       "--modes ''",
                                       "--rtt 1,",
                                       "--rtt -1",
                                       "--rtt 0,x",
                                       "--rtt ''",
                                       "--ratio 11",
                                       "--batch 2",
                                       "--max-prompt 8",
                                       "--up-steps 2",
                                       "--up-steps 2,0",
                                       "--up-steps 2,6 --up-mbit 1",
                                       "--limit 1 --modes plain,edge+misled"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int status;
        json_t *json = run(args[i], &status);
        if (status == 0)
            fail_msg("accepted: %s", args[i]);
        assert_null(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_modes),   cmocka_unit_test(test_sampled),
        cmocka_unit_test(test_by_category), cmocka_unit_test(test_rates),
        cmocka_unit_test(test_depths),      cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_tuned),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_lookups),     cmocka_unit_test(test_misled),
        cmocka_unit_test(test_predictor),   cmocka_unit_test(test_layer_split),
        cmocka_unit_test(test_timeline),    cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
