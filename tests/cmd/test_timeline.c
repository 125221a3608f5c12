// SPDX-License-Identifier: Apache-2.0
// `foretoken run --timeline` and `edge`, `serve --timeline` on tiny models: the file has every
// round that the statistics count, nothing overlaps on a track, and the text is the same, also on a
// disk that gets full. A file that cannot be written is refused at the start.
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

#include "support/http_client.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

static char *target, *draft, *path, *other;

static int set_up(void **state)
{
    target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    draft = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1, .n_layer = 1});
    path = tiny_temp_path();
    other = tiny_temp_path();
    return target && draft && path && other ? 0 : -1;
}

static int tear_down(void **state)
{
    char *const files[] = {target, draft, path, other};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        unlink(files[i]);
        free(files[i]);
    }
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return program_json(status,
                        "run -m '%s' -md '%s' -p 'hello there' --raw -n 60 -t 1 --seed 5 --json %s",
                        target, draft, args);
}

static json_t *events_of(const char *file)
{
    json_error_t why;
    json_t *events = json_load_file(file, 0, &why);
    if (!json_is_array(events))
        fail_msg("%s: %s", file, why.text);
    return events;
}

static bool is_called(const json_t *event, const char *name)
{
    return strcmp(json_string_value(json_object_get(event, "name")), name) == 0;
}

static double arg_of(const json_t *event, const char *name)
{
    return program_number(json_object_get(event, "args"), name);
}

typedef struct sums {
    double n, us, nodes, accepted;
} sums;

/* Of all events of this name. */
static sums sums_of(const json_t *events, const char *name)
{
    sums s = {0};
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e)
    {
        if (!is_called(e, name))
            continue;
        const json_t *args = json_object_get(e, "args");
        s.n++;
        s.us += json_number_value(json_object_get(e, "dur"));
        s.nodes += json_number_value(json_object_get(args, "nodes"));
        s.accepted += json_number_value(json_object_get(args, "accepted"));
    }
    return s;
}

/* Slices of one track do not overlap, unless one holds the other. */
static void check_tracks(const json_t *events)
{
    size_t i, k;
    const json_t *a, *b;
    json_array_foreach(events, i, a)
    {
        json_array_foreach(events, k, b)
        {
            if (k <= i || !json_object_get(a, "dur") || !json_object_get(b, "dur") ||
                program_number(a, "tid") != program_number(b, "tid"))
                continue;
            const double from = program_number(a, "ts"), to = from + program_number(a, "dur");
            const double begin = program_number(b, "ts"), end = begin + program_number(b, "dur");
            const bool apart = end <= from || begin >= to;
            const bool held = (begin >= from && end <= to) || (from >= begin && to <= end);
            assert_true(apart || held);
        }
    }
}

static void test_rounds(void **state)
{
    char args[128];
    int status = -1;
    snprintf(args, sizeof args, "--draft tree:6:3 --proactive --timeline '%s'", path);
    json_t *o = run(args, &status), *plain = run("--draft tree:6:3", &status);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "text")),
                        json_string_value(json_object_get(plain, "text")));
    json_t *events = events_of(path);
    const sums drafts = sums_of(events, "draft"), verdicts = sums_of(events, "verdict");
    assert_true(drafts.n > 3 && drafts.n <= program_number(o, "rounds"));
    assert_true(verdicts.nodes == program_number(o, "drafted"));
    assert_true(verdicts.accepted == program_number(o, "accepted"));
    assert_true(sums_of(events, "sent").n > 0);
    assert_true(drafts.us <= 1e3 * program_number(o, "draft_ms") + 1);
    assert_true(sums_of(events, "draft ahead").n >= program_number(o, "proactive_forwards"));
    assert_true(sums_of(events, "early draft").n == program_number(o, "early_sent"));
    assert_true(sums_of(events, "read").n >= 1);
    /* the passes of this process's own target */
    assert_true(sums_of(events, "pass").n >= drafts.n);
    assert_true(sums_of(events, "forward").us + sums_of(events, "head and walks").us <=
                sums_of(events, "pass").us);
    check_tracks(events);
    json_decref(events);
    json_decref(o);
    json_decref(plain);
}

/* Runs have no drafts, and passes all the same. */
static void test_runs(void **state)
{
    char args[128];
    int status = -1;
    size_t i;
    double rows = 0;
    const json_t *e;
    snprintf(args, sizeof args, "--no-speculation --timeline '%s'", path);
    json_t *o = run(args, &status), *events = events_of(path);
    assert_true(sums_of(events, "draft").n == 0 && sums_of(events, "run").n >= 1);
    assert_true(sums_of(events, "pass").n >= program_number(o, "tokens"));
    json_array_foreach(events, i, e) if (is_called(e, "pass")) rows += arg_of(e, "rows");
    assert_true(rows >= program_number(o, "tokens") + program_number(o, "prompt_tokens") - 1);
    check_tracks(events);
    json_decref(events);
    json_decref(o);
}

static void test_refused(void **state)
{
    int status = 0;
    assert_null(run("--timeline /nowhere/x.json", &status));
    assert_int_equal(status, 1);
    program_refuses("timeline: /dev/full cannot be written",
                    "run -m '%s' -p hello -n 4 --timeline /dev/full", target);
    program_refuses("timeline: /tmp cannot be written",
                    "edge --server 127.0.0.1:1 -md '%s' --timeline /tmp", draft);
    program_refuses("timeline: /tmp cannot be written", "serve -m '%s' --timeline /tmp", target);
    assert_null(run("--timeline /tmp/x --timeline-mb 0", &status));
    assert_int_equal(status, 2);
}

/* The disk gets full in mid-text: the text is whole, and the file an array. */
static void test_full_disk(void **state)
{
    char args[128];
    int status = -1;
    struct rlimit before, small;
    struct stat info;
    json_t *plain = run("--draft 3", &status);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 500; /* a file's head, and not the first batch of events */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    snprintf(args, sizeof args, "--draft 3 --timeline '%s'", path);
    json_t *o = run(args, &status);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, 0);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "text")),
                        json_string_value(json_object_get(plain, "text")));
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size <= 500);
    json_decref(events_of(path));
    json_decref(o);
    json_decref(plain);
}

/* An edge and its server, each with a timeline of its own; both clocks are one. */
static void test_edge_and_server(void **state)
{
    char address[32];
    http_response r;
    program server = program_start((const char *[]){"serve", "-m", target, "-t", "1", "-c", "256",
                                                    "--port", "0", "--timeline", other, NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    program edge =
        program_start((const char *[]){"edge", "--server", address, "-md", draft, "-t", "1",
                                       "--draft", "4", "--port", "0", "--timeline", path, NULL});
    const int port = program_wait_port(&edge, "foretoken edge");
    assert_int_equal(http_ask(port, "POST", "/v1/completions", "",
                              "{\"prompt\":\"abc\",\"max_tokens\":24,\"seed\":7}", &r),
                     200);
    http_response_deinit(&r);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
    json_t *of_edge = events_of(path), *of_server = events_of(other);
    size_t i;
    const json_t *e;
    double first = 0, last = 0;
    assert_true(sums_of(of_edge, "pass").n == 0 && sums_of(of_edge, "draft").n > 1);
    json_array_foreach(of_edge, i, e)
    {
        first = is_called(e, "sent") && first == 0 ? program_number(e, "ts") : first;
        last = is_called(e, "verdict") ? program_number(e, "ts") : last;
    }
    json_array_foreach(of_server, i, e) if (is_called(e, "pass") && arg_of(e, "logits_rows") > 1)
        assert_true(program_number(e, "ts") > first && program_number(e, "ts") < last);
    assert_true(sums_of(of_server, "pass").n >= sums_of(of_edge, "draft").n);
    check_tracks(of_edge);
    check_tracks(of_server);
    json_decref(of_edge);
    json_decref(of_server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),          cmocka_unit_test(test_runs),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_edge_and_server),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
