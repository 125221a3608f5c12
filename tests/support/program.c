// SPDX-License-Identifier: Apache-2.0
// Child processes and their output. Stateless.
#include "support/program.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COMMAND_SZ 6144

/* A shell's command: the program with these arguments, between `before` and `after`. */
static void make_command(char out[COMMAND_SZ], const char *before, const char *after,
                         const char *format, va_list list)
{
    char arguments[COMMAND_SZ / 2];
    const char *binary = getenv("FT_BINARY");
    assert_non_null(binary);
    vsnprintf(arguments, sizeof arguments, format, list);
    snprintf(out, COMMAND_SZ, "%s'%s' %s %s", before, binary, arguments, after);
}

json_t *program_json(int *status, const char *format, ...)
{
    char command[COMMAND_SZ];
    va_list list;
    va_start(list, format);
    make_command(command, "FORETOKEN_LOG=error ", "2>/dev/null", format, list);
    va_end(list);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *json = json_loadf(out, 0, NULL);
    int code = pclose(out);
    *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    return json;
}

void program_refuses(const char *said, const char *format, ...)
{
    char command[COMMAND_SZ], text[2048];
    va_list list;
    va_start(list, format);
    make_command(command, "", "2>&1 >/dev/null", format, list);
    va_end(list);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    assert_int_not_equal(pclose(out), 0);
    if (!strstr(text, said))
        fail_msg("%s: '%s', not '%s'", command, text, said);
}

double program_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

program program_start(const char *const *args)
{
    const char *argv[32] = {getenv("FT_BINARY")};
    int fd[2];
    assert_non_null(argv[0]);
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    for (size_t i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    program p = {.pid = fork()};
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        dup2(fd[1], 1);
        dup2(fd[1], 2);
        setenv("FORETOKEN_LOG", "info", 1);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(fd[1]);
    p.out = fdopen(fd[0], "r");
    assert_non_null(p.out);
    return p;
}

int program_wait_number(program *p, const char *mark, const char *before)
{
    char line[1024];
    while (fgets(line, sizeof line, p->out)) {
        const char *at = strstr(line, mark);
        if (at && (at = strstr(at, before)))
            return atoi(at + strlen(before));
    }
    return -1;
}

int program_wait_port(program *p, const char *mark)
{
    return program_wait_number(p, mark, "127.0.0.1:");
}

int program_wait_end(program *p)
{
    char line[1024];
    int status;
    while (fgets(line, sizeof line, p->out)) {
    }
    fclose(p->out);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int program_stop(program *p)
{
    kill(p->pid, SIGTERM);
    return program_wait_end(p);
}
