// SPDX-License-Identifier: Apache-2.0
// `foretoken batch` as a program, with a server and tiny models: answers in the order of the tasks,
// the same however the tasks are batched; a batch that was killed ends with the same answers; what
// is wrong is said before anything runs.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

#define TASKS 9

static char *model, *tasks, *first, *second;
static program server;
static int port;

static void write_tasks(const char *last)
{
    FILE *file = fopen(tasks, "w");
    assert_non_null(file);
    for (int i = 0; i < TASKS; i++)
        fprintf(file, "{\"id\":\"task %d\",\"prompt\":\"hello %d\",\"max_tokens\":%d}\n", i, i * i,
                20 + 3 * i);
    fputs(last, file);
    fclose(file);
}

static int start_server(void)
{
    server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "-c", "256", "-ngl",
                                            "0", "--port", "0", NULL});
    port = program_wait_port(&server, "listening");
    return port > 0 ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    model = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3});
    tasks = tiny_temp_path();
    first = tiny_temp_path();
    second = tiny_temp_path();
    unlink(first);
    unlink(second);
    write_tasks("");
    return start_server();
}

static void remove_output(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s.part", path);
    unlink(path);
    unlink(part);
}

static int tear_down(void **state)
{
    (void)state;
    const int code = program_stop(&server);
    remove_output(first);
    remove_output(second);
    unlink(model);
    unlink(tasks);
    free(model);
    free(tasks);
    free(first);
    free(second);
    return code;
}

/* Runs it to its end; its report, NULL: it failed. */
static json_t *answer(const char *out, const char *more, int expected)
{
    int status;
    json_t *report =
        program_json(&status, "batch --server 127.0.0.1:%d -t 1 -ngl 0 '%s' -o '%s' --json %s",
                     port, tasks, out, more);
    assert_int_equal(status, expected);
    return report;
}

static json_t *read_answers(const char *path)
{
    FILE *file = fopen(path, "r");
    json_t *list = json_array(), *line;
    assert_non_null(file);
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)))
        json_array_append_new(list, line);
    fclose(file);
    return list;
}

/* The same ids in the same order, with the same texts. */
static void assert_same_answers(const char *a_path, const char *b_path)
{
    static const char *const fields[] = {"id", "text", "finish", "tokens"};
    json_t *a = read_answers(a_path), *b = read_answers(b_path);
    assert_int_equal(json_array_size(a), TASKS);
    assert_int_equal(json_array_size(b), TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        char id[16];
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        snprintf(id, sizeof id, "task %zu", i);
        assert_string_equal(json_string_value(json_object_get(x, "id")), id);
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            assert_true(json_equal(json_object_get(x, fields[k]), json_object_get(y, fields[k])));
        assert_true(program_number(x, "ttft_s") >= 0);
        assert_true(program_number(x, "total_s") >= program_number(x, "ttft_s"));
    }
    json_decref(a);
    json_decref(b);
}

static void test_answers(void **state)
{
    char more[512];
    (void)state;
    snprintf(more, sizeof more, "-md '%s' --batch 3 --length 4", model);
    json_t *report = answer(first, more, 0);
    assert_int_equal(program_number(report, "tasks"), TASKS);
    assert_true(program_number(report, "drafted") > 0);
    assert_true(program_number(report, "accepted") <= program_number(report, "drafted"));
    assert_true(program_number(report, "passes_per_batch") > 0);
    assert_true(program_number(report, "verify_s") > 0);
    assert_true(program_number(report, "planned_anew") >= 0);
    json_decref(report);
    snprintf(more, sizeof more, "-m '%s' --batch 1 --at-once 1", model); /* no drafts */
    report = answer(second, more, 0);
    assert_int_equal(program_number(report, "drafted"), 0);
    json_decref(report);
    assert_same_answers(first, second);
    assert_null(answer(first, more, 1)); /* it exists */
    remove_output(first);
    remove_output(second);
}

/* Killed when the sixth task begins: two are under way at once. */
static void test_killed(void **state)
{
    char more[512], address[32], part[512];
    (void)state;
    assert_int_equal(program_stop(&server), 0); /* a new one has said nothing of texts yet */
    assert_int_equal(start_server(), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(part, sizeof part, "%s.part", second);
    snprintf(more, sizeof more, "-md '%s' --length 3 --batch 2 --at-once 2", model);
    json_decref(answer(first, more, 0));
    for (int i = 0; i < TASKS; i++)
        assert_true(program_wait_number(&server, " opened", "prompt_tok=") > 0);
    program batch = program_start((const char *[]){"batch", "--server", address, "-md", model, "-t",
                                                   "1", "-ngl", "0", "--batch", "2", "--at-once",
                                                   "2", tasks, "-o", second, NULL});
    for (int i = 0; i < 6; i++)
        assert_true(program_wait_number(&server, " opened", "prompt_tok=") > 0);
    kill(batch.pid, SIGKILL);
    assert_int_equal(program_wait_end(&batch), 128 + SIGKILL);
    assert_int_not_equal(access(second, F_OK), 0);
    assert_int_equal(access(part, F_OK), 0);
    assert_null(answer(second, more, 1)); /* without --resume */
    snprintf(more, sizeof more, "-md '%s' --batch 4 --resume --temp 0.7", model);
    assert_null(answer(second, more, 1)); /* other settings */
    snprintf(more, sizeof more, "-md '%s' --batch 4 --resume", model);
    json_t *report = answer(second, more, 0);
    json_decref(report);
    assert_same_answers(first, second);
    assert_int_not_equal(access(part, F_OK), 0);
    remove_output(first);
    remove_output(second);
}

/* A server that is not there yet is waited for, as a lost one. */
static void test_server_comes_late(void **state)
{
    char address[32], number[16];
    (void)state;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(number, sizeof number, "%d", port);
    assert_int_equal(program_stop(&server), 0);
    program batch = program_start((const char *[]){"batch", "--server", address, "-md", model, "-t",
                                                   "1", "-ngl", "0", tasks, "-o", first, NULL});
    assert_true(program_wait_number(&batch, "server absent", "127.0.0.1:") == port);
    server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "-c", "256", "-ngl",
                                            "0", "--port", number, NULL});
    assert_int_equal(program_wait_port(&server, "listening"), port);
    assert_int_equal(program_wait_end(&batch), 0);
    assert_int_equal(access(first, F_OK), 0);
    remove_output(first);
}

static void test_refuses(void **state)
{
    char more[512];
    int status;
    (void)state;
    snprintf(more, sizeof more, "-md '%s'", model);
    write_tasks("{\"id\":\"task 3\",\"prompt\":\"again\"}\n");
    assert_null(answer(first, more, 1));
    write_tasks("{\"id\":\"long\",\"prompt\":\"a\",\"max_tokens\":256}\n"); /* the context is 256 */
    assert_null(answer(first, more, 1));
    write_tasks("");
    snprintf(more, sizeof more, "-md '%s' --seed -1", model);
    assert_null(answer(first, more, 2));
    snprintf(more, sizeof more, "-m '%s' --length 3", model); /* no draft model */
    assert_null(answer(first, more, 2));
    assert_null(answer(first, "", 2)); /* no model */
    json_decref(program_json(&status, "batch --server 127.0.0.1:%d -md '%s' '%s'", port, model,
                             tasks)); /* no output */
    assert_int_equal(status, 2);
    json_decref(
        program_json(&status, "batch -md '%s' '%s' -o '%s'", model, tasks, first)); /* no server */
    assert_int_equal(status, 2);
    assert_int_not_equal(access(first, F_OK), 0);
}

/* A plan before anything runs wants costs, and no server unless a task has no limit. */
static void test_dry_run(void **state)
{
    static const double us[2][2] = {{100, 10}, {1000, 20}};
    char *costs[2], more[1024];
    size_t n = 0, i;
    json_t *batch;
    int status;
    (void)state;
    for (int k = 0; k < 2; k++) {
        json_t *root = json_pack("{s:s, s:s, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "kind",
                                 "foretoken verify-time", "model", "m", "error", 0.1, "us", "pass",
                                 us[k][0], "row", us[k][1], "logits_row", 0.0, "interaction", 0.0,
                                 "cached_tok", 0.0, "head", 0.0);
        costs[k] = tiny_temp_path();
        assert_int_equal(json_dump_file(root, costs[k], 0), 0);
        json_decref(root);
    }
    write_tasks("");
    program_refuses("--costs-draft FILE", "batch --dry-run -md '%s' '%s'", model, tasks);
    snprintf(more, sizeof more, "--dry-run -md '%s' --costs-draft '%s' --costs-verify '%s' '%s'",
             model, costs[0], costs[1], tasks);
    json_t *plan = program_json(&status, "batch %s --json --acceptance 0.9", more);
    assert_int_equal(status, 0);
    assert_string_equal(json_string_value(json_object_get(plan, "algorithm")), "best");
    assert_true(program_number(plan, "length") > 0 && program_number(plan, "length") <= 10);
    assert_true(program_number(plan, "total_s") > 0 && program_number(plan, "t_inf_s") > 0);
    json_array_foreach(json_object_get(plan, "batches"), i, batch) n +=
        json_array_size(json_object_get(batch, "tasks"));
    assert_int_equal(n, TASKS);
    json_decref(plan);
    plan = program_json(&status, "batch %s --json --algorithm static --batch 4 --length 2", more);
    assert_int_equal(json_array_size(json_object_get(plan, "batches")), 3);
    assert_int_equal(program_number(plan, "length"), 2);
    json_decref(plan);
    plan = program_json(&status, "batch %s --json --acceptance 0", more); /* drafts are in vain */
    assert_int_equal(program_number(plan, "length"), 0);
    json_decref(plan);
    write_tasks("{\"id\":\"free\",\"prompt\":\"a\"}\n");
    program_refuses("has no max_tokens", "batch %s", more);
    json_decref(program_json(&status, "batch %s --server 127.0.0.1:%d --json", more, port));
    assert_int_equal(status, 0);
    json_decref(program_json(&status, "batch %s --ctx-size 128 --json", more));
    assert_int_equal(status, 0);
    for (int k = 0; k < 2; k++) {
        unlink(costs[k]);
        free(costs[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),           cmocka_unit_test(test_killed),
        cmocka_unit_test(test_server_comes_late), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_dry_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
