// SPDX-License-Identifier: Apache-2.0
// The program's `fit verify-time` and `fit runtime` on a tiny model: what their JSON has, which
// time of a batch counts, that the file is one that others read, and that a seed draws the same
// batches. Nothing is said about how well a model of passes of some microseconds fits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

#define BATCHES 30
#define UNSEEN  15
#define RUNS    2 /* where not said otherwise */

static char *model;

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0, .n_layer = 2, .seed = 3};
    (void)state;
    model = tiny_gguf_temp(&opts);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model);
    free(model);
    return 0;
}

static json_t *fit_by(const char *command, const char *more)
{
    int status;
    json_t *json = program_json(&status,
                                "fit %s -m '%s' -t 1 --ctx 64 --rows 64 --sessions 4 --batches %d "
                                "--unseen %d --runs %d --json %s",
                                command, model, BATCHES, UNSEEN, RUNS, more);
    assert_int_equal(status, 0);
    assert_non_null(json);
    return json;
}

static json_t *fit(const char *more)
{
    return fit_by("verify-time", more);
}

/* Microseconds of a batch by the factors that were found. */
static double cost_of(const json_t *report, const json_t *batch)
{
    const json_t *us = json_object_get(report, "us");
    return program_number(us, "pass") + program_number(us, "row") * program_number(batch, "rows") +
           program_number(us, "logits_row") * program_number(batch, "logits_rows") +
           program_number(us, "interaction") * program_number(batch, "interactions") +
           program_number(us, "cached_tok") * program_number(batch, "cached_tok") +
           program_number(us, "head") * (program_number(batch, "logits_rows") > 0);
}

static void check_batches(const json_t *json)
{
    size_t i, n_fitted = 0, n_few = 0;
    json_t *batch;
    assert_int_equal(json_array_size(json_object_get(json, "batches")), BATCHES + UNSEEN);
    json_array_foreach(json_object_get(json, "batches"), i, batch)
    {
        const json_t *runs = json_object_get(batch, "runs_ms");
        double least = INFINITY, ms = program_number(batch, "ms");
        for (size_t k = 0; k < json_array_size(runs); k++)
            least = fmin(least, json_number_value(json_array_get(runs, k)));
        assert_in_range(json_array_size(runs), RUNS, 2 * RUNS);
        assert_true(ms > 0 && fabs(ms / least - 1) < 1e-6);
        assert_true(fabs(program_number(batch, "predicted_ms") * 1e3 - cost_of(json, batch)) <
                    1e-6 * cost_of(json, batch) + 1e-6);
        assert_in_range(program_number(batch, "rows"), 1, 64);
        assert_in_range(program_number(batch, "sequences"), 1, 4);
        n_fitted += json_is_true(json_object_get(batch, "fitted"));
        n_few += program_number(batch, "rows") <= 8;
    }
    assert_int_equal(n_fitted, BATCHES);
    assert_in_range(n_few, 4, BATCHES); /* small batches are as frequent as large ones */
    assert_true(program_number(json, "noise") >= 0);
    assert_true(program_number(json, "r2") <= 1 && program_number(json, "mape") >= 0);
}

/* The part of a batch's predicted time that a cost makes. */
static double part_of(const json_t *report, const json_t *batch, const char *cost)
{
    static const char *const of[][2] = {{"row", "rows"},
                                        {"logits_row", "logits_rows"},
                                        {"interaction", "interactions"},
                                        {"cached_tok", "cached_tok"}};
    const double us = program_number(json_object_get(report, "us"), cost);
    double factor = strcmp(cost, "head") != 0 || program_number(batch, "logits_rows") > 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        factor = strcmp(cost, of[i][0]) == 0 ? program_number(batch, of[i][1]) : factor;
    return us * factor / cost_of(report, batch);
}

/* Of each regime: the shares are those of its batches, and together all of the time. */
static void check_shares(const json_t *json)
{
    static const char *const regimes[] = {"compute", "memory", "mixed"};
    for (size_t r = 0; r < 3; r++) {
        const json_t *it = json_object_get(json_object_get(json, "shares_by_regime"), regimes[r]);
        const json_t *shares = json_object_get(it, "share"), *share, *batch;
        double sum = 0, largest = 0;
        const char *cost;
        json_object_foreach((json_t *)shares, cost, share)
        {
            double mean = 0, n = 0;
            size_t i;
            json_array_foreach(json_object_get(json, "batches"), i, batch)
            {
                if (strcmp(json_string_value(json_object_get(batch, "regime")), regimes[r]) != 0)
                    continue;
                mean += part_of(json, batch, cost);
                n++;
            }
            assert_true(n > 0 && n == program_number(it, "passes"));
            assert_float_equal(json_number_value(share), mean / n, 1e-6);
            sum += json_number_value(share);
            largest += program_number(json_object_get(it, "largest"), cost);
        }
        assert_float_equal(sum, 1, 1e-6);
        assert_true(largest == program_number(it, "passes"));
    }
}

static void test_seed(void **state)
{
    static const char *const shape[] = {"rows", "logits_rows", "interactions", "cached_tok"};
    json_t *all[3] = {fit("--seed 5 --runs 1"), fit("--seed 5 --runs 1"), fit("--seed 6 --runs 1")};
    size_t n_other = 0;
    (void)state;
    for (size_t i = 0; i < BATCHES + UNSEEN; i++)
        for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
            double x[3];
            for (size_t j = 0; j < 3; j++)
                x[j] =
                    program_number(json_array_get(json_object_get(all[j], "batches"), i), shape[k]);
            assert_true(x[0] == x[1]);
            n_other += x[0] != x[2];
        }
    assert_true(n_other > BATCHES);
    for (size_t j = 0; j < 3; j++)
        json_decref(all[j]);
}

/* Whether another command takes a file of costs. */
static int taken(const char *path)
{
    int status;
    json_decref(program_json(&status,
                             "simulate wisp --config '%s/sim/wisp-paper-32b.json' --costs '%s' "
                             "--devices 1 --seconds 1 --mode wisp --json",
                             getenv("FT_SOURCE_DIR"), path));
    return status == 0;
}

static void test_report(void **state)
{
    char *path = tiny_temp_path(), more[512];
    (void)state;
    snprintf(more, sizeof more, "-o '%s'", path);
    json_t *json = fit(more);
    check_batches(json);
    check_shares(json);
    assert_true(taken(path));
    json_object_del(json_object_get(json, "us"), "head"); /* as an older program wrote it */
    assert_int_equal(json_dump_file(json, path, 0), 0);
    assert_false(taken(path));
    json_decref(json);
    unlink(path);
    free(path);
}

/* ---- fit runtime ---- */

static double at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* The first pass of a task has its prompt in it, later ones read it; each task has 1 row with
 * logits in a draft, 2 to 11 in a verification. The operations of (17) are those of the longest
 * task: all tasks together have at most as many, and of one task they are exact (Zhu et al., (13),
 * (14); h1 and h2 are those of the tiny model). */
static void check_step(const json_t *json, const json_t *batch, bool verify)
{
    const double tasks = program_number(batch, "sequences"), rows = program_number(batch, "rows"),
                 out = program_number(batch, "logits_rows"),
                 cached = program_number(batch, "cached_tok"),
                 padded = program_number(batch, "padded_operations"),
                 h1 = program_number(json, "h1"), h2 = program_number(json, "h2");
    const bool first = strcmp(json_string_value(json_object_get(batch, "step")), "first") == 0;
    const double c1 = program_number(json, "c1_s_per_operation"), c2 = program_number(json, "c2_s");
    const double n = rows / tasks, k = cached / tasks;
    const double mean = 4 * program_number(json, "layers") * h1 * rows * (2 * h1 + k + n + h2);
    assert_true(out == tasks * floor(out / tasks));
    assert_true(verify ? out >= 2 * tasks && out <= 11 * tasks : out == tasks);
    assert_true(first ? cached == 0 && rows >= out : cached >= tasks && rows == out);
    assert_true(tasks == 1 ? fabs(padded / mean - 1) < 1e-9 : padded >= mean * (1 - 1e-9));
    assert_true(fabs(program_number(batch, "predicted_ms") / 1e3 - (c1 * padded + c2)) <
                1e-6 * (c1 * padded + c2) + 1e-12);
    assert_true(fabs(program_number(batch, "predicted_ms_six") * 1e3 -
                     cost_of(json_object_get(json, "six"), batch)) <
                1e-6 * program_number(batch, "predicted_ms_six") * 1e3 + 1e-6);
}

static void check_runtime(const char *role, bool verify)
{
    char more[64];
    size_t i, n_first = 0, n_padded = 0;
    json_t *batch;
    snprintf(more, sizeof more, "--role %s", role);
    json_t *json = fit_by("runtime", more);
    const json_t *interval = json_object_get(json, "interval_95"),
                 *c1 = json_object_get(interval, "c1_s_per_operation"),
                 *c2 = json_object_get(interval, "c2_s");
    assert_string_equal(json_string_value(json_object_get(json, "role")), role);
    assert_true(at(c1, 0) <= at(c1, 1) && at(c2, 0) <= at(c2, 1));
    assert_true(program_number(json, "c1_s_per_operation") >= 0);
    assert_true(program_number(json, "c2_s") >= 0 && program_number(json, "r2") <= 1);
    assert_true(program_number(json_object_get(json, "six"), "r2") <= 1);
    assert_int_equal(json_array_size(json_object_get(json, "batches")), BATCHES + UNSEEN);
    json_array_foreach(json_object_get(json, "batches"), i, batch)
    {
        check_step(json, batch, verify);
        n_first += strcmp(json_string_value(json_object_get(batch, "step")), "first") == 0;
        n_padded += program_number(batch, "sequences") > 1;
    }
    assert_int_equal(n_first, BATCHES / 2 + (UNSEEN + 1) / 2);
    assert_in_range(n_padded, 5, BATCHES + UNSEEN - 5); /* some tasks alone, some not */
    json_decref(json);
}

static void test_runtime(void **state)
{
    int status;
    (void)state;
    check_runtime("draft", false);
    check_runtime("verify", true);
    json_decref(program_json(&status, "fit runtime -m '%s' --json", model)); /* which role? */
    assert_int_equal(status, 2);
    json_decref(program_json(&status, "fit runtime -m '%s' --role server --json", model));
    assert_int_equal(status, 2);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_report), cmocka_unit_test(test_seed),
                                       cmocka_unit_test(test_runtime)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
