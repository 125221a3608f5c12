// SPDX-License-Identifier: Apache-2.0
// bench ablate: what its mechanisms name exists, its rows hold what they should, and the program's
// constants are as they were.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/ablate.h"
#include "bench/ablate_cases.h"
#include "sched/tuning.h"
#include "spec/tuning.h"
#include "support/tiny_pair.h"

static const char *config(void)
{
    static char path[4096];
    const char *root = getenv("FT_SOURCE_DIR");
    assert_non_null(root);
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", root);
    return path;
}

static bool has(const ft_tuning_table *t, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        if (strlen(t->items[i].name) == n && strncmp(t->items[i].name, name, n) == 0)
            return true;
    return false;
}

static void test_mechanisms(void **state)
{
    (void)state;
    for (size_t i = 0; i < ft_ablate_n_mechanisms; i++) {
        const ft_ablate_mechanism *m = &ft_ablate_mechanisms[i];
        const ft_tuning_table *t =
            strcmp(m->room, "spec") == 0 ? &ft_spec_tuning_table : &ft_sched_tuning_table;
        assert_string_equal(m->room, t->room);
        for (const char *at = m->off; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            const size_t n = strcspn(at, "=");
            char *end;
            if (!has(t, at, n))
                fail_msg("%s: no constant %s", m->name, at);
            (void)strtod(at + n + 1, &end);
            assert_true(*end == ',' || *end == 0);
        }
    }
}

static double number(const json_t *row, const char *key)
{
    assert_true(json_is_number(json_object_get(row, key)));
    return json_number_value(json_object_get(row, key));
}

/* The caller frees the report. */
static json_t *report_of(const ft_bench_ablate_opts *opts)
{
    ft_error err = {0};
    json_t *report = NULL;
    if (ft_bench_ablate(opts, &err, &report) != FT_OK)
        fail_msg("%s", err.message);
    return report;
}

static const json_t *row_of(const json_t *report, size_t i, const char *figure)
{
    const json_t *row = json_array_get(json_object_get(report, "rows"), i);
    assert_string_equal(json_string_value(json_object_get(row, "figure")), figure);
    return row;
}

/* Without a lead over their promises many texts are late. */
static void test_rows(void **state)
{
    const ft_bench_ablate_opts opts = {
        .config = config(), .only = "sched.promise.lead", .conditions = "sim fastest", .lives = 4};
    ft_error err = {0};
    json_t *report = NULL, *rows, *row;
    (void)state;
    assert_int_equal(ft_bench_ablate(&opts, &err, &report), FT_OK);
    assert_int_equal(json_array_size(json_object_get(report, "conditions")), 1);
    rows = json_object_get(report, "rows");
    assert_int_equal(json_array_size(rows), 2); /* tokens/s, texts on time */
    row = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(row, "room")), "sched");
    assert_string_equal(json_string_value(json_object_get(row, "group")), "promise");
    assert_string_equal(json_string_value(json_object_get(row, "name")), "lead");
    assert_string_equal(json_string_value(json_object_get(row, "change")), "off");
    assert_string_equal(json_string_value(json_object_get(row, "figure")), "texts_on_time");
    assert_true(number(row, "changed") < number(row, "baseline"));
    assert_true(number(row, "low") < number(row, "effect_percent"));
    assert_true(number(row, "effect_percent") < number(row, "high"));
    assert_true(number(row, "high") < -10);
    assert_true(json_is_true(json_object_get(row, "keep")));
    json_decref(report);
    assert_ptr_equal(ft_spec_tune, ft_spec_tuning_table.values);
    assert_ptr_equal(ft_sched_tune, ft_sched_tuning_table.values);
}

/* Passes that take four times as long spoil predictions if all passes count alike. The part's
 * conditions are tried for its own constants alone. */
static void test_part(void **state)
{
    ft_bench_ablate_opts opts = {
        .only = "sched.cost.outliers,sched.gain", .conditions = "fit spikes", .lives = 8};
    (void)state;
    json_t *report = report_of(&opts);
    assert_int_equal(json_array_size(json_object_get(report, "rows")), 1);
    const json_t *row = row_of(report, 0, "accuracy");
    assert_in_range(100 * number(row, "baseline"), 80, 99);
    assert_true(number(row, "high") < 0);
    json_decref(report);
}

/* Without admission's limit, most texts of too many devices are late. */
static void test_admission(void **state)
{
    const ft_bench_ablate_opts opts = {
        .config = config(), .only = "sched.admit.load", .conditions = "asked fastest", .lives = 4};
    (void)state;
    json_t *report = report_of(&opts);
    const json_t *row = row_of(report, 0, "kept_tokens_per_s");
    assert_string_equal(json_string_value(json_object_get(row, "name")), "load");
    assert_true(number(row, "high") < -10);
    json_decref(report);
}

/* If only the last pass counts, the least served tenant gets less. */
static void test_tenants(void **state)
{
    const ft_bench_ablate_opts opts = {
        .only = "sched.fair.memory", .conditions = "fair rows", .lives = 8};
    (void)state;
    json_t *report = report_of(&opts);
    const json_t *row = row_of(report, 0, "least_share");
    assert_in_range(100 * number(row, "baseline"), 45, 75);
    assert_true(number(row, "high") < -5);
    json_decref(report);
}

/* Good drafts are worth less if nobody learns that they are good. */
static void test_heads(void **state)
{
    ft_bench_ablate_opts opts = {
        .only = "sched.heads.walks learnt", .conditions = "head good", .lives = 8};
    (void)state;
    json_t *report = report_of(&opts);
    assert_int_equal(json_array_size(json_object_get(report, "rows")), 1);
    const json_t *row = row_of(report, 0, "tokens_per_s");
    assert_true(number(row, "high") < 0);
    json_decref(report);
}

static double own_tokens_per_s(double right, double forward_us, bool plain)
{
    const ft_ablate_own_load load = {
        .plain = plain,
        .s = 30,
        .sessions = 2,
        .prompt_tok = 100,
        .text_tok = 200,
        .right = right,
        .cost_us = {[FT_COST_PASS] = 18000, [FT_COST_ROW] = 500, [FT_COST_CACHED_TOK] = 0.3},
        .forward_us = forward_us};
    double sum = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        ft_error err = {0};
        double figure;
        assert_int_equal(ft_ablate_own(&load, seed, &err, &figure), FT_OK);
        sum += figure;
    }
    return sum / 4;
}

/* The server's own drafts make tokens faster, or are given up: then only tries cost something, at a
 * server's start above all. */
static void test_own_drafts(void **state)
{
    const ft_sched_tuning *before = ft_sched_tune;
    ft_sched_tuning always = *before;
    (void)state;
    always.own.verdicts = UINT32_MAX;
    const double poor = own_tokens_per_s(0.1, 9000, false);
    assert_true(own_tokens_per_s(0.8, 5000, false) > 1.3 * own_tokens_per_s(0.8, 5000, true));
    assert_true(poor > 0.95 * own_tokens_per_s(0.1, 9000, true));
    ft_sched_tune = &always;
    assert_true(own_tokens_per_s(0.1, 9000, false) < 0.9 * poor);
    ft_sched_tune = before;
}

static const char prompts[] = "{\"prompt\": \"one two three\"}\n"
                              "{\"prompt\": \"four five\"}\n";

/* Edges choose nearly as well as whoever knows the best fixed draft of each text. An edge that
 * expects nothing of drafts is as slow as plain decoding. Here drafts are mostly right. */
static void test_regret(void **state)
{
    const ft_spec_tuning *before = ft_spec_tune;
    ft_spec_tuning never = *before;
    tiny_pair pair = tiny_pair_make(prompts);
    const ft_bench_ablate_opts opts = {.target = pair.target,
                                       .draft = pair.draft,
                                       .prompts = pair.prompts,
                                       .conditions = "agree",
                                       .texts = 2,
                                       .tokens = 64,
                                       .lives = 4,
                                       .threads = 1,
                                       .regret = true};
    (void)state;
    json_t *report = report_of(&opts);
    const json_t *rows = json_object_get(report, "rows"), *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(row, "condition")), "agree");
    const double ours = number(row, "default"), best = number(row, "best_tokens_per_s"),
                 plain = number(json_object_get(row, "fixed"), "plain");
    assert_true(best > 2 * plain);
    assert_true(number(row, "regret") < 0.1);
    assert_true(number(row, "regret") > best / ours - 1.001); /* each text has its own best */
    json_decref(report);
    never.modes.enter = 1e9;
    never.accept.miss_prior = 1;
    never.accept.prior_count = 1e9;
    ft_spec_tune = &never;
    report = report_of(&opts);
    ft_spec_tune = before;
    row = json_array_get(json_object_get(report, "rows"), 0);
    assert_true(number(row, "default") < 1.1 * plain);
    assert_true(number(row, "regret") > 1);
    json_decref(report);
    tiny_pair_remove(&pair);
}

static void test_nothing_to_do(void **state)
{
    ft_bench_ablate_opts opts = {.lives = 4};
    ft_error err = {0};
    json_t *report = NULL;
    (void)state;
    opts.conditions = "sim fastest"; /* needs a config */
    assert_int_equal(ft_bench_ablate(&opts, &err, &report), FT_INVALID);
    opts.config = config();
    opts.conditions = "sim fast"; /* a part of a name is no name */
    assert_int_equal(ft_bench_ablate(&opts, &err, &report), FT_INVALID);
    assert_null(report);
    opts.conditions = NULL;
    opts.only = "no such constant";
    assert_int_equal(ft_bench_ablate(&opts, &err, &report), FT_INVALID);
    assert_non_null(strstr(err.message, "no such constant"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mechanisms),    cmocka_unit_test(test_rows),
        cmocka_unit_test(test_part),          cmocka_unit_test(test_admission),
        cmocka_unit_test(test_own_drafts),    cmocka_unit_test(test_heads),
        cmocka_unit_test(test_tenants),       cmocka_unit_test(test_regret),
        cmocka_unit_test(test_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
