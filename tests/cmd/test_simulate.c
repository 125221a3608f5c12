// SPDX-License-Identifier: Apache-2.0
// foretoken simulate wisp as a program, on a setting that is over in a moment.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

static char config[] = "/tmp/ft_sim_XXXXXX";

/* The shipped setting with fewer, shorter texts. */
static int set_up(void **state)
{
    static const struct {
        const char *name;
        double value;
    } small[] = {{"prompt_tokens", 20},
                 {"response_tokens", 30},
                 {"kv_blocks", 400},
                 {"seeds", 1},
                 {"measure_texts", 4}};
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", getenv("FT_SOURCE_DIR"));
    json_t *root = json_load_file(path, 0, NULL), *all = json_object_get(root, "constants");
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        json_object_set_new(json_object_get(all, small[i].name), "value",
                            json_real(small[i].value));
    json_object_set_new(json_object_get(json_object_get(root, "costs"), "us"), "row",
                        json_real(8000));
    int fd = mkstemp(config);
    int failed = fd < 0 || json_dumpfd(root, fd, 0);
    close(fd);
    json_decref(root);
    return failed;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(config);
}

/* What it prints, NUL-terminated; *status is its exit status. */
static char *run(const char *args, int *status)
{
    static char text[1 << 20];
    char command[1024];
    snprintf(command, sizeof command, "'%s' simulate wisp %s", getenv("FT_BINARY"), args);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = 0;
    *status = WEXITSTATUS(pclose(out));
    return text;
}

static json_t *must_run(const char *args)
{
    int status;
    char with[512];
    snprintf(with, sizeof with, "--config %s --json %s 2>/dev/null", config, args);
    char *text = run(with, &status);
    json_t *json = json_loads(text, 0, NULL);
    if (status != 0 || !json)
        fail_msg("%d: %s", status, text);
    return json;
}

static void test_report(void **state)
{
    static const char *const modes[] = {"wisp", "fcfs", "centralized"};
    (void)state;
    json_t *a = must_run(""), *b = must_run("");
    for (int i = 0; i < 3; i++) {
        const json_t *n = json_object_get(json_object_get(a, "capacity"), modes[i]);
        assert_int_equal(json_object_size(n), 4);
        assert_true(json_integer_value(json_object_get(n, "2")) >=
                    json_integer_value(json_object_get(n, "8")));
        assert_true(json_number_value(json_object_get(json_object_get(a, "goodput"), modes[i])) >
                    0);
    }
    assert_true(json_number_value(json_array_get(
                    json_object_get(json_object_get(a, "wisp_over_fcfs"), "paper_capacity"), 3)) >
                4);
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void test_one_run(void **state)
{
    (void)state;
    json_t *a = must_run("--devices 5 --seconds 10 --mode centralized");
    assert_true(json_integer_value(json_object_get(a, "tokens")) > 0);
    assert_int_equal(json_array_size(json_object_get(a, "texts")), 4);
    assert_int_equal(json_array_size(json_object_get(a, "late")), 4);
    json_decref(a);
}

static void check_curve(const json_t *curve, bool mixed)
{
    const json_t *devices = json_object_get(curve, "devices"),
                 *rate = json_object_get(curve, "violation_rate"),
                 *by_class = json_object_get(curve, "violation_rate_by_class"),
                 *at = json_object_get(curve, "crosses_epsilon");
    const json_int_t capacity = json_integer_value(json_object_get(curve, "capacity"));
    const size_t n = json_array_size(devices);
    assert_true(n >= 4 && json_array_size(rate) == n);
    assert_int_equal(json_object_size(by_class), mixed ? 4 : 0);
    /* the search's own number was tried, and was held; one more was not */
    assert_true(json_integer_value(json_object_get(at, "below")) <= capacity);
    assert_true(json_integer_value(json_object_get(at, "above")) > capacity);
    for (size_t i = 0; i < n; i++) {
        const double share = json_number_value(json_array_get(rate, i));
        double worst = 0;
        const char *name;
        const json_t *of;
        json_object_foreach((json_t *)by_class, name, of)
        {
            const double one = json_number_value(json_array_get(of, i));
            worst = one > worst ? one : worst;
        }
        assert_true(share >= 0 && share <= 1 && (!mixed || share == worst));
    }
}

static void test_sweep(void **state)
{
    static const char *const ways[] = {"wisp", "edf", "fcfs", "sled", "centralized"};
    const char *name;
    const json_t *curve;
    (void)state;
    json_t *a = must_run("--sweep"), *plane = json_object_get(a, "plane");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const json_t *of = json_object_get(json_object_get(a, "sweep"), ways[i]);
        assert_int_equal(json_object_size(of), 5);
        json_object_foreach((json_t *)of, name, curve)
        {
            check_curve(curve, strcmp(name, "mixed") == 0);
        }
    }
    assert_true(json_integer_value(json_object_get(plane, "rounds")) > 0);
    assert_int_equal(json_object_size(json_object_get(plane, "late")), 4);
    assert_int_equal(
        json_array_size(json_array_get(json_object_get(plane, "queue_verify_class_late"), 0)), 4);
    json_decref(a);
}

static void test_refused(void **state)
{
    char args[256];
    int status;
    (void)state;
    assert_non_null(strstr(run("2>&1", &status), "--config"));
    assert_int_equal(status, 1);
    assert_non_null(strstr(run("--config /nowhere 2>&1", &status), "/nowhere"));
    assert_int_equal(status, 1);
    snprintf(args, sizeof args, "--config %s --devices 3 --mode best 2>&1", config);
    assert_non_null(strstr(run(args, &status), "--mode"));
    assert_int_equal(status, 1);
    snprintf(args, sizeof args, "--config %s --policy best 2>&1", config);
    assert_non_null(strstr(run(args, &status), "--policy"));
    assert_int_equal(status, 1);
    snprintf(args, sizeof args, "--config %s --sweep --devices 3 2>&1", config);
    assert_non_null(strstr(run(args, &status), "--sweep"));
    assert_int_equal(status, 1);
    assert_non_null(strstr(run("--devices -1 2>&1", &status), "--devices"));
    assert_int_equal(status, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_report),
                                       cmocka_unit_test(test_one_run), cmocka_unit_test(test_sweep),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
