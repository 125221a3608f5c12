// SPDX-License-Identifier: Apache-2.0
// Files of tasks: what is read, and for each thing that may be wrong a message that names the line,
// the field and what it may be.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "edge/batch_tasks.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

#define SEED 7

static ft_status read_text(const char *text, ft_error *err, ft_tasks *out)
{
    return ft_tasks_read(text, strlen(text), SEED, err, out);
}

/* The text is refused, and the message has all of `says`, parts of which "|" separates. */
static void assert_refused(const char *text, const char *says)
{
    ft_tasks tasks;
    ft_error err = {0};
    char parts[256];
    ft_status status = read_text(text, &err, &tasks);
    assert_true(status == FT_INVALID || status == FT_TOO_LARGE);
    assert_true(tasks.n == 0 && !tasks.task);
    snprintf(parts, sizeof parts, "%s", says);
    for (char *part = strtok(parts, "|"); part; part = strtok(NULL, "|"))
        if (!strstr(err.message, part))
            fail_msg("'%s' does not say '%s'", err.message, part);
}

static void test_reads(void **state)
{
    ft_tasks tasks, again;
    ft_error err;
    (void)state;
    assert_int_equal(read_text("{\"id\":\"a\",\"prompt\":\"one\",\"max_tokens\":5,\"seed\":-1}\n"
                               "\n  \r\n"
                               "{\"id\":\"b\",\"messages\":[{\"role\":\"system\",\"content\":\"\"},"
                               "{\"role\":\"user\",\"content\":\"two\"}],\"release_s\":1.5}",
                               &err, &tasks),
                     FT_OK);
    assert_int_equal(tasks.n, 2);
    assert_string_equal(tasks.task[0].id, "a");
    assert_string_equal(tasks.task[0].prompt, "one");
    assert_int_equal(tasks.task[0].max_tokens, 5);
    assert_true(tasks.task[0].seed == UINT64_MAX && tasks.task[0].release_s == 0);
    assert_int_equal(tasks.task[1].line, 4);
    assert_null(tasks.task[1].prompt);
    assert_int_equal(tasks.task[1].n_messages, 2);
    assert_string_equal(tasks.task[1].messages[1].role, "user");
    assert_string_equal(tasks.task[1].messages[1].content, "two");
    assert_int_equal(tasks.task[1].max_tokens, 0);
    assert_true(tasks.task[1].release_s == 1.5);
    assert_int_equal(read_text("{\"id\":\"a\",\"prompt\":\"one\"}", &err, &again), FT_OK);
    assert_true(again.hash != tasks.hash);
    ft_tasks_deinit(&again);
    ft_tasks_deinit(&tasks);
}

/* Tasks without seeds do not share noise, and each has the same seed wherever it stands. */
static void test_seeds(void **state)
{
    static const char both[] = "{\"id\":\"x\",\"prompt\":\"p\"}\n{\"id\":\"y\",\"prompt\":\"p\"}\n";
    static const char turned[] =
        "{\"id\":\"y\",\"prompt\":\"p\"}\n{\"id\":\"x\",\"prompt\":\"q\"}\n";
    ft_tasks a, b, c;
    ft_error err;
    (void)state;
    assert_int_equal(read_text(both, &err, &a), FT_OK);
    assert_int_equal(read_text(turned, &err, &b), FT_OK);
    assert_int_equal(ft_tasks_read(both, strlen(both), SEED + 1, &err, &c), FT_OK);
    assert_true(a.task[0].seed != a.task[1].seed);
    assert_true(a.task[0].seed == b.task[1].seed && a.task[1].seed == b.task[0].seed);
    assert_true(a.task[0].seed != c.task[0].seed);
    ft_tasks_deinit(&a);
    ft_tasks_deinit(&b);
    ft_tasks_deinit(&c);
}

static void test_refuses(void **state)
{
    char long_id[200];
    (void)state;
    assert_refused("", "no task");
    assert_refused(" \n\t\n", "no task");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\"}\n[]\n", "line 2|JSON object");
    assert_refused("\n{\"id\":\"a\"", "line 2|column");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"id\":\"b\"}", "line 1|duplicate");
    assert_refused("{\"prompt\":\"p\"}", "line 1|'id'|1 to 128 bytes");
    assert_refused("{\"id\":3,\"prompt\":\"p\"}", "'id'");
    assert_refused("{\"id\":\"\",\"prompt\":\"p\"}", "'id'");
    assert_refused("{\"id\":\"a\\n\",\"prompt\":\"p\"}", "'id'|control");
    snprintf(long_id, sizeof long_id, "{\"id\":\"%0129d\",\"prompt\":\"p\"}", 1);
    assert_refused(long_id, "'id'|128");
    assert_refused("{\"id\":\"a\"}", "either 'prompt' or 'messages'");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"messages\":[]}", "not both");
    assert_refused("{\"id\":\"a\",\"prompt\":\"\"}", "'prompt'|not empty");
    assert_refused("{\"id\":\"a\",\"prompt\":[1,2]}", "'prompt'");
    assert_refused("{\"id\":\"a\",\"messages\":[]}", "'messages'|1 to 1024");
    assert_refused("{\"id\":\"a\",\"messages\":[{\"role\":\"cat\",\"content\":\"c\"}]}",
                   "'role' of message 1|assistant");
    assert_refused("{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":1}]}",
                   "message 1|'content'");
    assert_refused("{\"id\":\"a\",\"messages\":[7]}", "message 1");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"max_token\":3}", "'max_token'|max_tokens");
}

static void test_refuses_numbers(void **state)
{
    (void)state;
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"max_tokens\":0}", "'max_tokens'|1 to");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"max_tokens\":2147483648}", "'max_tokens'");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"max_tokens\":2.0}", "'max_tokens'|whole");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"seed\":1.5}", "'seed'|64 bits");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"seed\":99999999999999999999}", "line 1|big");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"release_s\":-0.1}", "'release_s'|0 to");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"release_s\":1e7}", "'release_s'");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"release_s\":\"1\"}", "'release_s'");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"release_s\":NaN}", "line 1, column");
    assert_refused("{\"id\":\"a\",\"prompt\":\"p\",\"release_s\":1e999}", "line 1, column");
}

static void test_repeated_ids(void **state)
{
    (void)state;
    assert_refused("{\"id\":\"b\",\"prompt\":\"p\"}\n{\"id\":\"a\",\"prompt\":\"p\"}\n"
                   "{\"id\":\"c\",\"prompt\":\"p\"}\n{\"id\":\"b\",\"prompt\":\"p\"}\n"
                   "{\"id\":\"a\",\"prompt\":\"p\"}\n",
                   "line 4|'id' b|line 1");
}

/* n tasks; the last line is `last`. The caller frees it. */
static char *many(size_t n, const char *last)
{
    char *text = malloc(40 * n + strlen(last) + 1);
    size_t at = 0;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, "{\"id\":\"%zu\",\"prompt\":\"p\"}\n", i);
    strcpy(text + at, last);
    return text;
}

static void test_sizes(void **state)
{
    ft_tasks tasks;
    ft_error err;
    char *text = many(FT_TASKS_MAX, "");
    (void)state;
    assert_int_equal(read_text(text, &err, &tasks), FT_OK);
    assert_int_equal(tasks.n, FT_TASKS_MAX);
    ft_tasks_deinit(&tasks);
    free(text);
    text = many(FT_TASKS_MAX, "{\"id\":\"more\",\"prompt\":\"p\"}");
    assert_refused(text, "line 16385|16384 tasks");
    free(text);
    text = malloc(FT_TASK_LINE_MAX + 2);
    assert_non_null(text);
    memset(text, ' ', FT_TASK_LINE_MAX + 1);
    text[0] = '{';
    text[FT_TASK_LINE_MAX + 1] = 0;
    assert_refused(text, "line 1|at most 4194304");
    free(text);
}

static void test_load(void **state)
{
    ft_tasks tasks;
    ft_error err;
    char *path = tiny_temp_path();
    FILE *file = fopen(path, "w");
    (void)state;
    assert_non_null(file);
    fputs("{\"id\":\"a\",\"prompt\":\"p\"}\n{\"id\":\"a\",\"prompt\":\"p\"}\n", file);
    fclose(file);
    assert_int_equal(ft_tasks_load(path, SEED, &err, &tasks), FT_INVALID);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "line 2"));
    assert_int_equal(ft_tasks_load("/nowhere/at/all", SEED, &err, &tasks), FT_IO);
    assert_int_equal(ft_tasks_load("/", SEED, &err, &tasks), FT_IO);
    unlink(path);
    free(path);
}

static bool is_set(void *ctx)
{
    return *(bool *)ctx;
}

static void test_tokenizes(void **state)
{
    ft_tasks tasks;
    bool stop = false;
    ft_tokenize_limits limits = {is_set, &stop, 1000};
    ft_error err;
    ft_vocab *vocab = tiny_vocab();
    (void)state;
    assert_int_equal(read_text("{\"id\":\"a\",\"prompt\":\"hello\"}\n"
                               "{\"id\":\"b\",\"prompt\":\"hello hello\",\"max_tokens\":20}",
                               &err, &tasks),
                     FT_OK);
    assert_int_equal(ft_tasks_tokenize(&tasks, vocab, &limits, &err), FT_OK);
    const size_t n = tasks.task[1].tokens.n;
    assert_true(tasks.task[0].tokens.n > 0 && n > tasks.task[0].tokens.n);
    ft_tasks_deinit(&tasks);
    /* Room for the prompt and one token fewer than asked for. */
    assert_int_equal(
        read_text("{\"id\":\"b\",\"prompt\":\"hello hello\",\"max_tokens\":20}", &err, &tasks),
        FT_OK);
    limits.max_tok = n + 19;
    assert_int_equal(ft_tasks_tokenize(&tasks, vocab, &limits, &err), FT_TOO_LARGE);
    assert_non_null(strstr(err.message, "line 1"));
    assert_non_null(strstr(err.message, "task b"));
    /* Where it has no room in memory the message says what would fit, and that is true. */
    ft_tasks_deinit(&tasks);
    limits.max_tok = 1000;
    assert_int_equal(
        read_text("{\"id\":\"b\",\"prompt\":\"hello hello\",\"max_tokens\":20}", &err, &tasks),
        FT_OK);
    assert_int_equal(ft_tasks_tokenize(&tasks, vocab, &limits, &err), FT_OK);
    const uint32_t room = (uint32_t)ft_task_room_tok(&tasks.task[0], 1000);
    assert_int_equal(ft_tasks_check_room(&tasks, 1000, room, &err), FT_OK);
    assert_int_equal(ft_tasks_check_room(&tasks, 1000, room - 3, &err), FT_TOO_LARGE);
    assert_non_null(strstr(err.message, "task b"));
    assert_non_null(strstr(err.message, "max_tokens 17 "));
    tasks.task[0].max_tokens = 17;
    assert_int_equal(ft_tasks_check_room(&tasks, 1000, room - 3, &err), FT_OK);
    assert_int_equal(ft_tasks_check_room(&tasks, 1000, 5, &err), FT_TOO_LARGE);
    assert_non_null(strstr(err.message, "shorten"));
    stop = true;
    assert_int_equal(ft_tasks_tokenize(&tasks, vocab, &limits, &err), FT_CANCELLED);
    ft_tasks_deinit(&tasks);
    ft_vocab_destroy(vocab);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_refuses),      cmocka_unit_test(test_refuses_numbers),
        cmocka_unit_test(test_repeated_ids), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_load),         cmocka_unit_test(test_tokenizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
