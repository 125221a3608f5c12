// SPDX-License-Identifier: Apache-2.0
// bench/knee: from made-up curves and rounds to JSON, tables and the script of the plot.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/knee.h"

static const char *const ways[] = {"wisp", "fcfs", "static"};

/* Two classes. wisp has a curve of the second class and of classes mixed, fcfs only of these;
 * static has none. */
static ft_knee *make(void)
{
    ft_knee *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->command = "test";
    k->epsilon = 0.05;
    k->n_ways = 3;
    k->way = ways;
    k->n_classes = 2;
    k->speed[0] = 2;
    k->speed[1] = 8;
    k->curve[0][1] = (ft_sim_curve){
        .capacity = 20, .at = {{10, 0.01, {0}}, {20, 0.04, {0}}, {21, 0.07, {0}}}, .n = 3};
    k->curve[0][2] = (ft_sim_curve){
        .capacity = 30, .at = {{30, 0.05, {0.01, 0.05}}, {31, 0.2, {0.03, 0.2}}}, .n = 2};
    k->curve[1][2] = (ft_sim_curve){.capacity = 5, .at = {{6, 0.5, {0.25, 0.5}}}, .n = 1};
    k->paper[0][1] = 25;
    k->plane_way = ways[0];
    k->plane.n_devices = 33;
    k->plane.n_seen = 1000;
    k->plane.n = 2;
    k->plane.at[0] = (ft_sim_round){.class = 1, .queue_us = 1500, .verify_us = 20000};
    k->plane.at[1] =
        (ft_sim_round){.class = 0, .queue_us = 90000, .verify_us = 4000, .late = FT_LATE_WAITING};
    k->plane.result.late[0][FT_LATE_NONE] = 399;
    k->plane.result.late[0][FT_LATE_WAITING] = 1;
    k->plane.result.late[1][FT_LATE_NONE] = 540;
    k->plane.result.late[1][FT_LATE_SPIKE] = 60;
    return k;
}

static double at(const json_t *object, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

static void test_json(void **state)
{
    ft_knee *k = make();
    json_t *out = json_object();
    (void)state;
    ft_knee_json(k, out);
    const json_t *sweep = json_object_get(out, "sweep");
    assert_int_equal(json_object_size(sweep), 2); /* static has no curve */
    const json_t *wisp = json_object_get(sweep, "wisp"), *alone = json_object_get(wisp, "8"),
                 *mixed = json_object_get(wisp, "mixed");
    assert_null(json_object_get(wisp, "2"));
    assert_int_equal(json_integer_value(json_object_get(alone, "capacity")), 20);
    const json_t *cross = json_object_get(alone, "crosses_epsilon");
    assert_int_equal(json_integer_value(json_object_get(cross, "below")), 20);
    assert_int_equal(json_integer_value(json_object_get(cross, "above")), 21);
    assert_float_equal(at(alone, "devices", 2), 21, 0);
    assert_float_equal(at(alone, "violation_rate", 2), 0.07, 1e-9);
    assert_null(json_object_get(alone, "violation_rate_by_class"));
    assert_float_equal(json_number_value(json_object_get(alone, "paper_capacity")), 25, 0);
    assert_null(json_object_get(mixed, "paper_capacity"));
    const json_t *by_class = json_object_get(mixed, "violation_rate_by_class");
    assert_float_equal(at(by_class, "2", 1), 0.03, 1e-9);
    assert_float_equal(at(by_class, "8", 0), 0.05, 1e-9);
    const json_t *plane = json_object_get(out, "plane");
    assert_int_equal(json_integer_value(json_object_get(plane, "rounds")), 1000);
    const json_t *late = json_object_get(json_object_get(plane, "late"), "8");
    assert_int_equal(json_integer_value(json_object_get(late, "spike")), 60);
    assert_null(json_object_get(late, "none"));
    const json_t *point = json_array_get(json_object_get(plane, "queue_verify_class_late"), 1);
    assert_float_equal(json_number_value(json_array_get(point, 0)), 90, 1e-9);
    assert_float_equal(json_number_value(json_array_get(point, 2)), 2, 1e-9);
    assert_string_equal(json_string_value(json_array_get(point, 3)), "waiting");
    json_decref(out);
    k->plane_way = NULL;
    out = json_object();
    ft_knee_json(k, out);
    assert_null(json_object_get(out, "plane"));
    json_decref(out);
    free(k);
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in:\n%s", part, text);
}

static char *write_with(void (*write)(const ft_knee *, FILE *), const ft_knee *k)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    write(k, out);
    fclose(out);
    return text;
}

static void test_table(void **state)
{
    ft_knee *k = make();
    char *text = write_with(ft_knee_print, k);
    (void)state;
    expect(text, "20-21 (20)");
    expect(text, "30-31 (30)");
    expect(text, "0-6 (5)");
    expect(text, "100.0"); /* 60 of 600 rounds were in a spike */
    expect(text, "2.5");   /* 1 of 400 waited */
    assert_null(strstr(text, "static"));
    free(text);
    free(k);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part))) {
        text++;
        n++;
    }
    return n;
}

static void test_script(void **state)
{
    ft_knee *k = make();
    char *text = write_with(ft_knee_script, k);
    (void)state;
    expect(text, "$curve0_1 << EOD\n10 0.01 0 0\n20 0.04 0 0\n21 0.07 0 0\nEOD\n");
    expect(text, "multiplot layout 2,2"); /* one class, classes mixed twice, the plane */
    expect(text, "$curve1_2 using 1:4");
    expect(text, "title 'fcfs, 8 tokens/s'");
    expect(text, "90 4\n");
    expect(text, "arrow from 20");
    expect(text, "using (25):(0.05)");
    assert_int_equal(count(text, "\nplot "), 4);
    assert_int_equal(count(text, "$curve"), 3 + 1 + 2 + 4);
    assert_null(strstr(text, "$bound")); /* not known */
    free(text);
    k->bound[1] = 33.5;
    text = write_with(ft_knee_script, k);
    expect(text, "$bound1 << EOD\n33.5 0\n33.5 1\nEOD\n");
    assert_int_equal(count(text, "$bound1 with lines"), 1);
    assert_int_equal(count(text, "$bound"), 2); /* classes mixed have none */
    free(text);
    k->bound[1] = 0;
    k->plane_way = NULL;
    k->curve[0][1].n = 0;
    text = write_with(ft_knee_script, k);
    assert_int_equal(count(text, "\nplot "), 2);
    free(text);
    free(k);
}

static void test_refused(void **state)
{
    ft_knee *k = make();
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_knee_plot(k, "figure.doc", &err), FT_INVALID);
    expect(err.message, "test: --plot");
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_script),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
