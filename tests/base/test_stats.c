// SPDX-License-Identifier: Apache-2.0
// Statistics by list: the page has each value under its name and is read back by it; a name that
// the page lacks is an error, not a value of 0; sums and differences.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"

#define LIST(F)                                      \
    F(GAUGE, now, "now", "What is now.")             \
    F(COUNTER, done, "done_total", "What was done.") \
    F(WORK, work_us, "work_seconds_total", "Work.")  \
    F(WORK, more_us, "more_seconds_total", "More.")  \
    F(WAIT, wait_us, "wait_seconds_total", "Wait.")  \
    F(RATIO, off, "off_ratio", "How far off.")       \
    F(SUMMARY, took, "took_seconds", "Took.")        \
    F(SIZES, rows, "rows", "Rows.")

typedef struct numbers {
    LIST(FT_STAT_FIELD)
    uint64_t by_color[3];
    uint64_t lit[3]; /* now */
} numbers;

static bool label_color(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE])
{
    static const char *const color[3] = {"", "red", "blue"};
    snprintf(out, FT_STAT_LABEL_SIZE, "color=\"%s\"", color[i]);
    return i > 0;
}

#define FT_STAT_TYPE numbers
static const ft_stat table[] = {
    LIST(FT_STAT_ROW){"by_color", "by_color_total", "By color.", FT_STAT_LABELLED,
                      offsetof(numbers, by_color), 3, label_color},
    {"lit", "lit", "Lit.", FT_STAT_LABELLED_GAUGE, offsetof(numbers, lit), 3, label_color}};
static const ft_stat_list list = {table, sizeof table / sizeof *table};

static const char page[] = "# HELP foretoken_now What is now.\n# TYPE foretoken_now gauge\n"
                           "foretoken_now 3\n"
                           "# HELP foretoken_done_total What was done.\n"
                           "# TYPE foretoken_done_total counter\nforetoken_done_total 4\n"
                           "# HELP foretoken_work_seconds_total Work.\n"
                           "# TYPE foretoken_work_seconds_total counter\n"
                           "foretoken_work_seconds_total 5.000006\n"
                           "# HELP foretoken_more_seconds_total More.\n"
                           "# TYPE foretoken_more_seconds_total counter\n"
                           "foretoken_more_seconds_total 0.000001\n"
                           "# HELP foretoken_wait_seconds_total Wait.\n"
                           "# TYPE foretoken_wait_seconds_total counter\n"
                           "foretoken_wait_seconds_total 0.000007\n"
                           "# HELP foretoken_off_ratio How far off.\n"
                           "# TYPE foretoken_off_ratio gauge\nforetoken_off_ratio -0.500000\n"
                           "# HELP foretoken_took_seconds Took.\n"
                           "# TYPE foretoken_took_seconds summary\n"
                           "foretoken_took_seconds_sum 1.500000\n"
                           "foretoken_took_seconds_count 2\n"
                           "# HELP foretoken_rows Rows.\n# TYPE foretoken_rows histogram\n";
static const char behind[] = "foretoken_rows_sum 4105\nforetoken_rows_count 4\n"
                             "# HELP foretoken_by_color_total By color.\n"
                             "# TYPE foretoken_by_color_total counter\n"
                             "foretoken_by_color_total{color=\"red\"} 8\n"
                             "foretoken_by_color_total{color=\"blue\"} 9\n"
                             "# HELP foretoken_lit Lit.\n# TYPE foretoken_lit gauge\n"
                             "foretoken_lit{color=\"red\"} 2\n"
                             "foretoken_lit{color=\"blue\"} 1\n";

static numbers some(void)
{
    numbers v = {.now = 3,
                 .done = 4,
                 .work_us = 5000006,
                 .more_us = 1,
                 .wait_us = 7,
                 .off = -0.5,
                 .took = {1500000, 2}};
    static const uint32_t size[] = {1, 3, 4, 4097};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        ft_sizes_add(&v.rows, size[i]);
    v.by_color[1] = 8;
    v.by_color[2] = 9;
    v.lit[1] = 2;
    v.lit[2] = 1;
    return v;
}

static void make_page(ft_buf *out)
{
    const numbers v = some();
    assert_int_equal(ft_stats_append(&list, &v, out), FT_OK);
}

static void test_page(void **state)
{
    ft_buf out = {0};
    make_page(&out);
    const char *text = ft_buf_str(&out);
    assert_int_equal(strncmp(text, page, sizeof page - 1), 0);
    assert_string_equal(text + out.len - (sizeof behind - 1), behind);
    assert_non_null(strstr(text, "\nforetoken_rows_bucket{le=\"1\"} 1\n"
                                 "foretoken_rows_bucket{le=\"2\"} 1\n"
                                 "foretoken_rows_bucket{le=\"4\"} 3\n"));
    assert_non_null(strstr(text, "\nforetoken_rows_bucket{le=\"2048\"} 3\n"
                                 "foretoken_rows_bucket{le=\"+Inf\"} 4\n"));
    ft_buf_deinit(&out);
}

static void test_read(void **state)
{
    ft_buf out = {0};
    ft_error err = {0};
    const numbers v = some();
    numbers read = {0};
    make_page(&out);
    assert_int_equal(ft_stats_read(&list, ft_buf_str(&out), &err, &read), FT_OK);
    assert_memory_equal(&read, &v, sizeof v);
    ft_buf_deinit(&out);
}

/* Each sample by itself: renamed on the page, so that only its beginning is there, it is missed. */
static void test_missing_is_an_error(void **state)
{
    ft_buf out = {0};
    uint32_t n = 0;
    make_page(&out);
    for (char *line = out.data; *line; line = strchr(line, '\n') + 1) {
        char name[100];
        numbers read;
        ft_error err = {0};
        if (*line == '#' || sscanf(line, "%99[^ ]", name) != 1)
            continue;
        char *last = line + strlen(name) - 1, was = *last;
        *last = '~';
        assert_int_equal(ft_stats_read(&list, ft_buf_str(&out), &err, &read), FT_NOT_FOUND);
        if (!strstr(err.message, name))
            fail_msg("'%s' does not name %s", err.message, name);
        *last = was;
        n++;
    }
    assert_int_equal(n, 6 + 2 + FT_SIZES + 2 + 2 + 2);
    ft_buf_deinit(&out);
}

static void test_no_number(void **state)
{
    static const char *const wrong[] = {"foretoken_now \n", "foretoken_now x\n",
                                        "foretoken_now 3x\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const ft_stat_list first = {table, 1};
        numbers read;
        ft_error err = {0};
        assert_int_equal(ft_stats_read(&first, wrong[i], &err, &read), FT_CORRUPT);
        assert_non_null(strstr(err.message, "foretoken_now"));
    }
}

static void test_sums(void **state)
{
    const numbers before = some();
    numbers v = before;
    assert_int_equal(ft_stats_total(&list, &v, FT_STAT_WORK), 5000007);
    assert_int_equal(ft_stats_total(&list, &v, FT_STAT_WAIT), 7);
    v.now = 1;
    v.off = 0.25;
    v.done = 10;
    v.rows.by_size[2] += 5;
    v.by_color[2]++;
    v.lit[1] = 5;
    numbers grown = v;
    ft_stats_subtract(&list, &grown, &before);
    assert_int_equal(grown.now, 1);
    assert_true(grown.off == 0.25);
    assert_int_equal(grown.done, 6);
    assert_int_equal(grown.rows.by_size[2], 5);
    assert_int_equal(grown.rows.n, 0);
    assert_int_equal(grown.by_color[2], 1);
    assert_int_equal(grown.lit[1], 5);
    numbers sum = before;
    ft_stats_add(&list, &sum, &grown);
    assert_memory_equal(&sum, &v, sizeof v);
}

/* Every metric with one value has a key, and a time is in ms. */
static void test_json(void **state)
{
    const numbers v = some();
    json_t *o = json_object();
    ft_stats_json(&list, &v, o);
    assert_int_equal(json_object_size(o), 7);
    assert_int_equal(json_integer_value(json_object_get(o, "now")), 3);
    assert_int_equal(json_integer_value(json_object_get(o, "done")), 4);
    assert_float_equal(json_real_value(json_object_get(o, "work_ms")), 5000.006, 1e-9);
    assert_float_equal(json_real_value(json_object_get(o, "off")), -0.5, 0);
    assert_float_equal(json_real_value(json_object_get(o, "took_ms")), 1500, 1e-9);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),      cmocka_unit_test(test_read),
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_missing_is_an_error),
        cmocka_unit_test(test_no_number), cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
