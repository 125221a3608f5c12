// SPDX-License-Identifier: Apache-2.0
// The program's `info`: what it tells of a vocabulary, for programs that serve one.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

/* The tokens that end a text, of a tiny model whose last token is this one. */
static json_t *ends_of(const char *last_token, int *size)
{
    int status;
    const tiny_gguf_opts opts = {.seed = 3, .last_token = last_token};
    char *file = tiny_gguf_temp(&opts);
    json_t *info = program_json(&status, "info '%s' --json", file);
    assert_int_equal(status, 0);
    const json_t *vocabulary = json_object_get(info, "vocabulary");
    *size = (int)json_integer_value(json_object_get(vocabulary, "size"));
    json_t *ends = json_incref(json_object_get(vocabulary, "ends"));
    json_decref(info);
    unlink(file);
    free(file);
    return ends;
}

static void test_ends(void **state)
{
    int size;
    (void)state;
    json_t *ends = ends_of("plain", &size), *want = json_pack("[i, i]", 0, 2);
    assert_true(json_equal(ends, want));
    json_decref(ends);
    ends = ends_of("<|eot_id|>", &size);
    json_array_append_new(want, json_integer(size - 1));
    assert_true(json_equal(ends, want));
    json_decref(ends);
    json_decref(want);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
