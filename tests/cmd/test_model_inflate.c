// SPDX-License-Identifier: Apache-2.0
// The program's `model inflate` (cmd_model_inflate): two words as a command, its JSON, its exit
// status.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

static json_int_t number(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static void test_command(void **state)
{
    int status;
    (void)state;
    const tiny_gguf_opts opts = {.arch = "qwen3", .type = GGML_TYPE_Q4_0, .n_layer = 2, .seed = 3};
    char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
    json_t *json = program_json(&status, "model inflate '%s' '%s' --layers 7 --json", in, out);
    assert_int_equal(status, 0);
    assert_int_equal(number(json, "in_layers"), 2);
    assert_int_equal(number(json, "layers"), 7);
    assert_true(number(json, "out_bytes") > number(json, "in_bytes"));
    json_decref(json);
    json = program_json(&status, "info '%s' --json", out);
    assert_int_equal(status, 0);
    assert_int_equal(number(json_object_get(json, "hparams"), "n_layer"), 7);
    json_decref(json);
    assert_null(program_json(&status, "model inflate '%s' '%s' --layers 7", out, in));
    assert_int_equal(status, 1);
    assert_null(program_json(&status, "model inflate '%s' '%s'", in, out));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "model deflate a b --layers 2"));
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
