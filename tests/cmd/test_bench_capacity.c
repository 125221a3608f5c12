// SPDX-License-Identifier: Apache-2.0
// `foretoken bench capacity` as a program, on tiny models and two devices at most: every way to
// serve writes the target's text, a speed that nobody can promise is held by nobody, its JSON has
// what readers of its figures ask for. How many devices are held is not looked at: who else is on
// the machine decides that.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/program.h"
#include "support/tiny_pair.h"

static const char *const policies[] = {"wisp", "edf", "fcfs", "sled", "static", "centralized"};
#define N_POLICIES (sizeof policies / sizeof *policies)
static tiny_pair pair;

static int set_up(void **state)
{
    pair = tiny_pair_make("{\"turns\": [\"alpha beta\"], \"category\": \"letters\"}\n"
                          "{\"turns\": [\"12 + 30\"], \"category\": \"math\"}\n"
                          "{\"prompt\": \"gamma\"}\n");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return tiny_pair_bench(&pair, "bench capacity", args, status);
}

static void check_probe(const json_t *probe, double most)
{
    static const char *const keys[] = {"tokens_per_s", "server_busy_share", "driver_cpu_share",
                                       "rows_a_pass",  "tokens_a_verify",   "acceptance",
                                       "seconds",      "replay_misses",     "refused"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)program_number(probe, keys[i]);
    double n = program_number(probe, "devices"), texts = program_number(probe, "texts"),
           slow = program_number(probe, "slow"), rate = program_number(probe, "violation_rate");
    assert_true(n >= 1 && n <= most && slow <= texts && rate >= 0 && rate <= 1);
    if (texts > 0)
        assert_float_equal(rate, slow / texts, 1e-9);
    const double behind = program_number(probe, "violation_rate_from_first");
    assert_true(behind >= 0 && behind <= 1);
    assert_true(program_number(probe, "mismatches") == 0);
}

static void test_all_policies(void **state)
{
    int status;
    json_t *json = run("--slo 40 --probe-s 0.2 -n 8 --devices-most 2 --rtt 2 --draft-ms 0.2 "
                       "--draft 3 --draft-fixed 2 --mixed",
                       &status);
    assert_int_equal(status, 0);
    assert_non_null(json);
    const json_t *capacity = json_object_get(json, "capacity"),
                 *goodput = json_object_get(json, "goodput"),
                 *ratio = json_object_get(json, "ratio"),
                 *bound = json_object_get(json, "lower_bound"),
                 *probes = json_object_get(json, "probes");
    for (size_t i = 0; i < N_POLICIES; i++) {
        static const char *const classes[] = {"40", "mixed"};
        for (size_t k = 0; k < 2; k++) {
            const json_t *of = json_object_get(capacity, policies[i]);
            double n = program_number(of, classes[k]);
            double speed = program_number(json_object_get(goodput, policies[i]), classes[k]);
            assert_true(n >= 0 && n <= 2 && (n == 0 || speed > 0));
            assert_true(
                json_is_boolean(json_object_get(json_object_get(bound, policies[i]), classes[k])));
        }
        assert_int_equal(json_object_size(json_object_get(ratio, policies[i])), i ? 2 : 0);
    }
    assert_true(json_array_size(probes) >= 2 * N_POLICIES);
    const json_t *beside = json_object_get(json, "ratio_bound");
    if (beside) { /* passes had different rows; no ratio is below that of no drafts at all */
        const json_t *of = json_object_get(json_object_get(beside, "by_class"), "mixed");
        assert_true(program_number(beside, "pass_ms") >= 0);
        assert_true(json_is_null(json_object_get(of, "ratio")) ||
                    program_number(of, "ratio") >= 1 - 1e-9);
    }
    assert_true(program_number(json_object_get(json_object_get(json, "paper"), "sled"), "mixed") >
                3);
    for (size_t i = 0; i < json_array_size(probes); i++) {
        check_probe(json_array_get(probes, i), 2);
        assert_true(program_number(json_array_get(probes, i), "read_mb_a_pass") == 0);
    }
    assert_true(json_is_null(json_object_get(json, "memory")));
    json_decref(json);
}

/* Nobody holds it, whoever asks for a promise is told so or is late, and the search ends. */
static void test_too_fast(void **state)
{
    int status;
    json_t *json = run("--slo 1000000 --policies wisp,centralized --probe-s 0.3 -n 8 "
                       "--devices-most 2 --temp 1 --draft auto",
                       &status);
    assert_int_equal(status, 0);
    const json_t *capacity = json_object_get(json, "capacity");
    assert_true(program_number(json_object_get(capacity, "wisp"), "1e+06") == 0);
    assert_true(program_number(json_object_get(capacity, "centralized"), "1e+06") == 0);
    assert_true(json_is_null(
        json_object_get(json_object_get(json_object_get(json, "ratio"), "centralized"), "1e+06")));
    json_decref(json);
}

/* Every way has a curve for each class, whose points are probes; and wisp's rounds a plane. */
static void test_sweep(void **state)
{
    int status;
    size_t i, n_points = 0;
    const char *way, *name;
    const json_t *by_class, *curve;
    json_t *json = run("--slo 20,40 --mixed-only --policies wisp,centralized --probe-s 0.2 -n 8 "
                       "--devices-most 3 --rtt 2 --draft-ms 0.2 --draft 3 --sweep",
                       &status);
    assert_int_equal(status, 0);
    const json_t *sweep = json_object_get(json, "sweep"), *plane = json_object_get(json, "plane"),
                 *probes = json_object_get(json, "probes"), *point;
    assert_int_equal(json_object_size(sweep), 2);
    json_object_foreach((json_t *)sweep, way, by_class)
    {
        assert_int_equal(json_object_size(by_class), 1);
        json_object_foreach((json_t *)by_class, name, curve)
        {
            const json_t *held = json_object_get(json_object_get(json, "capacity"), way);
            const size_t n = json_array_size(json_object_get(curve, "devices"));
            assert_true(program_number(curve, "capacity") == program_number(held, name));
            assert_true(n >= 1 && json_array_size(json_object_get(curve, "violation_rate")) == n);
            n_points += n;
        }
    }
    assert_true(json_array_size(probes) > n_points);
    for (i = 0; i < json_array_size(probes); i++)
        assert_int_equal(
            json_object_size(json_object_get(json_array_get(probes, i), "late_rounds")), 4);
    if (plane) { /* not where wisp holds all that may be tried */
        assert_true(program_number(plane, "rounds") > 0);
        json_array_foreach(json_object_get(plane, "queue_verify_class_late"), i, point)
        {
            const double speed = json_number_value(json_array_get(point, 2));
            assert_true(speed == 20 || speed == 40);
        }
    }
    json_decref(json);
}

/* A target that each server reads from disk in every pass: the texts are the same, and every pass
 * reads. */
static void test_memory(void **state)
{
    static const char how[] = "--policies wisp,centralized --slo 2 --probe-s 0.3 -n 8 "
                              "--devices-most 1 --draft 2";
    tiny_pair large = tiny_pair_make_large("{\"prompt\": \"alpha beta\"}\n"
                                           "{\"prompt\": \"gamma\"}\n");
    long memory;
    json_t *json = tiny_pair_bench_memory(&large, "bench capacity", how, &memory);
    assert_int_equal(atol(json_string_value(json_object_get(json, "memory"))), memory);
    const json_t *probes = json_object_get(json, "probes");
    assert_true(json_array_size(probes) >= 2);
    for (size_t i = 0; i < json_array_size(probes); i++) {
        check_probe(json_array_get(probes, i), 1);
        assert_true(program_number(json_array_get(probes, i), "read_mb_a_pass") > 0);
    }
    json_decref(json);
    tiny_pair_remove(&large);
}

static void test_refusals(void **state)
{
    static const char *const args[] = {"--policies wisp,fast",
                                       "--policies wisp,",
                                       "--slo 2,,4",
                                       "--slo 0x2",
                                       "--slo inf",
                                       "--slo 0",
                                       "--policies ''",
                                       "--slo 2,x",
                                       "--slo ''",
                                       "--draft -3",
                                       "--predictor auto",
                                       "--epsilon 2",
                                       "--devices-most 0",
                                       "--mixed-only --plot x.svg",
                                       "--temp -1"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int status;
        json_t *json = run(args[i], &status);
        if (status != 2)
            fail_msg("accepted: %s", args[i]);
        assert_null(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_policies), cmocka_unit_test(test_too_fast),
        cmocka_unit_test(test_sweep),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
