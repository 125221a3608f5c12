// SPDX-License-Identifier: Apache-2.0
// The program's `fit verify-time` on a tiny model: what its JSON has, which time of a batch counts,
// that its file is one that others read, and that a seed draws the same batches. Nothing is said
// about how well a model of passes of some microseconds fits.
#include <setjmp.h>
#include <stdarg.h>
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

static json_t *fit(const char *more)
{
    int status;
    json_t *json = program_json(&status,
                                "fit verify-time -m '%s' -t 1 --ctx 64 --rows 64 --sessions 4 "
                                "--batches %d --unseen %d --runs %d --json %s",
                                model, BATCHES, UNSEEN, RUNS, more);
    assert_int_equal(status, 0);
    assert_non_null(json);
    return json;
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
    assert_true(taken(path));
    json_object_del(json_object_get(json, "us"), "head"); /* as an older program wrote it */
    assert_int_equal(json_dump_file(json, path, 0), 0);
    assert_false(taken(path));
    json_decref(json);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_report), cmocka_unit_test(test_seed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
