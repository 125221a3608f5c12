// SPDX-License-Identifier: Apache-2.0
// A generation's tracks: the parts of a round lie one after another, where the verdict says that
// they were, and nothing overlaps.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "edge/gen_timeline.h"

static char path[32];
static ft_timeline *to;

static int set_up(void **state)
{
    ft_error err;
    snprintf(path, sizeof path, "/tmp/ft_timeline_XXXXXX");
    const ft_timeline_opts opts = {.path = path, .process = "test"};
    const int fd = mkstemp(path);
    close(fd);
    return fd >= 0 && ft_timeline_open(&opts, &err, &to) == FT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    unlink(path);
    return 0;
}

/* Closes the timeline, and checks that the file's slices with times are these, in this order:
 * "name begin end", a moment without an end. */
static void expect(const char *const *wanted, size_t n)
{
    json_error_t why;
    size_t i, seen = 0;
    json_t *event;
    ft_timeline_close(to);
    json_t *events = json_load_file(path, 0, &why);
    assert_non_null(events);
    json_array_foreach(events, i, event)
    {
        char said[96];
        if (!json_object_get(event, "ts"))
            continue;
        const char *name = json_string_value(json_object_get(event, "name"));
        const json_int_t ts = json_integer_value(json_object_get(event, "ts"));
        const json_int_t dur = json_integer_value(json_object_get(event, "dur"));
        if (dur > 0)
            snprintf(said, sizeof said, "%s %lld %lld", name, (long long)ts, (long long)(ts + dur));
        else
            snprintf(said, sizeof said, "%s %lld", name, (long long)ts);
        assert_true(seen < n);
        assert_string_equal(said, wanted[seen]);
        seen++;
    }
    assert_int_equal(seen, n);
    json_decref(events);
}

static const ft_msg_draft of_eight = {.round = 4, .n = 8};

static void test_round(void **state)
{
    static const char *const wanted[] = {
        "read 1000 1500",    "draft 1500 1900",       "sent 1900",        "draft ahead 1900 2100",
        "idle 2100 2600",    "draft ahead 2600 2700", "early draft 2700", "idle 2700 3000",
        "verdict 3000",      "network 1900 2050",     "queue 2050 2150",  "verify 2150 2850",
        "network 2850 3000",
    };
    const ft_msg_verdict v = {
        .round = 4, .n_path = 3, .n_next = 1, .queue_us = 100, .verify_us = 700};
    const ft_gen_timeline_draft d = {.round = 4, .nodes = 8, .levels = 3, .forwards = 3};
    ft_gen_timeline t;
    ft_gen_timeline_begin(&t, to, 7);
    ft_gen_timeline_read(&t, 1000, 1500);
    ft_gen_timeline_drafted(&t, 1500, 1900, &d);
    ft_gen_timeline_sent(&t, 1900, &of_eight);
    ft_gen_timeline_worked(&t, 1900, 2100, true);
    ft_gen_timeline_idle(&t, 2100);
    ft_gen_timeline_idle(&t, 2300); /* still */
    ft_gen_timeline_worked(&t, 2600, 2700, true);
    ft_gen_timeline_early(&t, 2700, &of_eight);
    ft_gen_timeline_idle(&t, 2700);
    ft_gen_timeline_verdict(&t, 3000, ft_known(1900), &v, 8);
    ft_gen_timeline_end(&t, 3100);
    expect(wanted, sizeof wanted / sizeof *wanted);
}

/* The next round began with the early draft, when the last verdict came; then a run. */
static void test_early_then_run(void **state)
{
    static const char *const wanted[] = {
        "verdict 3000",      "network 1900 2050", "queue 2050 2150",   "verify 2150 2850",
        "network 2850 3000", "verdict 4000",      "network 3000 3100", "queue 3100 3200",
        "verify 3200 3900",  "network 3900 4000", "sent 4100",         "verdict 4500",
        "run 4100 4500",     "verdict 4600",      "run 4500 4600",     "idle 4600 4700",
    };
    const ft_msg_verdict v = {.round = 4, .queue_us = 100, .verify_us = 700};
    const ft_msg_draft run = {.round = 6, .run = 20};
    ft_gen_timeline t;
    ft_gen_timeline_begin(&t, to, 7);
    ft_gen_timeline_verdict(&t, 3000, ft_known(1900), &v, 8);
    ft_gen_timeline_verdict(&t, 4000, ft_known(3000), &v, 4);
    ft_gen_timeline_sent(&t, 4100, &run);
    ft_gen_timeline_verdict(&t, 4500, ft_known(4100), &v, 0);
    ft_gen_timeline_verdict(&t, 4600, ft_unknown(), &v, 0);
    ft_gen_timeline_idle(&t, 4600);
    ft_gen_timeline_end(&t, 4700);
    expect(wanted, sizeof wanted / sizeof *wanted);
}

/* Times that cannot be, or are not known: nothing overlaps, and nothing is before its begin. */
static void test_strange_times(void **state)
{
    static const char *const wanted[] = {
        "verdict 3000",     "queue 2200 2300", "verify 2300 3000", /* the send is not known */
        "verdict 3100",     "queue 3000 3100",                     /* longer than it can be */
        "stream lost 3500", "verdict 3600",    "queue 3500 3600",
    };
    const ft_msg_verdict v = {.round = 4, .queue_us = 100, .verify_us = 700};
    ft_gen_timeline t;
    ft_gen_timeline_begin(&t, to, 7);
    ft_gen_timeline_verdict(&t, 3000, ft_unknown(), &v, 8);
    ft_gen_timeline_verdict(&t, 3100, ft_known(2900), &v, 8);
    ft_gen_timeline_lost(&t, 3500);
    ft_gen_timeline_verdict(&t, 3600, ft_unknown(), &v, 8);
    ft_gen_timeline_end(&t, 3600);
    expect(wanted, sizeof wanted / sizeof *wanted);
}

/* Texts at the same time have tracks of their own; a later one uses them again. */
static void test_tracks(void **state)
{
    ft_gen_timeline a, b, c;
    ft_gen_timeline_begin(&a, to, 1);
    ft_gen_timeline_begin(&b, to, 2);
    assert_int_not_equal(a.number, b.number);
    const uint32_t first = a.number;
    ft_gen_timeline_end(&a, 1);
    ft_gen_timeline_begin(&c, to, 3);
    assert_int_equal(c.number, first);
    ft_gen_timeline_end(&b, 1);
    ft_gen_timeline_end(&c, 1);
    expect(NULL, 0);
}

/* No timeline was asked for. */
static void test_none(void **state)
{
    const ft_msg_verdict v = {.round = 4};
    ft_gen_timeline t;
    ft_gen_timeline_begin(&t, NULL, 7);
    ft_gen_timeline_read(&t, 1, 2);
    ft_gen_timeline_sent(&t, 2, &of_eight);
    ft_gen_timeline_idle(&t, 2);
    ft_gen_timeline_verdict(&t, 3, ft_known(2), &v, 8);
    ft_gen_timeline_lost(&t, 4);
    ft_gen_timeline_end(&t, 5);
    expect(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_early_then_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strange_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tracks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
