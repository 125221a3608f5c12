// SPDX-License-Identifier: Apache-2.0
// A timeline's file: an array of events in the Trace Event format, whole or cut off at a line;
// what cannot be written is said at the start, or costs events and nothing else.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>

#include "base/file.h"
#include "base/log.h"
#include "base/timeline.h"

static char path[32], other[32];

static int set_up(void **state)
{
    ft_log_set_level(FT_LOG_ERROR);
    snprintf(path, sizeof path, "/tmp/ft_timeline_XXXXXX");
    snprintf(other, sizeof other, "/tmp/ft_timeline_XXXXXX");
    const int fd = mkstemp(path), fd2 = mkstemp(other);
    close(fd);
    close(fd2);
    return fd >= 0 && fd2 >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    unlink(path);
    unlink(other);
    return 0;
}

static ft_timeline *must_open(const char *where, uint64_t max_bytes)
{
    const ft_timeline_opts opts = {.path = where, .process = "test", .max_bytes = max_bytes};
    ft_timeline *t = NULL;
    ft_error err = {0};
    if (ft_timeline_open(&opts, &err, &t) != FT_OK)
        fail_msg("%s", err.message);
    return t;
}

static void add(ft_timeline *t, int64_t begin_us, int64_t end_us)
{
    const ft_timeline_event e = {.name = "work",
                                 .track = 3,
                                 .begin_us = begin_us,
                                 .end_us = end_us,
                                 .arg = {{"rows", 7}, {"left", -2}}};
    ft_timeline_add(t, &e);
}

static json_t *read_events(void)
{
    json_error_t why;
    json_t *events = json_load_file(path, 0, &why);
    if (!json_is_array(events))
        fail_msg("no array: %s", why.text);
    return events;
}

static const char *word(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));
    return value ? value : "";
}

static json_int_t number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    if (!json_is_integer(value))
        fail_msg("no %s", key);
    return json_integer_value(value);
}

static void test_events(void **state)
{
    ft_timeline *t = must_open(path, 0);
    struct stat info;
    ft_timeline_name(t, 3, "a track");
    add(t, 100, 150);
    add(t, 150, 150);
    ft_timeline_close(t);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    json_t *events = read_events();
    assert_int_equal(json_array_size(events), 4);
    const json_t *process = json_array_get(events, 0), *track = json_array_get(events, 1);
    assert_string_equal(word(process, "name"), "process_name");
    assert_string_equal(word(json_object_get(process, "args"), "name"), "test");
    assert_string_equal(word(track, "name"), "thread_name");
    assert_string_equal(word(json_object_get(track, "args"), "name"), "a track");
    assert_true(number(track, "tid") == 3 && number(track, "pid") == getpid());
    const json_t *slice = json_array_get(events, 2), *moment = json_array_get(events, 3);
    assert_string_equal(word(slice, "ph"), "X");
    assert_string_equal(word(slice, "name"), "work");
    assert_true(number(slice, "ts") == 100 && number(slice, "dur") == 50);
    assert_true(number(slice, "tid") == 3 && number(slice, "pid") == getpid());
    const json_t *args = json_object_get(slice, "args");
    assert_true(json_object_size(args) == 2 && number(args, "rows") == 7);
    assert_int_equal(number(args, "left"), -2);
    assert_string_equal(word(moment, "ph"), "i");
    assert_true(number(moment, "ts") == 150 && json_object_get(moment, "dur") == NULL);
    json_decref(events);
}

/* NULL is a timeline that nobody asked for. */
static void test_none(void **state)
{
    add(NULL, 1, 2);
    ft_timeline_name(NULL, 1, "nothing");
    ft_timeline_close(NULL);
}

static void refused(const char *where, const char *said)
{
    const ft_timeline_opts opts = {.path = where, .process = "test"};
    ft_timeline *t = NULL;
    ft_error err = {0};
    assert_int_equal(ft_timeline_open(&opts, &err, &t), FT_IO);
    assert_null(t);
    assert_non_null(strstr(err.message, where));
    assert_non_null(strstr(err.message, said));
}

static void test_cannot_be_written(void **state)
{
    refused("/nowhere/timeline.json", "No such file");
    refused("/tmp", "Is a directory");
    refused("/dev/full", "No space left"); /* a full disk */
}

/* Whatever was not written is counted; what was is an array with its end. */
static void test_largest_size(void **state)
{
    enum { BYTES = 20000, EVENTS = 3000 };
    ft_timeline *t = must_open(path, BYTES);
    struct stat info;
    for (int i = 0; i < EVENTS; i++) {
        add(t, i, i + 1);
        if (i % 50 == 0) /* many batches: some of them come to the file */
            ft_timeline_flush(t);
    }
    ft_timeline_flush(t);
    add(t, EVENTS, EVENTS + 1);
    const uint64_t dropped = ft_timeline_dropped(t);
    ft_timeline_close(t);
    json_t *events = read_events();
    assert_true(dropped > 0 && json_array_size(events) > 50);
    assert_int_equal(json_array_size(events) - 1 + dropped, EVENTS + 1);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size <= BYTES + 3);
    json_decref(events);
}

/* A disk that gets full while it is written to: here, files may only be so large. */
static void test_full_disk(void **state)
{
    struct rlimit before, small;
    char *text = NULL;
    size_t n;
    ft_error err;
    ft_timeline *t = must_open(path, 0);
    add(t, 1, 2);
    ft_timeline_flush(t);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 700;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 50; i++)
        add(t, i, i + 1);
    ft_timeline_flush(t);
    assert_true(ft_timeline_dropped(t) > 0);
    add(t, 60, 61); /* dropped at once */
    const uint64_t dropped = ft_timeline_dropped(t);
    ft_timeline_close(t);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    /* the batch that did not fit was cut off as a whole */
    json_t *events = read_events();
    assert_int_equal(json_array_size(events) - 1 + dropped, 52);
    assert_true(dropped >= 50);
    json_decref(events);
    assert_int_equal(ft_file_read(path, 1 << 20, &err, &text, &n), FT_OK);
    assert_string_equal(text + n - 2, "]\n");
    free(text);
}

static void test_numbers(void **state)
{
    ft_timeline *t = must_open(path, 0);
    assert_int_equal(ft_timeline_take(t), 0);
    assert_int_equal(ft_timeline_take(t), 1);
    assert_int_equal(ft_timeline_take(t), 2);
    ft_timeline_give(t, 1);
    assert_int_equal(ft_timeline_take(t), 1);
    uint32_t last = 0;
    for (int i = 0; i < 1000; i++) /* more than there are */
        last = ft_timeline_take(t);
    assert_int_equal(ft_timeline_take(t), last);
    ft_timeline_close(t);
}

enum { THREADS = 4, EACH = 500 };

static void *add_many(void *timeline)
{
    for (int i = 0; i < EACH; i++)
        add(timeline, i, i + 1);
    return NULL;
}

static void test_threads(void **state)
{
    ft_timeline *t = must_open(path, 0);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, add_many, t), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    const uint64_t dropped = ft_timeline_dropped(t);
    ft_timeline_close(t);
    json_t *events = read_events();
    assert_int_equal(json_array_size(events) - 1 + dropped, THREADS * EACH);
    json_decref(events);
}

static void test_include(void **state)
{
    ft_error err = {0};
    ft_timeline *t = must_open(other, 0);
    for (int i = 0; i < 10; i++)
        add(t, 100 * i, 100 * i + 50);
    ft_timeline_name(t, 3, "theirs");
    ft_timeline_close(t);
    FILE *file = fopen(other, "a"); /* what is no event of a timeline */
    assert_non_null(file);
    fputs("{\"ts\":350\n\n{\"ts\":x,\"ph\":\"X\"},\nhello\n{\"ts\":400,\"name\":\"cut", file);
    for (int i = 0; i < 3000; i++)
        fputc('a', file);
    fclose(file);
    t = must_open(path, 0);
    add(t, 5, 6);
    assert_int_equal(ft_timeline_include(t, other, 300, 600, &err), FT_OK);
    assert_int_equal(ft_timeline_include(t, "/nowhere/x", 0, 1, &err), FT_IO);
    ft_timeline_close(t);
    json_t *events = read_events();
    /* the names of both processes and of the track, our event, and theirs from 300 to 600 */
    assert_int_equal(json_array_size(events), 2 + 1 + 1 + 4);
    json_int_t sum = 0;
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event) if (strcmp(word(event, "ph"), "X") == 0) sum +=
        number(event, "ts");
    assert_int_equal(sum, 5 + 300 + 400 + 500 + 600);
    json_decref(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_events, set_up, tear_down),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_cannot_be_written),
        cmocka_unit_test_setup_teardown(test_largest_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_include, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
