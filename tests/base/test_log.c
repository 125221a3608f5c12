// SPDX-License-Identifier: Apache-2.0
// Log lines and progress, read from standard error put on a pipe, a file or a pseudo-terminal.
#include <fcntl.h>
#include <pthread.h>
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

#include "base/log.h"
#include "base/progress.h"

static int saved = -1, source = -1;

/* Standard error goes to fd from here on; what is read back comes from `from`. */
static void redirect(int fd, int from)
{
    fflush(stderr);
    saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    source = from;
}

static void redirect_to_pipe(void)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    redirect(fds[1], fds[0]);
}

/* Ends the redirection; the text since then, NUL-terminated. */
static size_t read_back(char *text, size_t size)
{
    size_t n = 0;
    ssize_t got;
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    while (n + 1 < size && (got = read(source, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    close(source);
    text[n] = 0;
    return n;
}

static void test_line_format(void **state)
{
    char text[4096], day[16], level[16], room[16], rest[64];
    int ms = -1;
    redirect_to_pipe();
    FT_LOGI("serve", "session=%s prompt_tok=%u", "ab12", 7u);
    read_back(text, sizeof text);
    assert_int_equal(
        sscanf(text, "%10sT%*d:%*d:%*d.%3dZ %15s %15[^:]: %63[^\n]", day, &ms, level, room, rest),
        5);
    assert_int_equal(strlen(day), 10);
    assert_true(day[4] == '-' && day[7] == '-');
    assert_true(ms >= 0 && ms < 1000);
    assert_string_equal(level, "info");
    assert_string_equal(room, "serve");
    assert_string_equal(rest, "session=ab12 prompt_tok=7");
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void log_each_level(void)
{
    FT_LOGD("base", "d");
    FT_LOGI("base", "i");
    FT_LOGW("base", "w");
    FT_LOGE("base", "e");
}

static void test_levels(void **state)
{
    static const char *const names[] = {" debug base: d\n", " info base: i\n", " warn base: w\n",
                                        " error base: e\n"};
    char text[4096];
    for (int level = FT_LOG_DEBUG; level <= FT_LOG_ERROR; level++) {
        redirect_to_pipe();
        ft_log_set_level((ft_log_level)level);
        log_each_level();
        read_back(text, sizeof text);
        for (int i = 0; i < 4; i++)
            assert_int_equal(strstr(text, names[i]) != NULL, i >= level);
    }
    ft_log_set_level(FT_LOG_INFO);
}

static void test_foreign_text_stays_on_its_line(void **state)
{
    char text[4096];
    redirect_to_pipe();
    FT_LOGI("http", "path=%s", "/x\n2026-01-01 error base: forged\r\x1b[2J");
    size_t n = read_back(text, sizeof text);
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\x1b'));
}

static void test_long_lines_are_cut(void **state)
{
    static char big[5000], text[8192];
    memset(big, 'x', sizeof big - 1);
    for (size_t len = 940; len < 1040; len++) { /* around the line's capacity */
        redirect_to_pipe();
        FT_LOGI("base", "%.*s", (int)len, big);
        size_t n = read_back(text, sizeof text);
        assert_true(n <= 1024);
        assert_int_equal(text[n - 1], '\n');
        assert_int_equal(text[n - 2], 'x');
        assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    }
}

static void *log_many(void *name)
{
    for (int i = 0; i < 200; i++)
        FT_LOGI("base", "thread=%s %s=%s", (const char *)name, (const char *)name,
                (const char *)name);
    return NULL;
}

static void test_threads_do_not_mix(void **state)
{
    static char text[1 << 20];
    static const char *const names[] = {"aaaa", "bbbb", "cccc", "dddd"};
    char path[] = "/tmp/ft_test_log_XXXXXX";
    pthread_t threads[4];
    int fd = mkstemp(path), lines = 0;
    assert_true(fd >= 0);
    int reader = open(path, O_RDONLY);
    unlink(path);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    redirect(fd, reader);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, (void *)names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    read_back(text, sizeof text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        char a[8], b[8], c[8];
        const char *at = strstr(line, "thread=");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "thread=%7s %7[^=]=%7s", a, b, c), 3);
        assert_string_equal(a, b);
        assert_string_equal(b, c);
    }
    assert_int_equal(lines, 800);
}

static void test_progress_is_silent_off_a_terminal(void **state)
{
    char text[256];
    redirect_to_pipe();
    ft_progress progress = ft_progress_terminal("loading");
    ft_progress_report(&progress, 1, 2);
    ft_progress_report(&progress, 2, 2);
    ft_progress_report(NULL, 2, 2);
    assert_int_equal(read_back(text, sizeof text), 0);
    assert_null(progress.report);
}

static void test_progress_draws_on_a_terminal(void **state)
{
    char text[4096] = "";
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        print_message("no pseudo-terminals here: skipped\n");
        skip();
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    int keep = dup(slave); /* so that reading the master does not fail after the redirection */
    redirect(slave, -1);
    ft_progress progress = ft_progress_terminal("loading");
    if (progress.report) {
        for (uint64_t done = 0; done <= 200; done++)
            ft_progress_report(&progress, done, 200);
        ft_progress_report(&progress, 0, 0);
    }
    bool drew = progress.report != NULL;
    read_back(text, sizeof text);
    /* A terminal hands over what was written piece by piece. */
    ssize_t n = 0, more = 1;
    while (drew && more > 0 && !strstr(text, "100 %\r\033[K")) {
        more = read(master, text + n, sizeof text - 1 - (size_t)n);
        n += more > 0 ? more : 0;
        text[n] = 0;
    }
    close(keep);
    close(master);
    assert_true(drew && n > 0);
    assert_non_null(strstr(text, "\rloading   0 %"));
    assert_non_null(strstr(text, "\rloading 100 %\r\033[K"));
    assert_true(n < 1500); /* drawn ten times a second at most, not at each of 200 reports */
}

struct heard {
    uint64_t done, total;
};

static void hear(void *ctx, uint64_t done, uint64_t total)
{
    *(struct heard *)ctx = (struct heard){done, total};
}

static void test_progress_callback(void **state)
{
    struct heard heard = {0};
    ft_progress progress = {hear, &heard}, silent = {0};
    ft_progress_report(&progress, 3, 9);
    assert_int_equal(heard.done, 3);
    assert_int_equal(heard.total, 9);
    ft_progress_report(&silent, 4, 9);
    assert_int_equal(heard.done, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_format),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_foreign_text_stays_on_its_line),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_threads_do_not_mix),
        cmocka_unit_test(test_progress_is_silent_off_a_terminal),
        cmocka_unit_test(test_progress_draws_on_a_terminal),
        cmocka_unit_test(test_progress_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
