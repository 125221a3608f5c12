// SPDX-License-Identifier: Apache-2.0
// `foretoken run` on tiny models: however it is told to draft (gen_flags.c) the text is the
// target's own, the statistics show that the flag was heard, and flags that say nothing are
// refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/device.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

static char *target, *draft;

/* Of this seed, so that the text has no NUL, which the reader of JSON refuses. */
static int set_up(void **state)
{
    target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3});
    draft = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3});
    return target && draft ? 0 : -1;
}

static int tear_down(void **state)
{
    unlink(target);
    unlink(draft);
    free(target);
    free(draft);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return program_json(status,
                        "run -m '%s' -md '%s' -p 'hello there' --raw -n 40 -t 1 --seed 5 --json %s",
                        target, draft, args);
}

static const struct {
    const char *args;
    double passes, nodes;    /* a round at most */
    bool drafts, speculates; /* may, must */
} ways[] = {
    {"--no-speculation", 0, 0, false, false},
    {"--spec-draft-n-max 0", 0, 0, false, false},
    {"--draft auto", 16, 32, true, false},
    {"", 16, 32, true, false},
    {"--depth 1", 1, 32, true, false},
    {"--depth pipeline --proactive", 16, 32, true, false},
    {"--depth latency --spec-draft-n-max 5", 5, 5, true, false},
    {"--draft 3", 3, 3, true, true},
    {"--draft 3 --depth 2", 2, 3, true, true},
    {"--draft tree:9", 7, 9, true, true},
    {"--draft tree:9:2 --draft-width 2", 2, 9, true, true},
    {"--draft tree:32:4 --proactive", 4, 32, true, true},
    {"--draft tree:32:4 --depth latency --proactive", 4, 32, true, true},
    {"--draft tree:32 --spec-draft-n-max 6", 6, 6, true, true},
    {"--draft tree:32:4 --grow best", 4, 32, true, true},
    {"--draft tree:32:4 --grow pacer", 4, 32, true, true},
    {"--draft tree:12:12 --draft-width 1 --grow pacer --proactive", 12, 12, true, true},
    {"--draft auto --grow pacer", 16, 32, true, false},
    {"--draft 16 --depth fallback --alpha 0.99", 4, 4, true, true},
    {"--draft 16 --depth fallback --alpha 1e-6", 16, 16, true, true},
    {"--draft tree:32:8 --depth fallback --proactive", 8, 32, true, true},
    {"--draft tree:32:16 --grow pacer --depth fallback", 16, 32, true, true},
    {"--draft auto --depth fallback", 16, 32, true, false},
    {"--draft tree:32:8 --grow fixed", 8, 20, true, true},
    {"--draft tree:32:2 --grow fixed:3,2 --proactive", 2, 9, true, true},
    {"--draft auto --grow fixed:2,2,2", 16, 14, true, false},
    {"--draft-source model --draft 3", 3, 3, true, true},
    {"--draft-source both --draft tree:32:4", 4, 32, true, true},
    {"--draft-source both --proactive", 16, 32, true, false},
    {"--draft-source lookup", 32, 32, true, false},
    {"--draft-source lookup --draft tree:32:16 --proactive", 16, 32, true, false},
};

/* The speed is that of the tokens behind the first piece, which may be a whole tree's. */
static void check_speed(const json_t *answer)
{
    const json_t *decode = json_object_get(answer, "decode");
    const double ms = program_number(decode, "ms"), tokens = program_number(decode, "tokens");
    assert_true(tokens > 0 && tokens < program_number(answer, "tokens"));
    assert_float_equal(program_number(answer, "tokens_per_s") * ms / 1e3, tokens, 1e-3f);
}

static void test_every_way_to_draft(void **state)
{
    char *text = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int status = -1;
        json_t *o = run(ways[i].args, &status);
        assert_int_equal(status, 0);
        assert_non_null(o);
        const char *mine = json_string_value(json_object_get(o, "text"));
        assert_non_null(mine);
        if (!text)
            text = strdup(mine);
        else if (!test_device()) /* there, rounding may choose between two tokens: test_device.c */
            assert_string_equal(mine, text);
        check_speed(o);
        double rounds = program_number(o, "rounds");
        assert_true(ways[i].drafts || rounds == 0);
        assert_true(!ways[i].speculates || rounds > 0);
        assert_true(program_number(o, "drafted") <= ways[i].nodes * rounds);
        assert_true(program_number(o, "mean_depth") <= ways[i].nodes);
        assert_true(rounds > 0 || program_number(o, "run_tokens") >= program_number(o, "tokens"));
        const double proactive = program_number(o, "proactive_forwards");
        if (!strstr(ways[i].args, "--proactive"))
            assert_true(proactive == 0);
        if (ways[i].speculates) /* and the prompt, and what the last run of one token brought */
            assert_true(program_number(o, "forwards") - proactive <= ways[i].passes * rounds + 3);
        const double align = program_number(o, "proactive_align_ratio");
        assert_true(align >= 0 && align <= 1);
        assert_true(program_number(o, "proactive_gain_tokens") >= 0);
        json_decref(o);
    }
    free(text);
}

/* The file that was checked is the one that is read, whatever happens to its path meanwhile. */
static void test_files_are_opened_once(void **state)
{
    const char *const paths[] = {target, draft};
    for (int i = 0; i < 2; i++) {
        struct inotify_event events[256];
        const int watch = inotify_init1(IN_NONBLOCK);
        int status = -1, n_opens = 0;
        /* Equal events without another one between them are told once. */
        assert_true(inotify_add_watch(watch, paths[i], IN_OPEN | IN_ACCESS | IN_CLOSE) >= 0);
        json_decref(run("--draft 3 --no-pack-cache", &status)); /* else it need not be opened */
        assert_int_equal(status, 0);
        const ssize_t n = read(watch, events, sizeof events);
        for (ssize_t k = 0; k < n / (ssize_t)sizeof *events; k++)
            n_opens += (events[k].mask & IN_OPEN) != 0;
        assert_int_equal(n_opens, 1);
        close(watch);
    }
}

static void test_what_says_nothing(void **state)
{
    static const char *const args[] = {"--draft 0",
                                       "--draft 257",
                                       "--draft x",
                                       "--draft tree:",
                                       "--draft tree:0",
                                       "--draft tree:8:0",
                                       "--draft tree:8:2x",
                                       "--draft ''",
                                       "--depth 0",
                                       "--depth deep",
                                       "--draft 4 --depth pipeline",
                                       "--alpha 0.1",
                                       "--depth latency --alpha 0.1",
                                       "--depth 3 --alpha 0.1",
                                       "--depth fallback --alpha 1",
                                       "--depth fallback --alpha 1e-9",
                                       "--depth fallback --alpha nan",
                                       "--provisional",
                                       "--prompts /no/file",
                                       "--grow ''",
                                       "--grow worst",
                                       "--grow fixedly",
                                       "--grow fixed:",
                                       "--grow fixed:2,",
                                       "--grow fixed:2,0",
                                       "--grow fixed:17",
                                       "--grow fixed:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                                       "--draft 4 --grow fixed",
                                       "--draft 4 --grow pacer"};
    for (size_t i = 0; i < sizeof args / sizeof args[0]; i++) {
        int status = -1;
        json_t *o = run(args[i], &status);
        assert_null(o);
        assert_int_equal(status, 2);
    }
}

/* A file of prompts: each is answered as if it were alone, and text before it is forgotten. */
static void test_file_of_prompts(void **state)
{
    static const char *const prompts[] = {"hello there", "one two three"};
    char path[] = "/tmp/prompts-XXXXXX";
    const int fd = mkstemp(path);
    int status = -1;
    (void)state;
    dprintf(fd, "{\"prompt\":\"%s\"}\n{\"turns\":[\"%s\"]}\n", prompts[0], prompts[1]);
    close(fd);
    json_t *o =
        program_json(&status, "run -m '%s' -md '%s' --prompts %s --raw -n 20 -t 1 --seed 5 --json",
                     target, draft, path);
    const json_t *answers = json_object_get(o, "answers");
    assert_int_equal(status, 0);
    assert_int_equal(json_array_size(answers), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *answer = json_array_get(answers, i);
        json_t *alone =
            program_json(&status, "run -m '%s' -md '%s' -p '%s' --raw -n 20 -t 1 --seed 5 --json",
                         target, draft, prompts[i]);
        assert_string_equal(json_string_value(json_object_get(answer, "text")),
                            json_string_value(json_object_get(alone, "text")));
        assert_true(program_number(answer, "start_ms") >= program_number(answer, "ttft_ms"));
        json_decref(alone);
    }
    json_decref(o);
    unlink(path);
    program_refuses("--prompts goes with --json", "run -m '%s' --prompts %s", target, path);
    program_refuses("/no/file", "run -m '%s' --prompts /no/file --json", target);
}

/* What a command says on standard error when nobody asks for its log; the first byte is enough. */
static int first_word(const char *command)
{
    char line[1024];
    snprintf(line, sizeof line, "unset FORETOKEN_LOG; '%s' %s 2>&1 >/dev/null", getenv("FT_BINARY"),
             command);
    FILE *said = popen(line, "r");
    assert_non_null(said);
    int first = fgetc(said);
    assert_int_equal(pclose(said), 0);
    return first;
}

static void test_no_log_unless_asked(void **state)
{
    char command[512];
    snprintf(command, sizeof command, "run -m '%s' -md '%s' -p hello --raw -n 4 -t 1 --json",
             target, draft);
    assert_int_equal(first_word(command), EOF);
    snprintf(command, sizeof command, "info '%s'", target);
    assert_int_equal(first_word(command), EOF);
}

/* Standard error of an answer. */
static void say_of(const char *args, char *said, size_t n)
{
    char command[1024];
    snprintf(command, sizeof command,
             "'%s' run -m '%s' -md '%s' -p 'hello there' --raw -n 40 -t 1 --seed 5 --no-memory %s "
             "2>&1 >/dev/null",
             getenv("FT_BINARY"), target, draft, args);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    said[fread(said, 1, n - 1, out)] = 0;
    assert_int_equal(pclose(out), 0);
}

/* Two lines more, about what the answer's statistics say. */
static void test_verbose(void **state)
{
    char said[4096];
    unsigned passes, ahead, kept, rounds, alone;
    (void)state;
    say_of("--draft 3", said, sizeof said);
    assert_null(strstr(said, "[draft:"));
    say_of("--draft 3 --verbose", said, sizeof said);
    const char *at_draft = strstr(said, "\n[draft: "), *at_target = strstr(said, "\n[target: ");
    assert_true(at_draft && at_target && at_draft < at_target);
    assert_int_equal(sscanf(at_draft,
                            "\n[draft: %u passes of %*f ms on 1 of 1 threads; %u ahead of a "
                            "verdict, %u tokens of them kept]",
                            &passes, &ahead, &kept),
                     3);
    assert_true(passes > 0 && ahead == 0 && kept == 0);
    assert_int_equal(sscanf(at_target,
                            "\n[target: %u passes of %*f ms on 1 of 1 threads; behind a draft in "
                            "%u rounds, for %u tokens without one]",
                            &passes, &rounds, &alone),
                     3);
    assert_true(passes >= rounds && rounds > 0 && alone < 40);
    say_of("--draft 3 --verbose --proactive", said, sizeof said);
    at_draft = strstr(said, "\n[draft: ");
    assert_int_equal(sscanf(at_draft, "\n[draft: %u passes of %*f ms on 1 of 1 threads; %u ahead",
                            &passes, &ahead),
                     2);
    assert_true(passes >= ahead);
    assert_int_equal(strstr(said, "rounds, beside the next one, for") != NULL, ahead > 0);
    say_of("--no-speculation --verbose", said, sizeof said);
    assert_non_null(strstr(said, "\n[draft: no model; 0 ahead"));
    assert_non_null(strstr(said, "behind a draft in 0 rounds"));
    program_refuses("--verbose is for text", "run -m '%s' -p hello --json --verbose", target);
}

/* ---- what is kept ---- */

#define ON_CPU "--device none --device-draft none" /* devices pack nothing */

/* Packed weights are in the cache folder, where a second start finds them; the text is the same. */
static void test_pack_cache(void **state)
{
    char cache[] = "/tmp/foretoken-test-XXXXXX", folder[100], command[200];
    char *before = strdup(getenv("XDG_CACHE_HOME"));
    int status;
    (void)state;
    assert_non_null(mkdtemp(cache));
    snprintf(folder, sizeof folder, "%s/foretoken/packed", cache);
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
    json_t *without = run("--no-pack-cache " ON_CPU, &status);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(folder, F_OK), 0);
    for (int i = 0; i < 2; i++) {
        json_t *o = run(ON_CPU, &status);
        assert_int_equal(status, 0);
        assert_string_equal(json_string_value(json_object_get(o, "text")),
                            json_string_value(json_object_get(without, "text")));
        json_decref(o);
        snprintf(command, sizeof command, "test $(ls %s/*.gguf | wc -l) -eq 1", folder);
        assert_int_equal(system(command), 0); /* target and draft are of one content */
    }
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", before, 1), 0);
    free(before);
    json_decref(without);
}

/* ---- provisional text ---- */

/* Makes a string of it: without the control characters that a tiny model writes and a terminal
 * changes, and without what erases to the end of the line. */
static void without_controls(char *text, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(text + i, "\033[K", 3) == 0)
            i += 2;
        else if ((unsigned char)text[i] >= ' ' || text[i] == '\033')
            text[kept++] = text[i];
    text[kept] = 0;
}

/* Removes the dimmed text, which must stand between the two sequences, and counts it. */
static size_t remove_dimmed(char *text)
{
    static const char before[] = "\0337\033[?7l\033[2m", behind[] = "\033[0m\033[?7h\0338";
    size_t n = 0;
    for (char *at; (at = strstr(text, before)) != NULL; n++) {
        char *end = strstr(at, behind);
        assert_non_null(end);
        assert_true(end > at + strlen(before));
        memmove(at, end + strlen(behind), strlen(end + strlen(behind)) + 1);
    }
    return n;
}

/* Text that is erased again leaves no trace: the terminal gets the text that --json has, and
 * erasing sequences. */
static void test_provisional_text(void **state)
{
    char command[1024], said[65536], expected[65536];
    int status = -1;
    json_t *o = run("--draft 4", &status);
    assert_non_null(o);
    const json_t *text = json_object_get(o, "text");
    snprintf(command, sizeof command,
             "script -qec \"'%s' run -m '%s' -md '%s' -p 'hello there' --raw -n 40 -t 1 --seed 5 "
             "--draft 4 --provisional 2>/dev/null\" /dev/null </dev/null",
             getenv("FT_BINARY"), target, draft);
    FILE *terminal = popen(command, "r");
    assert_non_null(terminal);
    without_controls(said, fread(said, 1, sizeof said - 1, terminal));
    assert_int_equal(pclose(terminal), 0);
    memcpy(expected, json_string_value(text), json_string_length(text));
    without_controls(expected, json_string_length(text));
    assert_true(remove_dimmed(said) > 0);
    assert_string_equal(said, expected);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_draft),
        cmocka_unit_test(test_files_are_opened_once),
        cmocka_unit_test(test_what_says_nothing),
        cmocka_unit_test(test_provisional_text),
        cmocka_unit_test(test_no_log_unless_asked),
        cmocka_unit_test(test_file_of_prompts),
        cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_pack_cache),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
