// SPDX-License-Identifier: Apache-2.0
// foretoken simulate fleet as a program, with few devices.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/program.h"

static json_t *must_run(const char *args)
{
    int status;
    json_t *out = program_json(&status, "simulate fleet --config %s/sim/fleet.json --json %s",
                               getenv("FT_SOURCE_DIR"), args);
    if (status != 0 || !out)
        fail_msg("simulate fleet %s: %d", args, status);
    return out;
}

static void test_rows(void **state)
{
    json_t *out = must_run("--devices 40,80 --servers 2 --threads 2"), *again, *row;
    const json_t *rows = json_object_get(out, "rows");
    size_t i;
    (void)state;
    assert_int_equal(json_array_size(rows), 2 * 3);
    json_array_foreach(rows, i, row)
    {
        const json_t *lost = json_object_get(json_object_get(row, "accident"), "lost");
        assert_true(program_number(row, "devices") == (i < 3 ? 40 : 80));
        assert_true(program_number(row, "servers") == 2 && program_number(row, "ended") > 0);
        assert_true(program_number(lost, "moved") > 0);
    }
    again = must_run("--devices 40,80 --servers 2 --threads 1");
    assert_true(json_equal(out, again));
    json_decref(out);
    json_decref(again);
}

/* One server is enough for ten devices, and cannot be lost. */
static void test_search(void **state)
{
    json_t *out = must_run("--devices 10 --assign ring --policy edf");
    const json_t *row = json_array_get(json_object_get(out, "rows"), 0);
    (void)state;
    assert_int_equal(json_array_size(json_object_get(out, "rows")), 1);
    assert_true(program_number(row, "servers") == 1);
    assert_true(program_number(row, "late_share") <= 0.05);
    assert_int_equal(json_object_size(json_object_get(row, "accident")), 0);
    json_decref(out);
}

static void make_gnuplot(const char *folder, const char *script)
{
    char path[512];
    snprintf(path, sizeof path, "%s/gnuplot", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* A gnuplot that writes its script into the file of FT_TEST_SCRIPT. */
static void add_gnuplot(const char *folder)
{
    char path[512];
    make_gnuplot(folder, "exec cat >\"$FT_TEST_SCRIPT\"");
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
}

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(getdelim(&text, &n, 0, file) > 0);
    fclose(file);
    return text;
}

/* Servers over devices, a line for each assignment. */
static void test_plot(void **state)
{
    char folder[] = "/tmp/foretoken-plot-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/script", folder);
    setenv("FT_TEST_SCRIPT", path, 1);
    add_gnuplot(folder);
    json_decref(must_run("--devices 20,30 --servers 2 --plot /tmp/none.svg"));
    char *script = read_text(path);
    assert_non_null(strstr(script, "set terminal svg"));
    assert_non_null(strstr(script, "set output '/tmp/none.svg'"));
    assert_non_null(strstr(script, "title 'ring'"));
    assert_non_null(strstr(script, "\n20 2\n30 2\ne\n20 2\n30 2\ne\n20 2\n30 2\ne\n"));
    free(script);
    unlink(path);
    json_decref(must_run("--devices 20 --servers 2 --assign least --plot /tmp/none.txt"));
    script = read_text(path);
    assert_null(strstr(script, "'ring'"));
    assert_non_null(strstr(script, "\nplot '-' title 'least' with linespoints\n20 2\ne\n"));
    free(script);
    unlink(path);
    make_gnuplot(folder, "exit 1");
    program_refuses("gnuplot failed", "simulate fleet --config /nowhere.json --plot /tmp/none.svg");
    snprintf(path, sizeof path, "%s/gnuplot", folder);
    unlink(path);
    rmdir(folder);
}

/* Measured costs stand in for the setting's: with passes that take six times as long there are
 * fewer rounds. */
static void test_costs(void **state)
{
    char path[] = "/tmp/foretoken-costs-XXXXXX", args[256];
    FILE *file = fdopen(mkstemp(path), "w");
    (void)state;
    assert_non_null(file);
    fputs("{\"kind\": \"foretoken verify-time\", \"model\": \"Slow\", \"error\": 0.06, \"us\": "
          "{\"pass\": 90000, \"row\": 900, \"logits_row\": 0, \"interaction\": 0.01, "
          "\"cached_tok\": 10, \"head\": 0}}",
          file);
    assert_int_equal(fclose(file), 0);
    json_t *own = must_run("--devices 40 --servers 2 --assign ring");
    snprintf(args, sizeof args, "--devices 40 --servers 2 --assign ring --costs %s", path);
    json_t *slow = must_run(args);
    const json_t *one = json_array_get(json_object_get(own, "rows"), 0);
    const json_t *two = json_array_get(json_object_get(slow, "rows"), 0);
    assert_true(2 * program_number(two, "rounds") < program_number(one, "rounds"));
    json_decref(own);
    json_decref(slow);
    unlink(path);
    program_refuses("/nowhere.json",
                    "simulate fleet --config %s/sim/fleet.json --costs "
                    "/nowhere.json",
                    getenv("FT_SOURCE_DIR"));
}

static void test_refused(void **state)
{
    char with[1200];
    (void)state;
    program_refuses("pass --config", "simulate fleet");
    program_refuses("/nowhere.json", "simulate fleet --config /nowhere.json");
    snprintf(with, sizeof with, "simulate fleet --config %s/sim/fleet.json ",
             getenv("FT_SOURCE_DIR"));
    static const char *const wrong[][2] = {{"--devices 10,", "not 1 to 16 numbers"},
                                           {"--devices 0", "not 1 to 16 numbers"},
                                           {"--devices 3000000", "not 1 to 16 numbers"},
                                           {"--assign robin", "ring, least or random"},
                                           {"--policy static", "wisp, edf or fcfs"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char args[1300];
        snprintf(args, sizeof args, "%s%s", with, wrong[i][0]);
        program_refuses(wrong[i][1], args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_search),
                                       cmocka_unit_test(test_plot), cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
