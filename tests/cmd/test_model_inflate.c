// SPDX-License-Identifier: Apache-2.0
// The program's `model inflate` (cmd_model_inflate): two words as a command, its JSON, its exit status.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/tiny_gguf.h"

/* Standard output as JSON; *status is the exit status. NULL: no JSON. */
static json_t *run(const char *args, int *status)
{
    char command[2048];
    const char *binary = getenv("FT_BINARY");
    assert_non_null(binary);
    snprintf(command, sizeof command, "FORETOKEN_LOG=error '%s' %s 2>/dev/null", binary, args);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *json = json_loadf(out, JSON_DISABLE_EOF_CHECK, NULL);
    *status = WEXITSTATUS(pclose(out));
    return json;
}

static json_int_t number(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static void test_command(void **state)
{
    char args[1024];
    int status;
    (void)state;
    const tiny_gguf_opts opts = {.arch = "qwen3", .type = GGML_TYPE_Q4_0, .n_layer = 2, .seed = 3};
    char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
    snprintf(args, sizeof args, "model inflate '%s' '%s' --layers 7 --json", in, out);
    json_t *json = run(args, &status);
    assert_int_equal(status, 0);
    assert_int_equal(number(json, "in_layers"), 2);
    assert_int_equal(number(json, "layers"), 7);
    assert_true(number(json, "out_bytes") > number(json, "in_bytes"));
    json_decref(json);
    snprintf(args, sizeof args, "info '%s' --json", out);
    json = run(args, &status);
    assert_int_equal(status, 0);
    assert_int_equal(number(json_object_get(json, "hparams"), "n_layer"), 7);
    json_decref(json);
    snprintf(args, sizeof args, "model inflate '%s' '%s' --layers 7", out, in);
    assert_null(run(args, &status));
    assert_int_equal(status, 1);
    snprintf(args, sizeof args, "model inflate '%s' '%s'", in, out);
    assert_null(run(args, &status));
    assert_int_equal(status, 2);
    assert_null(run("model deflate a b --layers 2", &status));
    assert_int_equal(status, 2);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
