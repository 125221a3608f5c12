// SPDX-License-Identifier: Apache-2.0
// A child process and its output. Stateless.
#include "support/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

json_t *program_json(int *status, const char *format, ...)
{
    char arguments[2048], command[4096];
    const char *binary = getenv("FT_BINARY");
    va_list list;
    assert_non_null(binary);
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(command, sizeof command, "FORETOKEN_LOG=error '%s' %s 2>/dev/null", binary, arguments);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *json = json_loadf(out, 0, NULL);
    int code = pclose(out);
    *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    return json;
}

double program_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}
