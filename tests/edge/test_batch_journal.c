// SPDX-License-Identifier: Apache-2.0
// The journal of a batch: what was recorded is there after a resume, whatever byte the file ends
// with; it is refused where it does not belong; a full disk loses nothing; OUT has each task once,
// in the order of the tasks.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "edge/batch_journal.h"
#include "support/tiny_gguf.h"

#define TASKS 3

static char *out, part[512];
static const char *const ids[TASKS] = {"x", "y", "z"};

static int set_up(void **state)
{
    (void)state;
    out = tiny_temp_path();
    unlink(out);
    snprintf(part, sizeof part, "%s.part", out);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(out);
    unlink(part);
    free(out);
    return 0;
}

static ft_journal_opts options(bool resume)
{
    return (ft_journal_opts){
        .out = out, .resume = resume, .set = {.tasks = 11, .settings = 22}, .n = TASKS};
}

static ft_journal *open_journal(bool resume)
{
    const ft_journal_opts opts = options(resume);
    ft_journal *j;
    ft_error err = {0};
    if (ft_journal_open(&opts, &err, &j) != FT_OK)
        fail_msg("%s", err.message);
    return j;
}

static void assert_refused(const ft_journal_opts *opts, ft_status code, const char *says)
{
    ft_journal *j;
    ft_error err = {0};
    assert_int_equal(ft_journal_open(opts, &err, &j), code);
    assert_null(j);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not say '%s'", err.message, says);
}

static void add_ids(ft_journal *j, size_t task, int32_t first, size_t n)
{
    ft_task_answer *a = &ft_journal_answers(j)->answer[task];
    ft_error err = {0};
    for (size_t i = 0; i < n; i++) {
        const int32_t id = first + (int32_t)i;
        assert_int_equal(ft_tokens_append(&a->ids, &id, 1), FT_OK);
    }
    a->ttft_s = 0.25;
    ft_journal_answers(j)->clock_s += 1;
    assert_int_equal(ft_journal_keep(j, task, &err), FT_OK);
}

static void end_task(ft_journal *j, size_t task, const char *text)
{
    ft_task_answer *a = &ft_journal_answers(j)->answer[task];
    ft_error err = {0};
    a->text = strdup(text);
    a->finish = FT_FINISH_LENGTH;
    a->tokens = 9;
    a->total_s = 2.5;
    assert_int_equal(ft_journal_done(j, task, &err), FT_OK);
}

/* Task 1 is done; task 2 has the tokens 40 to 44, which were recorded in two parts. */
static void begin_batch(void)
{
    ft_journal *j = open_journal(false);
    add_ids(j, 2, 40, 2);
    add_ids(j, 1, 7, 4);
    end_task(j, 1, "caf\u00e9\n\"");
    add_ids(j, 2, 42, 3);
    ft_journal_close(j);
}

static void assert_begun(ft_journal *j)
{
    const ft_task_answers *a = ft_journal_answers(j);
    assert_true(a->n == TASKS && a->n_done == 1 && a->clock_s == 3);
    assert_true(!a->answer[0].done && a->answer[0].ids.n == 0);
    assert_true(a->answer[1].done && a->answer[1].ids.n == 0);
    assert_string_equal(a->answer[1].text, "caf\u00e9\n\"");
    assert_int_equal(a->answer[1].finish, FT_FINISH_LENGTH);
    assert_true(a->answer[1].tokens == 9 && a->answer[1].total_s == 2.5);
    assert_true(!a->answer[2].done && a->answer[2].ids.n == 5 && a->answer[2].ttft_s == 0.25);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(a->answer[2].ids.id[i], 40 + i);
}

static void test_resumes(void **state)
{
    (void)state;
    begin_batch();
    ft_journal *j = open_journal(true);
    assert_begun(j);
    ft_journal_close(j);
}

/* A journal that was cut anywhere holds a part of what was recorded, and goes on from there. */
static void test_torn(void **state)
{
    char *text;
    size_t n;
    ft_error err;
    (void)state;
    begin_batch();
    assert_int_equal(ft_file_read(part, 1 << 20, &err, &text, &n), FT_OK);
    for (size_t cut = 0; cut <= n; cut++) {
        FILE *file = fopen(part, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, cut, file), cut);
        fclose(file);
        ft_journal *j = open_journal(true);
        ft_task_answers *a = ft_journal_answers(j);
        const size_t had = a->answer[2].ids.n;
        assert_true(had == 0 || had == 2 || had == 5);
        assert_true(cut < n || had == 5);
        add_ids(j, 0, 90, 1); /* behind what was torn */
        ft_journal_close(j);
        j = open_journal(true);
        a = ft_journal_answers(j);
        assert_true(a->answer[0].ids.n == 1 && a->answer[0].ids.id[0] == 90);
        assert_int_equal(a->answer[2].ids.n, had);
        ft_journal_close(j);
    }
    free(text);
}

static void test_refuses(void **state)
{
    ft_journal_opts opts = options(false);
    (void)state;
    begin_batch();
    assert_refused(&opts, FT_PRECONDITION, "--resume");
    opts = options(true);
    opts.set.tasks++;
    assert_refused(&opts, FT_PRECONDITION, "tasks have changed");
    opts = options(true);
    opts.n++;
    assert_refused(&opts, FT_PRECONDITION, "tasks have changed");
    opts = options(true);
    opts.set.settings++;
    assert_refused(&opts, FT_PRECONDITION, "sampling");
    ft_journal *j = open_journal(true); /* it has lost nothing by that */
    assert_begun(j);
    opts = options(true);
    assert_refused(&opts, FT_UNAVAILABLE, "another process");
    ft_journal_close(j);
    unlink(part);
    FILE *file = fopen(out, "w");
    assert_non_null(file);
    fclose(file);
    opts = options(true);
    assert_refused(&opts, FT_PRECONDITION, "exists");
    assert_int_not_equal(access(part, F_OK), 0);
}

/* Lines that this program does not write. */
static void test_corrupt(void **state)
{
    static const char header[] =
        "{\"kind\":\"foretoken batch journal\",\"version\":1,\"tasks\":"
        "\"000000000000000b\",\"settings\":\"0000000000000016\",\"n\":3}\n";
    static const struct {
        const char *line, *says;
    } lines[] = {
        {"7\n", "line 2: not a JSON object"},
        {"{\"task\":3,\"at\":0,\"ids\":[1],\"ttft_s\":0,\"clock_s\":1}\n", "'task'"},
        {"{\"task\":-1,\"at\":0,\"ids\":[1],\"ttft_s\":0,\"clock_s\":1}\n", "'task'"},
        {"{\"task\":0,\"at\":1,\"ids\":[1],\"ttft_s\":0,\"clock_s\":1}\n", "'at'"},
        {"{\"task\":0,\"at\":0,\"ids\":[],\"ttft_s\":0,\"clock_s\":1}\n", "'ids'"},
        {"{\"task\":0,\"at\":0,\"ids\":[-5],\"ttft_s\":0,\"clock_s\":1}\n", "'ids'"},
        {"{\"task\":0,\"at\":0,\"ids\":[1],\"ttft_s\":-1,\"clock_s\":1}\n", "'ttft_s'"},
        {"{\"task\":0,\"at\":0,\"ids\":[1],\"ttft_s\":0}\n", "'clock_s'"},
        {"{\"task\":0,\"at\":0,\"ids\":[1],\"finish\":\"stop\",\"ttft_s\":0,\"clock_s\":1}\n",
         "'ids'"},
        {"{\"task\":0,\"finish\":\"none\",\"text\":\"\",\"tokens\":0,\"ttft_s\":0,\"total_s\":0,"
         "\"clock_s\":1}\n",
         "'finish'"},
        {"{\"task\":0,\"finish\":\"stop\",\"tokens\":0,\"ttft_s\":0,\"total_s\":0,\"clock_s\":1}\n",
         "'text'"},
        {"{\"task\":0,\"at\":0,\"ids\":[1],\"ttft_s\":0,\"clock_s\":2}\n"
         "{\"task\":0,\"at\":1,\"ids\":[1],\"ttft_s\":0,\"clock_s\":1}\n",
         "line 3: 'clock_s'"},
    };
    const ft_journal_opts opts = options(true);
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        FILE *file = fopen(part, "w");
        assert_non_null(file);
        fprintf(file, "%s%s", header, lines[i].line);
        fclose(file);
        assert_refused(&opts, FT_CORRUPT, lines[i].says);
    }
}

/* In a process that may not write files of more bytes than the journal has, and a few. */
static int write_until_full(void)
{
    struct stat st;
    ft_error err = {0};
    const ft_journal_opts opts = options(true);
    ft_journal *j;
    if (ft_journal_open(&opts, &err, &j) != FT_OK || stat(part, &st) != 0)
        return 1;
    const struct rlimit few = {(rlim_t)st.st_size + 20, (rlim_t)st.st_size + 20};
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &few) != 0)
        return 2;
    const int32_t id = 5;
    if (ft_tokens_append(&ft_journal_answers(j)->answer[0].ids, &id, 1) != FT_OK)
        return 3;
    const bool failed = ft_journal_keep(j, 0, &err) == FT_IO && strstr(err.message, part);
    const off_t before = st.st_size;
    const bool as_before = stat(part, &st) == 0 && st.st_size == before;
    ft_journal_close(j);
    return !failed ? 4 : !as_before ? 5 : 0;
}

static void test_full_disk(void **state)
{
    int status;
    (void)state;
    begin_batch();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(write_until_full());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ft_journal *j = open_journal(true);
    assert_begun(j);
    ft_journal_close(j);
}

static void assert_output(void)
{
    static const char *const texts[TASKS] = {"first", "caf\u00e9\n\"", ""};
    FILE *file = fopen(out, "r");
    assert_non_null(file);
    for (size_t i = 0; i < TASKS; i++) {
        json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
        assert_int_equal(json_object_size(line), 6);
        assert_string_equal(json_string_value(json_object_get(line, "id")), ids[i]);
        assert_string_equal(json_string_value(json_object_get(line, "text")), texts[i]);
        assert_string_equal(json_string_value(json_object_get(line, "finish")), "length");
        assert_int_equal(json_integer_value(json_object_get(line, "tokens")), 9);
        assert_true(json_real_value(json_object_get(line, "total_s")) == 2.5);
        assert_true(json_is_real(json_object_get(line, "ttft_s")));
        json_decref(line);
    }
    assert_int_equal(fgetc(file), '\n');
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void test_finishes(void **state)
{
    ft_error err = {0};
    const ft_journal_opts opts = options(false);
    (void)state;
    begin_batch();
    ft_journal *j = open_journal(true);
    end_task(j, 2, "");
    end_task(j, 0, "first");
    assert_int_equal(ft_journal_answers(j)->n_done, TASKS);
    ft_journal_close(j);
    j = open_journal(true); /* killed before the end */
    assert_int_equal(ft_journal_answers(j)->n_done, TASKS);
    assert_int_equal(ft_journal_finish(j, ids, &err), FT_OK);
    ft_journal_close(j);
    assert_output();
    assert_int_not_equal(access(part, F_OK), 0);
    assert_refused(&opts, FT_PRECONDITION, "exists");
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resumes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_torn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_corrupt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_finishes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
